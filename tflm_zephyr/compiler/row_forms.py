# SPDX-License-Identifier: Apache-2.0
"""From a layer's call for the whole tensor to its call for some rows: dims, shapes, counts and padding change.

Rows are those of NHWC tensors of one image. Top padding is what is left of it for the first of the rows, and only rows
that exist are given, as kernels take no negative padding. An image one row high is taken as one pixel wide, which has
the same bytes: its pixels are the rows, and kernels get their widths as heights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tflm_zephyr.compiler.ir.calls import KernelCall
from tflm_zephyr.compiler.ir.kernels import helper_kernel
from tflm_zephyr.compiler.ir.layers import KernelLayer
from tflm_zephyr.compiler.ir.operands import AddressOf, Dims, Operand, Shape
from tflm_zephyr.compiler.ir.row_operands import (
    Change,
    FlatRowShape,
    RowCount,
    RowDims,
    RowElements,
    RowEnd,
    RowParameters,
    RowShape,
    RowTimes,
    RowWeights,
    Side,
    Sums,
    WindowRows,
)
from tflm_zephyr.compiler.ir.rows import Gathering, RowForm, RowInput
from tflm_zephyr.compiler.ir.structs import ConstantAt, Pointer, Struct, TensorAt
from tflm_zephyr.compiler.layer_builder import LayerBuilder
from tflm_zephyr.model import Tensor, TensorType
from tflm_zephyr.row_planner import Window

_OWN_LOOP = {"": 0.0, "dsp": 0.1, "helium": 0.8}
"""The share that a product in a loop of the generated code takes more than in CMSIS-NN's, by core."""

ADD_PIXELS = helper_kernel("AddPixels")
ADD_PRODUCTS = helper_kernel("AddProducts", "tensorflow/lite/kernels/internal/common.h")
RowRule = Callable[[LayerBuilder, KernelLayer], RowForm]
"""A family's function that makes a layer's form for rows; it raises NotByRowsError."""


class NotByRowsError(Exception):
    """The layer cannot run row by row; the text says why."""


def one_call(layer: KernelLayer) -> KernelCall:
    """The layer's call. NotByRowsError where there are several."""
    if len(layer.calls) != 1:
        raise NotByRowsError("is no single call")
    return layer.calls[0]


def rows_of(pointer: str, tensor: Tensor, window: Window | None = None) -> RowInput:
    """The tensor's rows. NotByRowsError for one that is no image."""
    if not is_image(tensor):
        raise NotByRowsError("has tensors that are no single image")
    rows, pixels = sides(tensor)
    row_bytes = pixels * tensor.shape[3] * tensor.type.size_bytes
    return RowInput(pointer, tensor.type, rows, row_bytes, window or Window(tensor.index))


def is_image(tensor: Tensor) -> bool:
    """Whether a tensor has rows: one image, in NHWC."""
    return len(tensor.shape) == 4 and tensor.shape[0] == 1 and tensor.elements > 0


def sides(tensor: Tensor) -> tuple[int, int]:
    """An image's rows, and the pixels of each."""
    _, height, width, _ = tensor.shape
    return (height, width) if height > 1 else (width, height)


def lies_flat(b: LayerBuilder) -> bool:
    """Whether a layer's input is one row high, so that pixels are rows. NotByRowsError where its output is not."""
    source, output = b.node.input(0), b.node.output()
    if not is_image(source) or not is_image(output):
        raise NotByRowsError("has tensors that are no single image")
    flat = source.shape[1] == 1 and source.shape[2] > 1
    if output.shape[2] > 1 and flat != (output.shape[1] == 1):
        raise NotByRowsError("has one of input and output one row high, the other one not")
    return flat


def arm_windowed(b: LayerBuilder, layer: KernelLayer, window: Window, *, places: tuple[int, int, int, int]) -> RowForm:
    """A function of CMSIS-NN. `places` are the operands with parameters, and dims of input, filter and output."""
    call, source, output = one_call(layer), b.node.input(0), b.node.output()
    given, taken = rows_of("input", source, window), rows_of("output", output)
    parameters, _, weights, _ = places
    changed: dict[int, Operand] = {places[1]: _dims(Side.INPUT, source), places[3]: _dims(Side.OUTPUT, output)}
    if lies_flat(b):
        dims = call.operands[weights]
        assert isinstance(dims, Dims)
        changed[parameters] = _parameters(call.operands[parameters], Change.TURNED)
        changed[weights] = b.dims(dims.n, dims.w, dims.h, dims.c)
    elif window.padding:
        changed[parameters] = _parameters(call.operands[parameters], Change.PADDING)
    return _changed(call, changed, given, taken, output)


def reference_windowed(
    b: LayerBuilder, layer: KernelLayer, window: Window, *, places: tuple[int, int, int | None, int]
) -> RowForm:
    """A reference function. `places` are the operands with parameters, and shapes of input, weights and output."""
    call, source, output = one_call(layer), b.node.input(0), b.node.output()
    given, taken = rows_of("input", source, window), rows_of("output", output)
    parameters, _, weights, _ = places
    changed: dict[int, Operand] = {places[1]: _shape(Side.INPUT, source), places[3]: _shape(Side.OUTPUT, output)}
    if lies_flat(b):
        changed[parameters] = _parameters(call.operands[parameters], Change.TURNED)
        if weights is not None:
            changed[weights] = b.shape(tuple(b.node.input(1).shape[k] for k in (0, 2, 1, 3)))
    elif window.padding:
        changed[parameters] = _parameters(call.operands[parameters], Change.PADDING)
    return _changed(call, changed, given, taken, output)


def elementwise(b: LayerBuilder, layer: KernelLayer, *, count: int = -1) -> RowForm:
    """A function that goes through elements of tensors of one shape: counts, shapes and dims of the output's change.

    `count` is the place of the number of elements in its operands, for one that takes no shapes.
    """
    call, output = one_call(layer), b.node.output()
    read = [pointer for pointer in layer.pointers if not pointer.written]
    tensors = [b.node.subgraph.tensors[pointer.tensor] for pointer in read]
    if any(tensor.shape != output.shape for tensor in tensors) or not read:
        raise NotByRowsError("has inputs of other shapes than its output")
    if sum(i >= 0 for i in b.node.operator.inputs) != len({tensor.index for tensor in tensors}):
        raise NotByRowsError("has an input that is a constant, or twice the same")
    given = tuple(rows_of(pointer.name, tensor) for pointer, tensor in zip(read, tensors, strict=True))
    row = sides(output)[1] * output.shape[3] if is_image(output) else 0
    operands = [_of_elements(operand, output, row) for operand in call.operands]
    if operands[count] == output.elements:
        operands[count] = RowElements(row)
    if tuple(operands) == call.operands:
        raise NotByRowsError(f"is computed by {call.kernel.qualified_name}(), which takes no rows")
    taken = rows_of("output", output)
    return RowForm(given, taken, KernelCall(call.kernel, tuple(operands)))


def _of_elements(operand: Operand, output: Tensor, row: int) -> Operand:
    """An element-wise function's operand for some rows, of `row` elements each."""
    match operand:
        case Shape(sizes) if sizes == output.shape:
            return FlatRowShape(row)
        case Dims() if operand.sizes == output.shape:
            return _dims(Side.BOTH, output)
        case TensorAt(pointer, element) if element == output.elements:
            return RowEnd(TensorAt(pointer), row)
    return operand


def scaled(b: LayerBuilder, layer: KernelLayer) -> RowForm:
    """An element-wise reference function of an image and one value for each of its channels."""
    call, output = one_call(layer), b.node.output()
    read = {pointer.tensor: pointer for pointer in layer.pointers if not pointer.written}
    shapes = {tensor: b.node.subgraph.tensors[tensor].shape for tensor in read}
    image = next((tensor for tensor, shape in shapes.items() if shape == output.shape), None)
    scales = next((tensor for tensor in read if tensor != image), None)
    planned = sum(i >= 0 for i in b.node.operator.inputs) == len(read)
    if image is None or scales is None or not planned or shapes[scales] != (1, 1, 1, output.shape[-1]):
        raise NotByRowsError("has inputs that are no image and a value for each of its channels")
    tensors = b.node.subgraph.tensors
    given = (
        rows_of(read[image].name, tensors[image]),
        rows_of(read[scales].name, tensors[scales], Window(scales, stride=0)),
    )
    whole = Shape(output.shape)
    if whole not in call.operands:
        raise NotByRowsError(f"is computed by {call.kernel.qualified_name}(), which takes no rows")
    operands = tuple(_shape(Side.OUTPUT, output) if one == whole else one for one in call.operands)
    taken = rows_of("output", output)
    return RowForm(given, taken, KernelCall(call.kernel, operands))


def padded(b: LayerBuilder, layer: KernelLayer, above: int) -> RowForm:
    """The reference function of PAD, `above` rows of padding above the input."""
    call, source, output = one_call(layer), b.node.input(0), b.node.output()
    if source.shape[1] == 1:
        raise NotByRowsError("has an input one row high")
    given, taken = rows_of("input", source, Window(source.index, padding=above)), rows_of("output", output)
    changed: dict[int, Operand] = {
        0: _parameters(call.operands[0], Change.PADDED),
        1: _shape(Side.INPUT, source),
        4: _shape(Side.OUTPUT, output),
    }
    return _changed(call, changed, given, taken, output)


def gathered(b: LayerBuilder, last: KernelCall) -> RowForm:
    """Sums of each channel over all pixels, which the call `last` makes the output of."""
    source, output = b.node.input(0), b.node.output()
    given = rows_of("input", source)
    width, channels = sides(source)[1], source.shape[3]
    if output.elements != channels:
        raise NotByRowsError("keeps some of its input's pixels")
    call = KernelCall(ADD_PIXELS, (input_of(b), RowTimes(width), channels, Sums()))
    kind = TensorType.FLOAT32 if source.type is TensorType.FLOAT32 else TensorType.INT32
    return RowForm((_as_one_row(given),), _whole_output(b), call, gathering=Gathering(channels, last, kind))


def gathered_products(b: LayerBuilder, weights: ConstantAt, offset: int, last: KernelCall) -> RowForm:
    """Sums of products of all elements and a row of `weights` for each output, which `last` makes the output of.

    The loop over products is the generated code's own: `row_work` is the share of the work that it takes more than the
    kernel for the whole tensor, by what was measured.
    """
    source, output = b.node.input(0), b.node.output()
    given = rows_of("input", source)
    row = given.row_bytes // source.type.size_bytes
    operands = (
        input_of(b), RowTimes(row), RowWeights(weights, row), source.elements, output.elements, offset, Sums(),
    )  # fmt: skip
    return RowForm(
        (_as_one_row(given),),
        _whole_output(b),
        KernelCall(ADD_PRODUCTS, operands),
        gathering=Gathering(output.elements, last),
        row_work=_OWN_LOOP["helium" if any(mve for _, mve in b.cores) else "dsp" if any(d for d, _ in b.cores) else ""],
    )


def _as_one_row(given: RowInput) -> RowInput:
    """An input all of whose rows the one output row depends on."""
    return replace(given, window=Window(given.tensor, size=given.rows))


def _whole_output(b: LayerBuilder) -> RowInput:
    output = b.node.output()
    return RowInput("output", output.type, 1, output.size_bytes, Window(output.index))


def input_of(b: LayerBuilder) -> TensorAt:
    """The rows of input 0 in a layer's call for some rows."""
    source = b.node.input(0)
    return TensorAt(Pointer("input", source.type, source.index, written=False))


def output_of(b: LayerBuilder) -> TensorAt:
    """The place of the output in a layer's call for some rows."""
    output = b.node.output()
    return TensorAt(Pointer("output", output.type, output.index, written=True))


def _dims(side: Side, tensor: Tensor) -> RowDims:
    rows = WindowRows() if side is Side.INPUT else RowCount()
    return RowDims(side, rows, sides(tensor)[1], tensor.shape[3])


def _shape(side: Side, tensor: Tensor) -> RowShape:
    rows = WindowRows() if side is Side.INPUT else RowCount()
    return RowShape(side, rows, sides(tensor)[1], tensor.shape[3])


def _parameters(operand: Operand, change: Change) -> RowParameters:
    struct = operand.value if isinstance(operand, AddressOf) else operand
    assert isinstance(struct, Struct)
    return RowParameters(struct, change, pointer=isinstance(operand, AddressOf))


def _changed(
    call: KernelCall, changed: Mapping[int, Operand], given: RowInput, taken: RowInput, output: Tensor
) -> RowForm:
    """The call with other operands at some places."""
    operands = list(call.operands)
    for place, operand in changed.items():
        operands[place] = operand
    return RowForm((given,), taken, KernelCall(call.kernel, tuple(operands)))

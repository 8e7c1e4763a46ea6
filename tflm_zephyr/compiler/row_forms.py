# SPDX-License-Identifier: Apache-2.0
"""From a layer's call for the whole tensor to its call for some rows: dims, shapes, counts and padding change.

Rows are those of NHWC tensors of one image. Top padding is what is left of it for the first of the rows, and only rows
that exist are given, as kernels take no negative padding. An image one row high is taken as one pixel wide, which has
the same bytes: its pixels are the rows, and kernels get their widths as heights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tflm_zephyr.compiler.layer_builder import LayerBuilder
from tflm_zephyr.compiler.program import Call, Layer
from tflm_zephyr.compiler.row_program import Gathering, RowForm, RowInput
from tflm_zephyr.model import Tensor
from tflm_zephyr.row_planner import Window

_OWN_LOOP = {"": 0.0, "dsp": 0.1, "helium": 0.8}
"""Multiply-accumulates that a product in a loop of the generated code takes more than in CMSIS-NN's, by core."""

RowRule = Callable[[LayerBuilder, Layer], RowForm]
"""A family's function that makes a layer's form for rows; it raises NotByRowsError."""


class NotByRowsError(Exception):
    """The layer cannot run row by row; the text says why."""


def one_call(layer: Layer) -> Call:
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
    return RowInput(pointer, tensor.type.c_type, rows, row_bytes, window or Window(tensor.index))


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


def arm_windowed(
    b: LayerBuilder, layer: Layer, window: Window, c_type: str, *, places: tuple[int, int, int, int]
) -> RowForm:
    """A function of CMSIS-NN. `places` are the arguments with parameters, and dims of input, filter and output."""
    call, source, output = one_call(layer), b.node.input(0), b.node.output()
    given, taken = rows_of("input", source, window), rows_of("output", output)
    changed = {places[1]: "&input_dims", places[3]: "&output_dims"}
    found = [
        f"const cmsis_nn_dims input_dims = {{1, window.rows, {sides(source)[1]}, {source.shape[3]}}};",
        f"const cmsis_nn_dims output_dims = {{1, count, {sides(output)[1]}, {output.shape[3]}}};",
    ]
    if lies_flat(b):
        filter_dims = call.arguments[places[2]].removeprefix("&kDims").split("x")
        changed |= {places[0]: "&params", places[2]: b.dims(*(int(filter_dims[k]) for k in (0, 2, 1, 3)))}
        found += [
            f"{c_type} params = kParams;",
            "params.stride = {kParams.stride.h, kParams.stride.w};",
            "params.padding = {kParams.padding.h, window.padding};",
        ]
        if "pool" not in c_type:
            found.append("params.dilation = {kParams.dilation.h, kParams.dilation.w};")
    elif window.padding:
        found += [f"{c_type} params = kParams;", "params.padding.h = window.padding;"]
        changed[places[0]] = "&params"
    return _changed(call, changed, (given,), taken, found, output)


def reference_windowed(
    b: LayerBuilder, layer: Layer, window: Window, *, places: tuple[int, int, int | None, int]
) -> RowForm:
    """A reference function. `places` are the arguments with parameters, and shapes of input, weights and output."""
    call, source, output = one_call(layer), b.node.input(0), b.node.output()
    given, taken = rows_of("input", source, window), rows_of("output", output)
    changed = {places[1]: "input_shape", places[3]: "output_shape"}
    found = [*_shape("input", "window.rows", source), *_shape("output", "count", output)]
    if lies_flat(b):
        found += [
            "auto params = kParams;",
            "params.padding_values.width = kParams.padding_values.height;",
            "params.padding_values.height = window.padding;",
        ]
        names = "stride", "filter" if places[2] is None else "dilation"
        for name in names:
            one, other = (f"{name}_{side}{'_factor' if name == 'dilation' else ''}" for side in ("width", "height"))
            found += [f"params.{one} = kParams.{other};", f"params.{other} = kParams.{one};"]
        changed[places[0]] = "params"
        if places[2] is not None:
            changed[places[2]] = b.shape(tuple(b.node.input(1).shape[k] for k in (0, 2, 1, 3)))
    elif window.padding:
        found += ["auto params = kParams;", "params.padding_values.height = window.padding;"]
        changed[places[0]] = "params"
    return _changed(call, changed, (given,), taken, found, output)


def elementwise(b: LayerBuilder, layer: Layer, *, count: int = -1) -> RowForm:
    """A function that goes through elements of tensors of one shape: counts, shapes and dims of the output's change.

    `count` is the place of the number of elements in its arguments, for one that takes no shapes.
    """
    call, output = one_call(layer), b.node.output()
    read = [pointer for pointer in layer.pointers if not pointer.written]
    tensors = [b.node.subgraph.tensors[pointer.tensor] for pointer in read]
    if any(tensor.shape != output.shape for tensor in tensors) or not read:
        raise NotByRowsError("has inputs of other shapes than its output")
    if sum(i >= 0 for i in b.node.operator.inputs) != len({tensor.index for tensor in tensors}):
        raise NotByRowsError("has an input that is a constant, or twice the same")
    given = tuple(rows_of(pointer.name, tensor) for pointer, tensor in zip(read, tensors, strict=True))
    shape, end = b.shape(output.shape), f"{given[0].pointer} + {output.elements}"
    dims = b.dims(*output.shape) if b.cmsis_nn else ""
    texts = {shape: "shape", end: f"{given[0].pointer} + elements", dims: "&dims"}
    arguments = [texts.get(argument, argument) for argument in call.arguments]
    if arguments[count] == str(output.elements):
        arguments[count] = "elements"
    used = {"elements", *(text.lstrip("&") for text, old in zip(arguments, call.arguments, strict=True) if text != old)}
    if tuple(arguments) == call.arguments:
        raise NotByRowsError(f"is computed by {call.function}(), which takes no rows")
    row = sides(output)[1] * output.shape[3] if is_image(output) else 0
    found = [] if used == {"elements", "dims"} else [f"const int32_t elements = count * {row};"]
    found += ["const tflite::RuntimeShape shape(1, &elements);"] if "shape" in used else []
    found += (
        [f"const cmsis_nn_dims dims = {{1, count, {sides(output)[1]}, {output.shape[3]}}};"] if "dims" in used else []
    )
    return RowForm(
        given, rows_of("output", output), call.function, tuple(arguments), call.success, tuple(found),
        pixels=sides(output)[1],
    )  # fmt: skip


def scaled(b: LayerBuilder, layer: Layer) -> RowForm:
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
    arguments = tuple("output_shape" if text == b.shape(output.shape) else text for text in call.arguments)
    if arguments == call.arguments:
        raise NotByRowsError(f"is computed by {call.function}(), which takes no rows")
    found = tuple(_shape("output", "count", output))
    return RowForm(
        given, rows_of("output", output), call.function, arguments, call.success, found, pixels=sides(output)[1]
    )


def padded(b: LayerBuilder, layer: Layer, above: int) -> RowForm:
    """The reference function of PAD, `above` rows of padding above the input."""
    call, source, output = one_call(layer), b.node.input(0), b.node.output()
    if source.shape[1] == 1:
        raise NotByRowsError("has an input one row high")
    given, taken = rows_of("input", source, Window(source.index, padding=above)), rows_of("output", output)
    found = [
        *_shape("input", "window.rows", source),
        *_shape("output", "count", output),
        "auto params = kParams;",
        "params.left_padding[1] = std::min(window.padding, count);",
        "params.right_padding[1] = count - params.left_padding[1] - window.rows;",
    ]
    return _changed(call, {0: "params", 1: "input_shape", 4: "output_shape"}, (given,), taken, found, output)


def gathered(b: LayerBuilder, last: str) -> RowForm:
    """Sums of each channel over all pixels, which the statement `last` makes the output of."""
    source, output = b.node.input(0), b.node.output()
    given = rows_of("input", source)
    width, channels = sides(source)[1], source.shape[3]
    if output.elements != channels:
        raise NotByRowsError("keeps some of its input's pixels")
    window = Window(source.index, size=given.rows)
    taken = RowInput("output", output.type.c_type, 1, output.size_bytes, Window(output.index))
    arguments = ("input", f"count * {width}", str(channels), "sums")
    given = RowInput("input", given.c_type, given.rows, given.row_bytes, window)
    gathering = Gathering(channels, last, "float" if given.c_type == "float" else "int32_t")
    return RowForm((given,), taken, "AddPixels", arguments, gathering=gathering, pixels=width)


def gathered_products(b: LayerBuilder, weights: str, offset: int, last: str) -> RowForm:
    """Sums of products of all elements and a row of `weights` for each output, which `last` makes the output of.

    The loop over products is the generated code's own: `row_work` is the share of the work that it takes more than the
    kernel for the whole tensor, by what was measured.
    """
    source, output = b.node.input(0), b.node.output()
    given = rows_of("input", source)
    row = given.row_bytes // source.type.size_bytes
    given = RowInput("input", given.c_type, given.rows, given.row_bytes, Window(source.index, size=given.rows))
    taken = RowInput("output", output.type.c_type, 1, output.size_bytes, Window(output.index))
    arguments = (
        "input", f"count * {row}", f"{weights} + result.next * {row}", str(source.elements), str(output.elements),
        str(offset), "sums",
    )  # fmt: skip
    return RowForm(
        (given,),
        taken,
        "AddProducts",
        arguments,
        gathering=Gathering(output.elements, last),
        pixels=sides(source)[1],
        headers=("tensorflow/lite/kernels/internal/common.h",),
        row_work=_OWN_LOOP["helium" if any(mve for _, mve in b.cores) else "dsp" if any(d for d, _ in b.cores) else ""],
    )


def _shape(name: str, rows: str, tensor: Tensor) -> list[str]:
    return [
        f"const int32_t {name}_sizes[] = {{1, {rows}, {sides(tensor)[1]}, {tensor.shape[3]}}};",
        f"const tflite::RuntimeShape {name}_shape(4, {name}_sizes);",
    ]


def _changed(
    call: Call,
    changed: dict[int, str],
    given: tuple[RowInput, ...],
    taken: RowInput,
    found: Sequence[str],
    output: Tensor,
) -> RowForm:
    arguments = list(call.arguments)
    for place, text in changed.items():
        arguments[place] = text
    return RowForm(given, taken, call.function, tuple(arguments), call.success, tuple(found), pixels=sides(output)[1])

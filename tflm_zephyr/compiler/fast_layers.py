# SPDX-License-Identifier: Apache-2.0
"""CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED in int8 as calls of our own kernels (fast_kernels).

The kernels are C++ templates over shapes, in templates/app/compiled/src/fast_kernels.hpp.j2. Sources of the parameters:
operators/convolution.py and operators/dense.py, which have them for the other kernel libraries.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tflm_zephyr.compiler.fast_rounding import (
    NotFastError,
    Quantities,
    Requantisation,
    Sums,
    joined,
    requantisation,
)
from tflm_zephyr.compiler.fixed_point import Multiplier
from tflm_zephyr.compiler.ir.calls import KernelCall
from tflm_zephyr.compiler.ir.kernels import Geometry, Kernel, Rounding, own_kernel
from tflm_zephyr.compiler.ir.layers import KernelLayer
from tflm_zephyr.compiler.ir.operands import Null, Operand
from tflm_zephyr.compiler.ir.row_operands import RowCount, RowTimes, WindowPadding, WindowRows
from tflm_zephyr.compiler.ir.rows import RowForm
from tflm_zephyr.compiler.ir.structs import ConstantAt
from tflm_zephyr.compiler.layer_builder import LayerBuilder, int32s
from tflm_zephyr.compiler.operators.weights import channel_multipliers, clamp_of, dense_multiplier, window_of
from tflm_zephyr.compiler.row_forms import NotByRowsError, lies_flat, rows_of
from tflm_zephyr.fast_kernels import (
    LANES,
    PIXELS,
    Block,
    Rows,
    in_lanes,
    in_pairs,
    joined_pairs,
    of_pixels,
    of_rows,
    of_windows,
)
from tflm_zephyr.kernels import zero_point_of
from tflm_zephyr.model import TensorType
from tflm_zephyr.row_planner import Window

_MOST_TAPS = 32  # of a depthwise window, which is unrolled
_LANES_BYTES, _MOST_OFFSET = 3072, 1012
_STEP_ROWS = 12  # input rows: with more the output would have to lie further away from the input
_NARROW = 4
_LEAST_PIXELS = 12
_INT8 = "i0 int8 i1 int8 o0 int8"
_STEP = 2  # the place of Depthwise's rows at a time in its template
_RowOperands = Mapping[int, Callable[[Rows], Operand]]
"""By place, an operand of the call for some rows, whose geometry is given."""
_BY_WINDOWS: _RowOperands = {1: lambda _: WindowRows(), 2: lambda _: WindowPadding(), 4: lambda _: RowCount()}


def own_dense(b: LayerBuilder) -> KernelLayer:
    """FULLY_CONNECTED as a call of our kernel. NotFastError where that does not take it."""
    _check(b)
    layer = _dense(b)
    return replace(layer, no_rows="has one of our kernels for vectors, which takes its input at once")


def own_convolution(b: LayerBuilder) -> KernelLayer:
    """CONV_2D and DEPTHWISE_CONV_2D as a call of our kernel. NotFastError where that does not take it."""
    _check(b)
    return _convolution(b)


def _check(b: LayerBuilder) -> None:
    """NotFastError for types, tensors and cores that none of our kernels takes."""
    node = b.node
    if not b.node.fits(_INT8):
        raise NotFastError(f"is of {node.types}")
    if any(mve for _, mve in b.cores):
        raise NotFastError("runs on a core with Helium, which CMSIS-NN's kernels use")
    source, weights, output, bias = node.input(0), node.input(1), node.output(), node.optional_input(2)
    if source.is_constant or weights.data is None or (bias is not None and bias.data is None):
        raise NotFastError("has an input that is a constant, or weights or a bias that are computed")
    if bias is not None and bias.type is not TensorType.INT32:
        raise NotFastError(f"has a bias of {bias.type.value}")
    if len(weights.data) != weights.elements or weights.quantization is None or any(weights.quantization.zero_points):
        raise NotFastError("has weights that are packed, or with a zero point")
    if not output.elements or not source.elements:
        raise NotFastError("has tensors without elements")


def _sums(b: LayerBuilder, channels: int, *, last: bool, multipliers: Sequence[Multiplier]) -> Sums:
    """`last`: the weights' last dimension is the channels', not the first one."""
    import numpy

    weights, bias = b.node.input(1), b.node.optional_input(2)
    table = numpy.frombuffer(weights.data or b"", numpy.int8).astype(numpy.int64)
    table = table.reshape(-1, channels).T if last else table.reshape(channels, -1)
    start = (0,) * channels if bias is None else struct.unpack(f"<{channels}i", bias.data or b"")
    return Sums(table, start, tuple(multipliers))


def _dense(b: LayerBuilder) -> KernelLayer:
    node = b.node
    weights, output = node.input(1), node.output()
    if len(weights.shape) != 2 or output.shape[-1] != weights.shape[0]:
        raise NotFastError("has shapes that do not fit each other")
    channels, depth = weights.shape
    per_channel = weights.quantization is not None and weights.quantization.per_channel
    found = channel_multipliers(node, channels) if per_channel else (dense_multiplier(node),) * channels
    sums = _sums(b, channels, last=False, multipliers=found)
    pixels = output.elements // channels
    if node.input(0).elements != pixels * depth:
        raise NotFastError("has shapes that do not fit each other")
    if pixels > 1:
        _pixels(b, sums, pixels, depth)
        return b.build()
    rounding, scaling = _scaling(b, sums)
    paired = all(dsp for dsp, _ in b.cores)
    packed = _array(b, (in_pairs if paired else in_lanes)(sums.weights.astype("int8")))
    kernel = own_kernel("Dense", depth, channels, paired, rounding)
    _call(b, kernel, (b.source(0, "input"), b.result(), packed, scaling), (), ())
    return b.build()


def _call(
    b: LayerBuilder,
    kernel: Kernel,
    operands: tuple[Operand, ...],
    blocks: tuple[Block, ...],
    backwards: tuple[Block, ...],
) -> None:
    """A call that goes through its `blocks`; the same `backwards` has a last template argument."""
    call = KernelCall(kernel, operands, *b.accesses(), copies=True, blocks=blocks)
    if backwards:
        turned = replace(kernel, template=(*kernel.template, True))
        call = replace(call, reverse=replace(call, kernel=turned, blocks=backwards))
    b.add(call)


def _pixels(b: LayerBuilder, sums: Sums, pixels: int, depth: int) -> None:
    """The call of Pointwise."""
    rounding, scaling, weights = _pairs(b, sums)
    expanded = _expanded(b)
    operands = (
        *(b.source(0, "input"), b.result(), pixels, weights, scaling),
        b.scratch(_pairs_bytes(depth) if expanded and pixels >= PIXELS else 0),
    )
    _call(
        b,
        own_kernel("Pointwise", depth, sums.channels, expanded, rounding),
        operands,
        of_pixels(pixels, depth, sums.channels),
        of_pixels(pixels, depth, sums.channels, backwards=True),
    )


def _expanded(b: LayerBuilder) -> bool:
    """Whether a core has the DSP extension, which multiplies int16 in pairs."""
    return any(dsp for dsp, _ in b.cores)


def _pairs_bytes(taps: int) -> int:
    """Bytes of the taps of a block's pixels as int16; those behind the last four are taken from the input."""
    return 2 * PIXELS * (taps // 4 * 4)


def _convolution(b: LayerBuilder) -> KernelLayer:
    node = b.node
    source, weights, output = node.input(0), node.input(1), node.output()
    if not len(source.shape) == len(weights.shape) == len(output.shape) == 4:
        raise NotFastError("has tensors that are not of four dimensions")
    depthwise = node.operator.key == "DEPTHWISE_CONV_2D"
    channels, depth = output.shape[3], source.shape[3]
    if channels != weights.shape[3 if depthwise else 0] or (not depthwise and depth != weights.shape[3]):
        raise NotFastError("has groups of channels, or shapes that do not fit each other")
    stride, padding, dilation = window_of(node)
    sums = _sums(b, channels, last=depthwise, multipliers=channel_multipliers(node, channels))
    whole = weights.shape[1:3] == (1, 1) and padding == (0, 0) and stride == (1, 1)
    if whole and not depthwise:
        return _pointwise(b, sums)
    if source.shape[0] != 1:
        raise NotFastError("has several images")
    geometry = _geometry(b)
    if not depthwise or depth == 1:
        return _windows(b, sums, geometry)
    if channels != depth or dilation != (1, 1) or sums.weights.shape[1] > _MOST_TAPS:
        raise NotFastError("has a depth multiplier, dilation, or a window of many pixels")
    return _depthwise(b, sums, geometry)


def _pointwise(b: LayerBuilder, sums: Sums) -> KernelLayer:
    node = b.node
    depth = node.input(0).shape[3]
    pixels = node.output().elements // sums.channels
    _pixels(b, sums, pixels, depth)
    return _with_rows(b, b.build(), {2: lambda rows: RowTimes(rows.out_pixels)})


def _windows(b: LayerBuilder, sums: Sums, geometry: Geometry) -> KernelLayer:
    expanded, rows = _expanded(b), _rows(b)
    sums = sums.filled() if expanded else sums
    rounding, scaling, weights = _pairs(b, sums)
    operands = (
        *(b.source(0, "input"), rows.in_rows, rows.padding, b.result(), rows.out_rows, weights, scaling),
        b.scratch(_windows_bytes(b, sums.weights.shape[1], rows.out_rows * rows.out_pixels)),
    )
    kernel = own_kernel("Convolution", geometry, sums.channels, expanded, rounding)
    _call(b, kernel, operands, of_windows(rows), of_windows(rows)[::-1])
    return _with_rows(b, b.build(), _BY_WINDOWS)


def _windows_bytes(b: LayerBuilder, taps: int, pixels: int) -> int:
    """Bytes of the windows that a block is copied to: on cores with DSP one, whose taps are then expanded."""
    own = {
        taps + (_pairs_bytes(taps) if pixels >= PIXELS else 0) if dsp else min(pixels, PIXELS) * taps
        for dsp, _ in b.cores
    }
    return max(own)


def _depthwise(b: LayerBuilder, sums: Sums, geometry: Geometry) -> KernelLayer:
    rounding, scaling = _scaling(b, sums)
    rows, across = _rows(b), window_of(b.node)[0][1]
    weights = _array(b, in_lanes(sums.weights.astype("int8")))
    tile = _tile(rows.out_pixels, b.node.input(1).shape[2], across)
    padded = [one.in_bytes for one in (rows, _rows(b, turned=True)) if one.padded]
    zeros = b.constants.padding(zero_point_of(b.node.input(0)), max(padded)) if padded else Null()
    step = _step(b, rows)
    operands = (
        *(b.source(0, "input"), rows.in_rows, rows.padding, b.result(), rows.out_rows, weights, scaling),
        zeros,
        b.scratch(_lanes_bytes(rows, step, across) if step else 0),
    )
    kernel = own_kernel("Depthwise", geometry, tile, step, rounding)
    _call(b, kernel, operands, of_rows(rows, max(step, 1)), of_rows(rows, max(step, 1))[::-1])
    layer = _with_rows(b, b.build(), _BY_WINDOWS)
    leaner = (_stepped(layer, rows, less, _lanes_bytes(rows, less, across)) for less in _less(rows, step))
    return replace(layer, leaner=tuple(leaner))


def _less(rows: Rows, step: int) -> range:
    """Fewer rows at a time, as long as they have enough pixels for the work that each time costs."""
    return range(step - 1, -(-_LEAST_PIXELS // rows.out_pixels) - 1, -1)


def _stepped(layer: KernelLayer, rows: Rows, step: int, scratch: int) -> KernelLayer:
    """The layer of a depthwise convolution with `step` rows at a time."""
    (call,) = layer.calls
    assert call.reverse is not None
    blocks, ways = of_rows(rows, step), []
    for one, order in ((call, blocks), (call.reverse, blocks[::-1])):
        ways.append(replace(one, kernel=one.kernel.with_argument(_STEP, step), blocks=order))
    return replace(layer, calls=(replace(ways[0], reverse=ways[1]),), scratch_bytes=scratch)


def _tile(pixels: int, wide: int, across: int) -> int:
    """Pixels of a row that share a load of the weights: as many as registers allow, in as few steps as possible."""
    most = 4 if wide <= 3 and (across == 1 or pixels < _NARROW) else 2
    return min(range(1, most + 1), key=lambda tile: (-(-pixels // tile), tile))


def _step(b: LayerBuilder, rows: Rows) -> int:
    """Output rows that a core with DSP computes at a time, from rows of int16; 0 for windows without such code."""
    node = b.node
    stride, padding, _ = window_of(node)
    narrow = node.input(1).shape[1:3] == (3, 3) and stride[1] <= 2 and padding[1] <= 1
    if not _expanded(b) or not narrow or rows.out_pixels < _NARROW or node.input(0).shape[3] % LANES:
        return 0
    if 2 * _pitch(rows, stride[1]) > _MOST_OFFSET:
        return 0
    most = min(rows.out_rows, -(-_STEP_ROWS // rows.stride))
    return max((step for step in range(1, most + 1) if _lanes_bytes(rows, step, stride[1]) <= _LANES_BYTES), default=1)


def _pitch(rows: Rows, across: int) -> int:
    """Bytes of a channel's row of int16, which is read in pairs."""
    return 2 * (across * (rows.out_pixels + rows.out_pixels % 2) + 2)


def _lanes_bytes(rows: Rows, step: int, across: int) -> int:
    """Bytes of four channels of the input rows for `step` output rows."""
    return LANES * ((step - 1) * rows.stride + rows.size) * _pitch(rows, across)


def _array(b: LayerBuilder, packed: bytes) -> ConstantAt:
    return b.array("packed", TensorType.INT8, packed, f"{b.node.input(1).label}, laid out")


def _turned(b: LayerBuilder) -> bool:
    """Whether by rows the pixels of an image one row high are the kernel's rows. NotByRowsError where neither works."""
    flat = lies_flat(b)
    if flat and 1 not in b.node.input(1).shape[1:3]:
        raise NotByRowsError("has weights higher than its input, which is one row high")
    return flat


def _rows(b: LayerBuilder, *, turned: bool = False) -> Rows:
    """`turned`: the image's columns are the kernel's rows."""
    node, (down, across) = b.node, (1, 0) if turned else (0, 1)
    stride, padding, dilation = window_of(node)
    source, output = node.input(0).shape, node.output().shape
    return Rows(
        in_rows=source[1 + down],
        in_bytes=source[1 + across] * source[3],
        out_rows=output[1 + down],
        out_pixels=output[1 + across],
        out_bytes=output[1 + across] * output[3],
        size=(node.input(1).shape[1 + down] - 1) * dilation[down] + 1,
        stride=stride[down],
        padding=padding[down],
    )


def _geometry(b: LayerBuilder, *, turned: bool = False) -> Geometry:
    """The kernel's shape."""
    node, (down, across) = b.node, (1, 0) if turned else (0, 1)
    stride, padding, dilation = window_of(node)
    source, window, output = node.input(0).shape, node.input(1).shape, node.output().shape
    return Geometry(
        *(source[1 + across], source[3], output[1 + across], window[1 + down], window[1 + across]),
        *(stride[down], stride[across], dilation[down], dilation[across], padding[across]),
        zero_point_of(node.input(0)),
    )


def _quantities(b: LayerBuilder, sums: Sums) -> Quantities:
    low, high = clamp_of(b.node)
    zero_point, source = zero_point_of(b.node.output()), zero_point_of(b.node.input(0))
    if not -128 <= low <= high <= 127:
        raise NotFastError("has no output values")
    return Quantities(sums, source, zero_point, low, high)


def _words(b: LayerBuilder, found: Requantisation) -> ConstantAt:
    """The array of each channel's words."""
    return int32s(b, "scaling", (word for row in found.words for word in row))


def _scaling(b: LayerBuilder, sums: Sums) -> tuple[Rounding, ConstantAt]:
    found = requantisation(_quantities(b, sums))
    return found.rounding, _words(b, found)


def _pairs(b: LayerBuilder, sums: Sums) -> tuple[Rounding, ConstantAt, ConstantAt]:
    """The requantisation, and the arrays of words and of weights in pairs.

    These are joined where that is possible and all cores have DSP.
    """
    weights = sums.weights.astype("int8")
    found = joined(_quantities(b, sums)) if all(dsp for dsp, _ in b.cores) else None
    if found is not None:
        return found.rounding, _words(b, found), _array(b, joined_pairs(weights))
    return *_scaling(b, sums), _array(b, in_pairs(weights))


def _with_rows(b: LayerBuilder, layer: KernelLayer, changed: _RowOperands) -> KernelLayer:
    """The layer with its form for rows, whose call has other operands at these places."""
    source, output = b.node.input(0), b.node.output()
    try:
        turned = _turned(b)
        rows = _rows(b, turned=turned)
        window = Window(source.index, rows.size, rows.stride, rows.padding)
        given, taken = rows_of("input", source, window), rows_of("output", output)
    except NotByRowsError as reason:
        return replace(layer, no_rows=str(reason))
    (call,) = layer.calls
    operands, kernel = list(call.operands), call.kernel
    for place, operand in changed.items():
        operands[place] = operand(rows)
    if isinstance(kernel.template[0], Geometry):
        kernel = kernel.with_argument(0, _geometry(b, turned=turned))
    return replace(layer, rows=RowForm((given,), taken, KernelCall(kernel, tuple(operands))))

# SPDX-License-Identifier: Apache-2.0
"""How far output may run over input in TFLM's reference kernels, read in their loops.

tensorflow/lite/micro/kernels/*.cc and tensorflow/lite/kernels/internal/reference/, revision 8d404de7;
tflite-micro 0.dev20261023 behaves the same. An operator that is not here allows no overlap: its order of reads and
writes scatters (DEPTH_TO_SPACE, SPACE_TO_BATCH_ND), it sets the output before it reads (SUM, float TRANSPOSE_CONV),
it reads again until its end (GATHER, BATCH_MATMUL, SVDF, LSTM), or nobody has read it.
"""

from __future__ import annotations

from collections.abc import Mapping

from tflm_zephyr.kernels.in_place import moves
from tflm_zephyr.kernels.in_place.geometry import affine_lead
from tflm_zephyr.kernels.in_place.rules import (
    InPlaceDistance,
    Rule,
    at_distance,
    convolution_windows,
    depth_multiplier,
    elementwise_distance,
    pool_windows,
)
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.model import TensorType

_UNARY = (
    "ABS CAST CEIL COS DEQUANTIZE ELU EXP EXPAND_DIMS FLOOR HARD_SWISH L2_NORMALIZATION LEAKY_RELU LOG LOG_SOFTMAX "
    "LOGICAL_NOT LOGISTIC NEG QUANTIZE RELU RELU6 ROUND RSQRT SIN SOFTMAX SQRT SQUARE TANH"
).split()
_BINARY = (
    "ADD DIV EQUAL FLOOR_DIV FLOOR_MOD GREATER GREATER_EQUAL LESS LESS_EQUAL LOGICAL_AND LOGICAL_OR MAXIMUM MINIMUM "
    "MUL NOT_EQUAL PRELU SQUARED_DIFFERENCE SUB"
).split()


def table() -> Mapping[str, Rule]:
    """The rule of every kernel with a known order, by operator key."""
    rules: dict[str, Rule] = {
        "ADD_N": elementwise,
        "AVERAGE_POOL_2D": pool,
        "CONV_2D": convolution,
        "DEPTHWISE_CONV_2D": depthwise,
        "FULLY_CONNECTED": fully_connected,
        "L2_POOL_2D": pool,
        "MAX_POOL_2D": pool,
        "RESHAPE": copy_in_place,
        "SELECT_V2": elementwise,
        "SQUEEZE": copy_in_place,
        "TRANSPOSE_CONV": transpose_convolution,
    }
    return {**rules, **dict.fromkeys((*_UNARY, *_BINARY), elementwise), **moves.table()}


def convolution(node: Node) -> tuple[InPlaceDistance, ...]:
    """CONV_2D: reference/integer_ops/conv.h ConvPerChannel (int8, int16x8, int4 weights) and reference/conv.h Conv.

    Loops: batch, out_y, out_x, out_channel; inside, filter_y, filter_x and the group's in_channels are read, then
    one element is written. While a pixel's channel c is computed its pixel's place and c elements are written, and
    its window is read again from the first channel of its group. Of a group of f output and i input channels the
    last channel leads most: distance = windows' lead + element * max over groups g of ((g + 1) * f - 1 - g * i),
    which lies at the first or last group. Never above the truth but with one output channel, where the first pixel
    is counted although nothing is written yet.
    """
    windows = convolution_windows(node)
    depth, out_depth, group_depth = (node.dim(t, 3) for t in (node.input(0), node.output(), node.input(1)))
    lead = windows.lead() if windows is not None else None
    if lead is None or group_depth <= 0 or depth % group_depth or out_depth % (depth // group_depth):
        return ()
    groups = depth // group_depth
    filters = out_depth // groups
    ahead = filters - 1 + affine_lead([(groups, filters, group_depth)])
    return at_distance(lead + ahead * node.output().type.size_bytes)


def depthwise(node: Node) -> tuple[InPlaceDistance, ...]:
    """DEPTHWISE_CONV_2D: reference/integer_ops/depthwise_conv.h DepthwiseConvPerChannel, depthwiseconv_float.h.

    Loops: batch, out_y, out_x, in_channel, m; inside, filter_y and filter_x are read in one channel, then one
    element is written. At channel i's last multiple i * M + M - 1 elements of the pixel are written and element i
    of the window is read: ahead by i * (M - 1) + M - 1, most at the last of C channels: C * (M - 1).
    """
    windows, multiplier = convolution_windows(node), depth_multiplier(node)
    lead = windows.lead() if windows is not None else None
    if lead is None or multiplier is None:
        return ()
    return at_distance(lead + node.dim(node.input(0), 3) * (multiplier - 1) * node.output().type.size_bytes)


def pool(node: Node) -> tuple[InPlaceDistance, ...]:
    """AVERAGE_POOL_2D, MAX_POOL_2D, L2_POOL_2D: reference/integer_ops/pooling.h and reference/pooling.h.

    Loops: batch, out_y, out_x, channel; the window is read in that channel, then its element is written: as many
    channels written as stand before the one that is read.
    """
    windows = pool_windows(node)
    return at_distance(windows.lead() if windows is not None else None)


def fully_connected(node: Node) -> tuple[InPlaceDistance, ...]:
    """FULLY_CONNECTED: reference/integer_ops/fully_connected.h and reference/fully_connected.h.

    Loops: batch, out_channel, then the whole row of the batch is read and one element written. Worth something
    with several batches only.
    """
    source, result = node.input(0), node.output()
    depth, out_depth = node.dim(node.input(1), -1), node.dim(result, -1)
    if depth <= 0 or out_depth <= 0 or source.elements // depth != result.elements // out_depth:
        return ()
    batches, element = result.elements // out_depth, result.type.size_bytes
    lead = affine_lead([(batches, out_depth * element, depth * source.type.size_bytes)])
    return at_distance(lead + (out_depth - 1) * element)


def transpose_convolution(node: Node) -> tuple[InPlaceDistance, ...]:
    """TRANSPOSE_CONV, integer: reference/integer_ops/transpose_conv.h reads all into a scratch buffer, then writes.

    The float kernel sets the output to zero before it reads and allows nothing.
    """
    source = node.input(2)
    if source.type not in (TensorType.INT8, TensorType.INT16):
        return ()
    return at_distance(-source.size_bytes, 2)


def copy_in_place(node: Node) -> tuple[InPlaceDistance, ...]:
    """RESHAPE (reshape.cc: nothing is done where the pointers are equal) and SQUEEZE (squeeze.cc).

    Both are one memcpy, whose two sides must not overlap. SQUEEZE copies onto itself in place, which changes no
    byte in any memcpy that is in use.
    """
    same = node.input(0).type is node.output().type and node.input(0).elements == node.output().elements
    return (InPlaceDistance(0, 0, None, in_place=True),) if same else ()


def elementwise(node: Node) -> tuple[InPlaceDistance, ...]:
    """Kernels that go through input and output from front to back, and read an element before they write it.

    One loop over all elements: activations_common.cc, elementwise.cc, expand_dims.cc, elu.cc, cast.cc (a forward
    std::transform), and in reference/ add.h, add_n.h, binary_function.h, ceil.h, comparisons.h, dequantize.h, div.h,
    exp.h, floor.h, hard_swish.h, leaky_relu.h, logistic.h, maximum_minimum.h, mul.h, neg.h, prelu.h, quantize.h,
    requantize.h, round.h, select.h, sub.h, tanh.h and their like in integer_ops/. Broadcast variants loop over the
    output in order, so that an input of the output's size is read in order, too; the other input is read again and
    allows nothing. Row by row: softmax.h, log_softmax.h, l2normalization.h read a row for its maximum or sum, then
    element by element once more, writing each; what softmax.h reads after that is output.
    """
    result = node.output()
    return tuple(
        overlap
        for place, index in enumerate(node.operator.inputs)
        if index >= 0
        for overlap in at_distance(elementwise_distance(node.input(place), result), place)
    )

# SPDX-License-Identifier: Apache-2.0
"""An in-place rule's answer, and the shapes of operators as the rules read them."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

from tflm_zephyr.kernels.core import Core
from tflm_zephyr.kernels.in_place.geometry import Axis, Windows, affine_lead
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.model import Tensor, TensorType


@dataclass(frozen=True)
class InPlaceDistance:
    """Output number `output` of an operator may lie over its input number `input`.

    Allowed are input offset - output offset >= distance_bytes (None: no such distance is known) and, where
    `in_place`, equal offsets. A negative distance lets the output begin inside the input.
    """

    input: int
    output: int
    distance_bytes: int | None
    in_place: bool = False


def at_distance(distance: int | None, place: int = 0, output: int = 0) -> tuple[InPlaceDistance, ...]:
    """The rule's answer for one input, () when there is no distance."""
    return () if distance is None else (InPlaceDistance(place, output, distance),)


def windows_of(node: Node, filter_size: tuple[int, int], dilation: tuple[int, int]) -> Windows | None:
    """The sliding windows of an operator with `stride_h`, `stride_w` and `padding`; None if malformed."""
    source, result = node.input(0), node.output()
    if len(source.shape) != 4 or len(result.shape) != 4 or source.shape[0] != result.shape[0]:
        return None
    stride = (node.option("stride_h"), node.option("stride_w"))
    rows, columns = (
        Axis(
            source.shape[i + 1],
            result.shape[i + 1],
            filter_size[i],
            stride[i],
            node.padding(source.shape[i + 1], filter_size[i], stride[i], dilation[i]),
            dilation[i],
        )
        for i in (0, 1)
    )
    element = source.type.size_bytes
    windows = Windows(
        source.shape[0], rows, columns, source.shape[3] * element, result.shape[3] * result.type.size_bytes
    )
    return windows if windows.valid else None


def convolution_windows(node: Node) -> Windows | None:
    """The windows of CONV_2D and DEPTHWISE_CONV_2D."""
    shape = node.input(1).shape
    if len(shape) != 4:
        return None
    return windows_of(node, (shape[1], shape[2]), (node.option("dilation_h_factor"), node.option("dilation_w_factor")))


def pool_windows(node: Node) -> Windows | None:
    """The windows of the pooling operators, whose channels stay apart."""
    windows = windows_of(node, (node.option("filter_height"), node.option("filter_width")), (1, 1))
    return windows if windows is not None and windows.in_pixel == windows.out_pixel else None


def depth_multiplier(node: Node) -> int | None:
    """The depth multiplier of a DEPTHWISE_CONV_2D, None where option, filter and shapes disagree."""
    in_depth, out_depth = node.dim(node.input(0), 3), node.dim(node.output(), 3)
    multiplier = node.option("depth_multiplier")
    if in_depth * multiplier != out_depth or node.dim(node.input(1), 3) != out_depth:
        return None
    return multiplier


def elementwise_distance(source: Tensor, result: Tensor) -> int | None:
    """The distance of a kernel that goes through both from front to back, reading element i no later than it writes it.

    Before it reads element i it has written i elements: the lead i * (output element - input element) is greatest
    at an end. None where the input is broadcast, as it is then read again.
    """
    if source.elements != result.elements or not (source.type.has_size and result.type.has_size):
        return None
    return affine_lead([(source.elements, result.type.size_bytes, source.type.size_bytes)])


def elementwise_in_place(node: Node, core: Core) -> tuple[InPlaceDistance, ...]:
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


def constants(tensor: Tensor | None) -> tuple[int, ...] | None:
    """The values of a constant int32 or int64 tensor, None for any other."""
    if tensor is None or tensor.data is None or tensor.type not in (TensorType.INT32, TensorType.INT64):
        return None
    if len(tensor.data) != tensor.size_bytes:
        return None
    return struct.unpack(f"<{tensor.elements}{'i' if tensor.type is TensorType.INT32 else 'q'}", tensor.data)


def steps(shape: tuple[int, ...], element_bytes: int) -> tuple[int, ...]:
    """Bytes from one index to the next along each dimension."""
    return tuple(math.prod(shape[i + 1 :]) * element_bytes for i in range(len(shape)))

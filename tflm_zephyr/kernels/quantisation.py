# SPDX-License-Identifier: Apache-2.0
"""Quantisation parameters as Prepare reads them, for the specs' sizes and checks.

A tensor that is not quantised has scale 0 and zero point 0, as in TFLM. Only what Prepare certainly refuses is checked.
"""

from __future__ import annotations

from tflm_zephyr.kernels.node import Node
from tflm_zephyr.model import Quantization, Tensor, TensorType

QUANTISED = (TensorType.INT8, TensorType.INT16)
REQUANTISE = "Convert the model again with a representative_dataset"
_NONE = Quantization((0.0,), (0,), 0)


def channels(node: Node, place: int, dimension: int) -> tuple[int, ...]:
    """Bytes of a multiplier and a shift for each output channel."""
    return (4 * node.dim(node.input(place), dimension),) * 2


def dense_channels(source: Tensor, weights: Tensor) -> tuple[int, ...]:
    """The same for weights with several scales (CalculateOpDataFullyConnected); nothing for one scale."""
    if source.type is TensorType.FLOAT32 or weights.quantization is None:
        return ()
    count = len(weights.quantization.scales)
    return (4 * count,) * 2 if count > 1 else ()


def scale_of(tensor: Tensor) -> float:
    """Its first scale."""
    return (tensor.quantization or _NONE).scales[0]


def zero_point_of(tensor: Tensor) -> int:
    """Its first zero point."""
    return (tensor.quantization or _NONE).zero_points[0]


def quantised(node: Node, tensor: Tensor) -> Quantization:
    """The tensor's parameters; ModelError when it has none."""
    if tensor.quantization is None:
        raise node.fail(f"needs quantisation parameters on {tensor.label} ({tensor.type.value})", REQUANTISE)
    return tensor.quantization


def check_same(node: Node, first: Tensor, second: Tensor, slack: float = 0.0) -> None:
    """ModelError unless both have the same zero point, and scales at most `slack` apart."""
    pairs = [(scale_of(tensor), zero_point_of(tensor)) for tensor in (first, second)]
    if pairs[0][1] != pairs[1][1] or abs(pairs[0][0] - pairs[1][0]) > slack:
        words = [f"{scale:g} and {zero}" for scale, zero in pairs]
        raise node.fail(
            f"needs the same scale and zero point on {first.label} and {second.label}, which have "
            f"{words[0]}, and {words[1]}",
            REQUANTISE,
        )


def check_zero_point(node: Node, tensor: Tensor | None, wanted: int) -> None:
    """ModelError when the tensor is there with another zero point."""
    if tensor is not None and zero_point_of(tensor) != wanted:
        raise node.fail(
            f"needs the zero point {wanted} on {tensor.label}, which has {zero_point_of(tensor)}", REQUANTISE
        )


def check_int16_zero_points(node: Node) -> None:
    """ModelError when an int16 tensor among inputs 0 and 1 and output 0 has a zero point other than 0."""
    for tensor in (node.optional_input(0), node.optional_input(1), node.optional_output(0)):
        if tensor is not None and tensor.type is TensorType.INT16:
            check_zero_point(node, tensor, 0)


def check_scale(node: Node, tensor: Tensor, wanted: float, slack: float = 0.0) -> None:
    """ModelError when the tensor's scale is more than `slack` away from `wanted`."""
    if abs(scale_of(tensor) - wanted) > slack:
        raise node.fail(f"needs the scale {wanted:g} on {tensor.label}, which has {scale_of(tensor):g}", REQUANTISE)


def check_constant(node: Node, *places: int) -> None:
    """ModelError when one of the inputs at `places` is there and no constant."""
    for place in places:
        tensor = node.optional_input(place)
        if tensor is not None and not tensor.is_constant:
            raise node.fail(f"needs a constant as its input {place}, and {tensor.label} is none")

# SPDX-License-Identifier: Apache-2.0
"""Parameters that operators with weights share: multipliers, CMSIS-NN's structs, constant sums, checks.

Sources: kernel_util.cc (tensorflow/lite/kernels), fully_connected_common.cc and cmsis_nn/fully_connected.cc
(tensorflow/lite/micro/kernels).
"""

from __future__ import annotations

import struct

from tflm_zephyr.compiler.fixed_point import Multiplier, float32, multiplier
from tflm_zephyr.compiler.layer_builder import LayerBuilder
from tflm_zephyr.kernels import Node, scale_of, zero_point_of
from tflm_zephyr.model import Tensor, TensorType


def channel_multipliers(node: Node, channels: int, place: int = 0) -> tuple[Multiplier, ...]:
    """A multiplier for each output channel: PopulateConvolutionQuantizationParams(), in double.

    `place`: of the input that the weights, which are input 1, are multiplied with.
    """
    source, weights, output = node.input(place), node.input(1), node.output()
    assert weights.quantization is not None
    scales = weights.quantization.scales
    each = scales if len(scales) > 1 else scales * channels
    return tuple(multiplier(scale_of(source) * scale / scale_of(output)) for scale in each)


def check_symmetric(b: LayerBuilder) -> None:
    """NotDirectError for int16 with a zero point, which TFLM refuses or ignores."""
    if zero_point_of(b.node.input(0)) or zero_point_of(b.node.output()):
        raise b.refuse("has int16 tensors with a zero point")


def check_bias(b: LayerBuilder, *kinds: TensorType) -> None:
    """NotDirectError for a bias of another type."""
    bias = b.node.optional_input(2)
    if bias is not None and bias.type not in kinds:
        raise b.refuse(f"has a bias of {bias.type.value}")


def arm_channel_quantisation(b: LayerBuilder, found: tuple[Multiplier, ...]) -> str:
    """The address of multipliers and shifts for each channel, as CMSIS-NN takes them."""
    values = b.int32s("multipliers", (one.value for one in found))
    shifts = b.int32s("shifts", (one.shift for one in found))
    cast = "const_cast<int32_t *>({})"
    name = b.value(
        "kQuantisation",
        "cmsis_nn_per_channel_quant_params",
        multiplier=cast.format(values),
        shift=cast.format(shifts),
    )
    return f"&{name}"


def arm_context(b: LayerBuilder, scratch: str) -> str:
    """The address of CMSIS-NN's context with a scratch buffer."""
    return "&kNoContext" if scratch == "nullptr" else "&context"


def dense_multiplier(node: Node) -> Multiplier:
    """The one multiplier: GetQuantizedConvolutionMultipler() multiplies the scales in float32, divides in double."""
    source, weights, output = node.input(0), node.input(1), node.output()
    return multiplier(float32(scale_of(source) * scale_of(weights)) / scale_of(output))


def weight_sums(b: LayerBuilder, place: int, offset: int, bias: Tensor | None, weights_offset: int = 0) -> str:
    """The address of a context with the rows' sums, which functions for cores with Helium want."""
    array, rows = row_sums(b, "sums", place, offset, bias, weights_offset)
    return "&" + b.value("kSums", "cmsis_nn_context", buf=f"const_cast<int32_t *>({array})", size=4 * rows)


def row_sums(
    b: LayerBuilder, name: str, place: int, offset: int, bias: Tensor | None, weights_offset: int = 0
) -> tuple[str, int]:
    """An array of the sums of the weights' rows times the input's offset, plus the bias, and its length.

    `weights_offset` is added to each weight. arm_vector_sum_s8(); TFLM computes them in Prepare or at each run.
    """
    weights = b.node.input(place)
    rows, columns = weights.shape
    data = weights.data
    if data is None or (bias is not None and bias.data is None):
        raise b.refuse("has weights or a bias that are computed")
    values = struct.unpack(f"<{rows * columns}b", data)
    start = (0,) * rows if bias is None else struct.unpack(f"<{rows}i", bias.data or b"")
    totals = [sum(values[row * columns : (row + 1) * columns]) + columns * weights_offset for row in range(rows)]
    sums = [start[row] + offset * totals[row] for row in range(rows)]
    return b.int32s(name, sums, f"of the rows of {weights.label}"), rows

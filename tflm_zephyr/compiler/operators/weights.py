# SPDX-License-Identifier: Apache-2.0
"""Parameters that operators with weights share: multipliers, CMSIS-NN's structs, constant sums, checks.

Sources: kernel_util.cc (tensorflow/lite/kernels), fully_connected_common.cc and cmsis_nn/fully_connected.cc
(tensorflow/lite/micro/kernels).
"""

from __future__ import annotations

import struct
from dataclasses import replace

from tflm_zephyr.compiler.fixed_point import Multiplier, activation_range, float32, multiplier
from tflm_zephyr.compiler.ir.kernels import standard_kernel
from tflm_zephyr.compiler.ir.operands import AddressOf, Function, NoContext, Null, Operand
from tflm_zephyr.compiler.ir.structs import ConstantAt, FieldValue, LocalStruct, Mutable, Scratch, Struct
from tflm_zephyr.compiler.layer_builder import LayerBuilder, int32s
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


def window_of(node: Node) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    """Stride, padding and dilation, each of height and width."""
    stride = node.option("stride_h"), node.option("stride_w")
    dilation = node.option("dilation_h_factor"), node.option("dilation_w_factor")
    sizes = zip(node.input(0).shape[1:3], node.input(1).shape[1:3], stride, dilation, strict=True)
    height, width = (node.padding(*axis) for axis in sizes)
    return stride, (height, width), dilation


def check_symmetric(b: LayerBuilder) -> None:
    """NotDirectError for int16 with a zero point, which TFLM refuses or ignores."""
    if zero_point_of(b.node.input(0)) or zero_point_of(b.node.output()):
        raise b.refuse("has int16 tensors with a zero point")


def check_bias(b: LayerBuilder, *kinds: TensorType) -> None:
    """NotDirectError for a bias of another type."""
    bias = b.node.optional_input(2)
    if bias is not None and bias.type not in kinds:
        raise b.refuse(f"has a bias of {bias.type.value}")


def arm_channel_quantisation(b: LayerBuilder, multipliers: tuple[Multiplier, ...]) -> AddressOf:
    """Multipliers and shifts for each channel, as CMSIS-NN takes them."""
    fields = {
        "multiplier": Mutable(int32s(b, "multipliers", (one.value for one in multipliers)), TensorType.INT32),
        "shift": Mutable(int32s(b, "shifts", (one.shift for one in multipliers)), TensorType.INT32),
    }
    return arm_struct(b, "kQuantisation", "cmsis_nn_per_channel_quant_params", **fields)


def arm_quantisation(b: LayerBuilder, scaling: Multiplier, name: str = "kQuantisation") -> AddressOf:
    """The one multiplier and shift, as CMSIS-NN takes them."""
    return arm_struct(b, name, "cmsis_nn_per_tensor_quant_params", multiplier=scaling.value, shift=scaling.shift)


def arm_struct(b: LayerBuilder, name: str, type_name: str, **fields: FieldValue) -> AddressOf:
    """The address of one of CMSIS-NN's parameter structs."""
    return AddressOf(b.parameter(Struct(name, type_name, tuple(fields.items()))))


def reference_params(b: LayerBuilder, type_name: str, **fields: FieldValue) -> Struct:
    """One of TFLM's parameter classes, the other fields of which are zero."""
    return b.parameter(Struct("kParams", f"tflite::{type_name}", tuple(fields.items()), zeroed=True))


def arm_context(b: LayerBuilder, scratch: Scratch | Null) -> AddressOf | NoContext:
    """CMSIS-NN's context with the layer's scratch buffer."""
    if isinstance(scratch, Null):
        return NoContext()
    return AddressOf(b.local(LocalStruct("context", "cmsis_nn_context", (scratch, b.scratch_bytes))))


def weighted_operands(b: LayerBuilder, *, no_bias: Null = Null()) -> tuple[Operand, ...]:  # noqa: B008
    """Shape and data of input, weights, bias and output, as TFLM's reference functions of sums take them."""
    node = b.node
    bias = node.optional_input(2)
    return (
        b.shape(node.input(0).shape),
        b.source(0, "input"),
        b.shape(node.input(1).shape),
        b.source(1, "weights"),
        b.shape(() if bias is None else bias.shape),
        b.optional_source(2, "bias", absent=no_bias),
        b.shape(node.output().shape),
        b.result(),
    )


def is_legacy(b: LayerBuilder) -> bool:
    """Whether input, weights and output are of uint8. NotDirectError for weights of several scales then."""
    weights = b.node.input(1).quantization
    if not b.node.fits("i0 uint8 i1 uint8 o0 uint8"):
        return False
    if weights is not None and weights.per_channel:
        raise b.refuse("has weights of uint8 with several scales")
    check_bias(b, TensorType.INT32)
    return True


def dense_params(b: LayerBuilder, type_name: str, **fields: FieldValue) -> Struct:
    """TFLM's parameters of sums of products with weights of one scale, which may have a zero point."""
    node, (low, high), single = b.node, clamp_of(b.node), dense_multiplier(b.node)
    weights = node.input(1)
    return reference_params(
        b,
        type_name,
        **fields,
        input_offset=-zero_point_of(node.input(0)),
        weights_offset=-zero_point_of(weights),
        output_offset=zero_point_of(node.output()),
        output_multiplier=single.value,
        output_shift=single.shift,
        quantized_activation_min=low,
        quantized_activation_max=high,
    )


def unary_operands(b: LayerBuilder) -> tuple[Operand, ...]:
    """Shape and data of input and output, as TFLM's reference functions take them."""
    source, output = b.node.input(0), b.node.output()
    return b.shape(source.shape), b.source(0, "input"), b.shape(output.shape), b.result()


def transform(b: LayerBuilder, function: Function) -> None:
    """Each element through a function, in the order of TFLM's kernels, whose in-place rules hold."""
    given = b.source(0, "input")
    end = replace(given, element=b.node.input(0).elements)
    b.call(standard_kernel("transform", "<algorithm>"), given, end, b.result(), function)


def clamp_of(node: Node) -> tuple[int, int]:
    """The range of the integer output with its fused activation, both ends included."""
    output, activation = node.output(), node.option("fused_activation_function")
    return activation_range(activation, output.type, scale_of(output), zero_point_of(output))


def dense_multiplier(node: Node) -> Multiplier:
    """The one multiplier: GetQuantizedConvolutionMultipler() multiplies the scales in float32, divides in double."""
    source, weights, output = node.input(0), node.input(1), node.output()
    return multiplier(float32(scale_of(source) * scale_of(weights)) / scale_of(output))


def weight_sums(b: LayerBuilder, place: int, offset: int, bias: Tensor | None, weights_offset: int = 0) -> AddressOf:
    """A context with the rows' sums, which functions for cores with Helium want."""
    array, rows = row_sums(b, "sums", place, offset, bias, weights_offset)
    return arm_struct(b, "kSums", "cmsis_nn_context", buf=Mutable(array, TensorType.INT32), size=4 * rows)


def row_sums(
    b: LayerBuilder, name: str, place: int, offset: int, bias: Tensor | None, weights_offset: int = 0
) -> tuple[ConstantAt, int]:
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
    return int32s(b, name, sums, f"of the rows of {weights.label}"), rows

# SPDX-License-Identifier: Apache-2.0
"""RELU, RELU6, LEAKY_RELU and HARD_SWISH.

Sources: activations_common.cc, leaky_relu_common.cc, hard_swish_common.cc (tensorflow/lite/micro/kernels). TFLM has the
first two in no header: they are a clamp, or the LEAKY_RELU whose slope is 0.
"""

from __future__ import annotations

from collections.abc import Mapping

from tflm_zephyr.compiler.fixed_point import LIMITS, Multiplier, finite, float32, multiplier, quantised
from tflm_zephyr.compiler.ir.kernels import reference_kernel
from tflm_zephyr.compiler.ir.operands import Clamp
from tflm_zephyr.compiler.layer_builder import LayerBuilder
from tflm_zephyr.compiler.lowering import Lowering
from tflm_zephyr.compiler.operators.weights import reference_params, transform, unary_operands
from tflm_zephyr.compiler.row_forms import elementwise
from tflm_zephyr.compiler.shapes import as_many
from tflm_zephyr.kernels import Node, scale_of, zero_point_of
from tflm_zephyr.model import TensorType

_INTEGERS = (TensorType.INT8, TensorType.INT16)


def _check(b: LayerBuilder, *kinds: TensorType) -> TensorType:
    source, output = b.node.input(0), b.node.output()
    if source.type not in kinds or source.type is not output.type or source.shape != output.shape:
        raise b.refuse(f"has no direct code for {b.node.types}")
    return source.type


def _leaky(b: LayerBuilder, below: Multiplier, above: Multiplier) -> None:
    """The reference function with a multiplier for negative inputs, and one for the others."""
    source, output = b.node.input(0), b.node.output()
    parameters = reference_params(
        b,
        "LeakyReluParams",
        input_offset=zero_point_of(source),
        output_offset=zero_point_of(output),
        output_multiplier_alpha=below.value,
        output_shift_alpha=below.shift,
        output_multiplier_identity=above.value,
        output_shift_identity=above.shift,
    )
    b.call(reference_kernel("leaky_relu.h", "QuantizeLeakyRelu"), parameters, *unary_operands(b))


def identity_multiplier(node: Node) -> Multiplier:
    """The input's scale divided by the output's, in float32."""
    return multiplier(float32(scale_of(node.input(0)) / scale_of(node.output())))


def leaky_multiplier(node: Node) -> Multiplier:
    """The same multiplied by alpha: scale * alpha / scale, each step in float32."""
    alpha = float32(_alpha(node))
    return multiplier(float32(float32(scale_of(node.input(0)) * alpha) / scale_of(node.output())))


def _alpha(node: Node) -> float:
    value = node.operator.options.get("alpha", 0.0)
    return float(value) if isinstance(value, int | float) else 0.0


def relu(b: LayerBuilder) -> None:
    """RELU in int8, int16 and float."""
    if _check(b, *_INTEGERS, TensorType.FLOAT32) is TensorType.FLOAT32:
        transform(b, Clamp(TensorType.FLOAT32, 0.0))
    else:
        _leaky(b, Multiplier(0, 0), identity_multiplier(b.node))


def relu6(b: LayerBuilder) -> None:
    """RELU6 in int8, int16 and float. In integers it clamps, whatever the output's scale is."""
    kind = _check(b, *_INTEGERS, TensorType.FLOAT32)
    if kind is TensorType.FLOAT32:
        transform(b, Clamp(kind, 0.0, 6.0))
        return
    source = b.node.input(0)
    zero = zero_point_of(source)
    low, high = LIMITS[kind]
    six = min(max(quantised(6.0, scale_of(source), zero), low), high)
    transform(b, Clamp(kind, zero, six))


def leaky_relu(b: LayerBuilder) -> None:
    """LEAKY_RELU in int8, int16 and float."""
    if _check(b, *_INTEGERS, TensorType.FLOAT32) is not TensorType.FLOAT32:
        _leaky(b, leaky_multiplier(b.node), identity_multiplier(b.node))
        return
    parameters = reference_params(b, "LeakyReluParams", alpha=finite(_alpha(b.node)))
    b.call(reference_kernel("leaky_relu.h", "LeakyRelu"), parameters, *unary_operands(b))


def hard_swish_multipliers(node: Node) -> tuple[Multiplier, Multiplier]:
    """Multipliers of the output and of the "relu-ish" factor, of 16 bits: HardSwishPrepare(), in float32."""
    fine = float32(scale_of(node.input(0)) / 128)
    reals = fine / scale_of(node.output()), fine / float32(3.0 / 32768)
    return (_of_16_bits(multiplier(float32(reals[0]))), _of_16_bits(multiplier(float32(reals[1]))))


def _of_16_bits(found: Multiplier) -> Multiplier:
    """DownScaleInt32ToInt16Multiplier()."""
    half = 1 << 15
    value = 32767 if found.value >= 2**31 - 1 - half else (found.value + half) >> 16
    return Multiplier(value, found.shift)


def hard_swish(b: LayerBuilder) -> None:
    """HARD_SWISH in int8 and float."""
    node = b.node
    kernel = reference_kernel("hard_swish.h", "HardSwish")
    if _check(b, TensorType.INT8, TensorType.FLOAT32) is TensorType.FLOAT32:
        b.call(kernel, *unary_operands(b))
        return
    output, factor = hard_swish_multipliers(node)
    if output.shift > 0:
        raise b.refuse("has an output scale that TFLM does not take")
    parameters = reference_params(
        b,
        "HardSwishParams",
        input_zero_point=zero_point_of(node.input(0)),
        output_zero_point=zero_point_of(node.output()),
        reluish_multiplier_fixedpoint_int16=factor.value,
        reluish_multiplier_exponent=factor.shift,
        output_multiplier_fixedpoint_int16=output.value,
        output_multiplier_exponent=output.shift,
    )
    b.call(kernel, parameters, *unary_operands(b))


OPERATORS: Mapping[str, Lowering] = {
    "HARD_SWISH": Lowering(hard_swish, elementwise, as_many),
    "LEAKY_RELU": Lowering(leaky_relu, elementwise, as_many),
    "RELU": Lowering(relu, elementwise, as_many),
    "RELU6": Lowering(relu6, elementwise, as_many),
}

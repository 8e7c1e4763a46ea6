# SPDX-License-Identifier: Apache-2.0
"""ADD, SUB, MUL, MAXIMUM and MINIMUM.

Sources: add_common.cc, sub_common.cc, mul_common.cc, maximum_minimum.cc and cmsis_nn/add.cc, mul.cc, maximum_minimum.cc
(tensorflow/lite/micro/kernels).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tflm_zephyr.compiler.fixed_point import LIMITS, Multiplier, finite, float32, float_range, multiplier
from tflm_zephyr.compiler.ir.kernels import cmsis_kernel, reference_kernel
from tflm_zephyr.compiler.ir.layers import KernelLayer
from tflm_zephyr.compiler.ir.operands import NoContext, Operand, Pick
from tflm_zephyr.compiler.ir.rows import RowForm
from tflm_zephyr.compiler.ir.structs import Struct
from tflm_zephyr.compiler.layer_builder import LayerBuilder
from tflm_zephyr.compiler.lowering import Lowering
from tflm_zephyr.compiler.operators.weights import clamp_of, reference_params
from tflm_zephyr.compiler.row_forms import elementwise, scaled
from tflm_zephyr.compiler.shapes import broadcast
from tflm_zephyr.kernels import Node, scale_of, zero_point_of
from tflm_zephyr.model import TensorType

_ARM = {TensorType.INT8: "s8", TensorType.INT16: "s16"}
_COMPARED = (TensorType.FLOAT32, TensorType.INT8, TensorType.INT16, TensorType.INT32, TensorType.INT64)


@dataclass(frozen=True)
class SumScaling:
    """Both inputs shifted left, scaled to twice the larger scale, and the output's multiplier."""

    left_shift: int
    inputs: tuple[Multiplier, Multiplier]
    output: Multiplier


def add_scaling(node: Node) -> SumScaling:
    """CalculateOpDataAdd(): in double."""
    one, other, result = (scale_of(tensor) for tensor in (node.input(0), node.input(1), node.output()))
    shift = 15 if node.output().type is TensorType.INT16 else 20
    twice = 2 * max(one, other)
    return SumScaling(
        shift,
        (multiplier(one / twice), multiplier(other / twice)),
        multiplier(twice / ((1 << shift) * result)),
    )


def _check(b: LayerBuilder) -> tuple[bool, TensorType]:
    """Whether shapes differ, and the type of all three tensors."""
    node = b.node
    one, other, result = node.input(0), node.input(1), node.output()
    if not one.type is other.type is result.type:
        raise b.refuse(f"has no direct code for {node.types}")
    legacy = one.type is TensorType.UINT8 and node.operator.key in ("ADD", "MUL") and one.shape == other.shape
    if one.type not in (*_ARM, TensorType.FLOAT32, TensorType.INT32) and not legacy:
        raise b.refuse(f"has no direct code for {node.types}")
    if one.type is TensorType.INT16 and any(zero_point_of(tensor) for tensor in (one, other, result)):
        raise b.refuse("has int16 tensors with a zero point, which kernels ignore")
    if max(len(t.shape) for t in (one, other, result)) > 4:
        raise b.refuse("has tensors of more than four dimensions")
    return one.shape != other.shape, one.type


def _shapes_and_data(b: LayerBuilder) -> tuple[Operand, ...]:
    node = b.node
    return (
        b.shape(node.input(0).shape),
        b.source(0, "input1"),
        b.shape(node.input(1).shape),
        b.source(1, "input2"),
        b.shape(node.output().shape),
        b.result(),
    )


def _float_parameters(b: LayerBuilder) -> Struct:
    low, high = map(finite, float_range(b.node.option("fused_activation_function")))
    return reference_params(b, "ArithmeticParams", float_activation_min=low, float_activation_max=high)


def _int32_parameters(b: LayerBuilder, activation: int) -> Struct:
    """Unquantised int32 with its clamp: CalculateActivationRange() for int32."""
    low, high = LIMITS[TensorType.INT32]
    least, most = float_range(activation)
    low, high = (low if least < low else int(least)), (high if most > high else int(most))
    return reference_params(b, "ArithmeticParams", quantized_activation_min=low, quantized_activation_max=high)


def _sum_parameters(b: LayerBuilder, scaling: SumScaling) -> Struct:
    node = b.node
    low, high = clamp_of(node)
    one, other = scaling.inputs
    return reference_params(
        b,
        "ArithmeticParams",
        left_shift=scaling.left_shift,
        input1_offset=-zero_point_of(node.input(0)),
        input1_multiplier=one.value,
        input1_shift=one.shift,
        input2_offset=-zero_point_of(node.input(1)),
        input2_multiplier=other.value,
        input2_shift=other.shift,
        output_offset=zero_point_of(node.output()),
        output_multiplier=scaling.output.value,
        output_shift=scaling.output.shift,
        quantized_activation_min=low,
        quantized_activation_max=high,
    )


def add(b: LayerBuilder) -> None:
    """ADD in int8, int16, int32 and float; in int32 TFLM ignores the activation."""
    repeated, kind = _check(b)
    node, function = b.node, "BroadcastAdd4DSlow" if repeated else "Add"
    if kind in (TensorType.FLOAT32, TensorType.INT32):
        parameters = _float_parameters(b) if kind is TensorType.FLOAT32 else _int32_parameters(b, 0)
        b.call(reference_kernel("add.h", function), parameters, *_shapes_and_data(b))
        return
    scaling = add_scaling(node)
    if kind is TensorType.UINT8:
        b.call(reference_kernel("add.h", function), _sum_parameters(b, scaling), *_shapes_and_data(b))
        return
    if b.cmsis_nn and not repeated:
        low, high = clamp_of(node)
        one, other = scaling.inputs
        first, second = b.source(0, "input1"), b.source(1, "input2")
        numbers = (
            -zero_point_of(node.input(0)), one.value, one.shift, -zero_point_of(node.input(1)), other.value,
            other.shift, scaling.left_shift,
        )  # fmt: skip
        last = (zero_point_of(node.output()), scaling.output.value, scaling.output.shift, low, high)
        kernel = cmsis_kernel(f"arm_elementwise_add_{_ARM[kind]}")
        b.call(kernel, first, second, *numbers, b.result(), *last, node.output().elements)
        return
    parameters = _sum_parameters(b, scaling)
    if kind is TensorType.INT16:
        tail = () if repeated else (False,)
        b.call(reference_kernel("add.h", function), parameters, *_shapes_and_data(b), *tail)
        return
    b.call(reference_kernel("integer_ops/add.h", function, integer=True), parameters, *_shapes_and_data(b))


def sub_scaling(node: Node) -> SumScaling:
    """CalculateOpDataSub(): in float32, where ADD's is in double."""
    one, other, result = (scale_of(tensor) for tensor in (node.input(0), node.input(1), node.output()))
    shift = 15 if node.output().type is TensorType.INT16 else 20
    twice = float32(2 * max(one, other))
    return SumScaling(
        shift,
        (multiplier(float32(one / twice)), multiplier(float32(other / twice))),
        multiplier(float32(twice / float32((1 << shift) * result))),
    )


def sub(b: LayerBuilder) -> None:
    """SUB in int8, int16, int32 and float."""
    repeated, kind = _check(b)
    if kind in (TensorType.FLOAT32, TensorType.INT32):
        function = "BroadcastSubSlow" if repeated else "SubWithActivation"
        activation = b.node.option("fused_activation_function")
        parameters = _float_parameters(b) if kind is TensorType.FLOAT32 else _int32_parameters(b, activation)
    else:
        function = "BroadcastQuantSubSlow" if repeated else "Sub"
        parameters = _sum_parameters(b, sub_scaling(b.node))
    b.call(reference_kernel("sub.h", function), parameters, *_shapes_and_data(b))


def _extreme(b: LayerBuilder, arm_function: str, *, larger: bool) -> None:
    node = b.node
    one, other, result = node.input(0), node.input(1), node.output()
    rank = max(len(tensor.shape) for tensor in (one, other, result))
    if not one.type is other.type is result.type or one.type not in _COMPARED or rank > 5:
        raise b.refuse(f"has no direct code for {node.types}")
    if b.cmsis_nn and one.type is TensorType.INT8 and rank <= 4:
        first, second = b.source(0, "input1"), b.source(1, "input2")
        dims = [b.dims(*(1,) * (4 - len(tensor.shape)), *tensor.shape) for tensor in (one, other, result)]
        b.call(cmsis_kernel(arm_function), NoContext(), first, dims[0], second, dims[1], b.result(), dims[2])
        return
    kernel = reference_kernel("maximum_minimum.h", "MaximumMinimumBroadcastSlow")
    b.call(kernel, *_shapes_and_data(b), Pick(one.type, larger))


def maximum(b: LayerBuilder) -> None:
    """MAXIMUM in int8, int16, int32, int64 and float."""
    _extreme(b, "arm_maximum_s8", larger=True)


def minimum(b: LayerBuilder) -> None:
    """MINIMUM in int8, int16, int32, int64 and float."""
    _extreme(b, "arm_minimum_s8", larger=False)


def mul(b: LayerBuilder) -> None:
    """MUL in int8, int16, int32 and float."""
    repeated, kind = _check(b)
    node = b.node
    function = "BroadcastMul4DSlow" if repeated else "Mul"
    if kind in (TensorType.FLOAT32, TensorType.INT32):
        activation = node.option("fused_activation_function")
        parameters = _float_parameters(b) if kind is TensorType.FLOAT32 else _int32_parameters(b, activation)
        b.call(reference_kernel("mul.h", function), parameters, *_shapes_and_data(b))
        return
    one, other, result = node.input(0), node.input(1), node.output()
    found = multiplier(scale_of(one) * scale_of(other) / scale_of(result))
    low, high = clamp_of(node)
    offsets = -zero_point_of(one), -zero_point_of(other), zero_point_of(result)
    if b.cmsis_nn and not repeated and kind is not TensorType.UINT8:
        first, second = b.source(0, "input1"), b.source(1, "input2")
        last = (offsets[2], found.value, found.shift, low, high, result.elements)
        kernel = cmsis_kernel(f"arm_elementwise_mul_{_ARM[kind]}")
        b.call(kernel, first, second, *offsets[:2], b.result(), *last)
        return
    parameters = reference_params(
        b,
        "ArithmeticParams",
        input1_offset=offsets[0],
        input2_offset=offsets[1],
        output_offset=offsets[2],
        output_multiplier=found.value,
        output_shift=found.shift,
        quantized_activation_min=low,
        quantized_activation_max=high,
    )
    integer = kind is not TensorType.UINT8
    kernel = reference_kernel("integer_ops/mul.h" if integer else "mul.h", function, integer=integer)
    b.call(kernel, parameters, *_shapes_and_data(b))


def by_rows(b: LayerBuilder, layer: KernelLayer) -> RowForm:
    """The layer's rows: of two images, or of an image and a value for each of its channels."""
    one, other = b.node.input(0), b.node.input(1)
    alike = one.shape == other.shape or one.is_constant or other.is_constant
    return elementwise(b, layer) if alike else scaled(b, layer)


OPERATORS: Mapping[str, Lowering] = {
    "ADD": Lowering(add, by_rows, broadcast, legacy=True),
    "MAXIMUM": Lowering(maximum, by_rows, broadcast),
    "MINIMUM": Lowering(minimum, by_rows, broadcast),
    "MUL": Lowering(mul, by_rows, broadcast, legacy=True),
    "SUB": Lowering(sub, by_rows, broadcast),
}

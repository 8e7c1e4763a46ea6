# SPDX-License-Identifier: Apache-2.0
"""ADD, SUB, MUL, MAXIMUM and MINIMUM.

Sources: add_common.cc, sub_common.cc, mul_common.cc, maximum_minimum.cc and cmsis_nn/add.cc, mul.cc, maximum_minimum.cc
(tensorflow/lite/micro/kernels).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tflm_zephyr.compiler.fixed_point import LIMITS, Multiplier, float32, float_range, multiplier
from tflm_zephyr.compiler.layer_builder import LayerBuilder
from tflm_zephyr.compiler.operators.texts import float_text
from tflm_zephyr.compiler.program import Layer
from tflm_zephyr.compiler.row_forms import RowRule, elementwise, scaled
from tflm_zephyr.compiler.row_program import RowForm
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
    if one.type not in (*_ARM, TensorType.FLOAT32, TensorType.INT32):
        raise b.refuse(f"has no direct code for {node.types}")
    if one.type is TensorType.INT16 and any(zero_point_of(tensor) for tensor in (one, other, result)):
        raise b.refuse("has int16 tensors with a zero point, which kernels ignore")
    if max(len(t.shape) for t in (one, other, result)) > 4:
        raise b.refuse("has tensors of more than four dimensions")
    return one.shape != other.shape, one.type


def _shapes_and_data(b: LayerBuilder) -> tuple[str, ...]:
    node = b.node
    return (
        b.shape(node.input(0).shape),
        b.source(0, "input1"),
        b.shape(node.input(1).shape),
        b.source(1, "input2"),
        b.shape(node.output().shape),
        b.result(),
    )


def _float_parameters(b: LayerBuilder) -> str:
    low, high = (float_text(end) for end in float_range(b.node.option("fused_activation_function")))
    return b.assigned("kParams", "tflite::ArithmeticParams", float_activation_min=low, float_activation_max=high)


def _int32_parameters(b: LayerBuilder, activation: int) -> str:
    """Unquantised int32 with its clamp: CalculateActivationRange() for int32."""
    low, high = LIMITS[TensorType.INT32]
    least, most = float_range(activation)
    low, high = (low if least < low else int(least)), (high if most > high else int(most))
    return b.assigned(
        "kParams", "tflite::ArithmeticParams", quantized_activation_min=_least_text(low), quantized_activation_max=high
    )


def _least_text(value: int) -> str:
    """An int32_t literal: the least value has none of its own."""
    return "std::numeric_limits<int32_t>::lowest()" if value == LIMITS[TensorType.INT32][0] else str(value)


def _sum_parameters(b: LayerBuilder, scaling: SumScaling) -> str:
    node = b.node
    low, high = b.clamp()
    one, other = scaling.inputs
    return b.assigned(
        "kParams",
        "tflite::ArithmeticParams",
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
    broadcast, kind = _check(b)
    node = b.node
    if kind in (TensorType.FLOAT32, TensorType.INT32):
        function = "BroadcastAdd4DSlow" if broadcast else "Add"
        parameters = _float_parameters(b) if kind is TensorType.FLOAT32 else _int32_parameters(b, 0)
        b.reference("reference/add.h", f"tflite::reference_ops::{function}", parameters, *_shapes_and_data(b))
        return
    scaling = add_scaling(node)
    if b.cmsis_nn and not broadcast:
        low, high = b.clamp()
        one, other = scaling.inputs
        first, second = b.source(0, "input1"), b.source(1, "input2")
        numbers = (
            -zero_point_of(node.input(0)), one.value, one.shift, -zero_point_of(node.input(1)), other.value,
            other.shift, scaling.left_shift,
        )  # fmt: skip
        last = (zero_point_of(node.output()), scaling.output.value, scaling.output.shift, low, high)
        b.cmsis(
            f"arm_elementwise_add_{_ARM[kind]}",
            first,
            second,
            *map(str, numbers),
            b.result(),
            *map(str, last),
            str(node.output().elements),
        )
        return
    parameters = _sum_parameters(b, scaling)
    if kind is TensorType.INT16:
        function, header = ("BroadcastAdd4DSlow" if broadcast else "Add"), "reference/add.h"
        tail = () if broadcast else ("false",)
        b.reference(header, f"tflite::reference_ops::{function}", parameters, *_shapes_and_data(b), *tail)
        return
    function = "BroadcastAdd4DSlow" if broadcast else "Add"
    b.reference(
        "reference/integer_ops/add.h", f"tflite::reference_integer_ops::{function}", parameters, *_shapes_and_data(b)
    )


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
    broadcast, kind = _check(b)
    if kind in (TensorType.FLOAT32, TensorType.INT32):
        function = "BroadcastSubSlow" if broadcast else "SubWithActivation"
        activation = b.node.option("fused_activation_function")
        parameters = _float_parameters(b) if kind is TensorType.FLOAT32 else _int32_parameters(b, activation)
    else:
        function = "BroadcastQuantSubSlow" if broadcast else "Sub"
        parameters = _sum_parameters(b, sub_scaling(b.node))
    b.reference("reference/sub.h", f"tflite::reference_ops::{function}", parameters, *_shapes_and_data(b))


def _extreme(b: LayerBuilder, arm_function: str, sign: str) -> None:
    node = b.node
    one, other, result = node.input(0), node.input(1), node.output()
    rank = max(len(tensor.shape) for tensor in (one, other, result))
    if not one.type is other.type is result.type or one.type not in _COMPARED or rank > 5:
        raise b.refuse(f"has no direct code for {node.types}")
    if b.cmsis_nn and one.type is TensorType.INT8 and rank <= 4:
        first, second = b.source(0, "input1"), b.source(1, "input2")
        dims = [b.dims(*(1,) * (4 - len(tensor.shape)), *tensor.shape) for tensor in (one, other, result)]
        b.cmsis(arm_function, "&kNoContext", first, dims[0], second, dims[1], b.result(), dims[2])
        return
    kind = one.type.c_type
    step = f"[]({kind} one, {kind} other) {{ return one {sign} other ? one : other; }}"
    function = "tflite::reference_ops::MaximumMinimumBroadcastSlow"
    b.reference("reference/maximum_minimum.h", function, *_shapes_and_data(b), step)


def maximum(b: LayerBuilder) -> None:
    """MAXIMUM in int8, int16, int32, int64 and float."""
    _extreme(b, "arm_maximum_s8", ">")


def minimum(b: LayerBuilder) -> None:
    """MINIMUM in int8, int16, int32, int64 and float."""
    _extreme(b, "arm_minimum_s8", "<")


def mul(b: LayerBuilder) -> None:
    """MUL in int8, int16, int32 and float."""
    broadcast, kind = _check(b)
    node = b.node
    function = "BroadcastMul4DSlow" if broadcast else "Mul"
    if kind in (TensorType.FLOAT32, TensorType.INT32):
        activation = node.option("fused_activation_function")
        parameters = _float_parameters(b) if kind is TensorType.FLOAT32 else _int32_parameters(b, activation)
        b.reference("reference/mul.h", f"tflite::reference_ops::{function}", parameters, *_shapes_and_data(b))
        return
    one, other, result = node.input(0), node.input(1), node.output()
    found = multiplier(scale_of(one) * scale_of(other) / scale_of(result))
    low, high = b.clamp()
    offsets = -zero_point_of(one), -zero_point_of(other), zero_point_of(result)
    if b.cmsis_nn and not broadcast:
        first, second = b.source(0, "input1"), b.source(1, "input2")
        last = (offsets[2], found.value, found.shift, low, high, result.elements)
        function = f"arm_elementwise_mul_{_ARM[kind]}"
        b.cmsis(function, first, second, str(offsets[0]), str(offsets[1]), b.result(), *map(str, last))
        return
    parameters = b.assigned(
        "kParams",
        "tflite::ArithmeticParams",
        input1_offset=offsets[0],
        input2_offset=offsets[1],
        output_offset=offsets[2],
        output_multiplier=found.value,
        output_shift=found.shift,
        quantized_activation_min=low,
        quantized_activation_max=high,
    )
    b.reference(
        "reference/integer_ops/mul.h", f"tflite::reference_integer_ops::{function}", parameters, *_shapes_and_data(b)
    )


def by_rows(b: LayerBuilder, layer: Layer) -> RowForm:
    """The layer's rows: of two images, or of an image and a value for each of its channels."""
    one, other = b.node.input(0), b.node.input(1)
    alike = one.shape == other.shape or one.is_constant or other.is_constant
    return elementwise(b, layer) if alike else scaled(b, layer)


ROWS: Mapping[str, RowRule] = dict.fromkeys(("ADD", "MAXIMUM", "MINIMUM", "MUL", "SUB"), by_rows)
EMITTERS: Mapping[str, Callable[[LayerBuilder], None]] = {
    "ADD": add,
    "MAXIMUM": maximum,
    "MINIMUM": minimum,
    "MUL": mul,
    "SUB": sub,
}

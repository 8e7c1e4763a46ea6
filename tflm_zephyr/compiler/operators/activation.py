# SPDX-License-Identifier: Apache-2.0
"""SOFTMAX, LOGISTIC, TANH, QUANTIZE, DEQUANTIZE and CAST.

Sources: softmax_common.cc, logistic_common.cc, tanh.cc, quantize_common.cc, dequantize_common.cc, cast.cc and
cmsis_nn/softmax.cc (tensorflow/lite/micro/kernels).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from functools import partial

from tflm_zephyr.compiler.fixed_point import finite, float32, logarithm, multiplier, rounded, softmax_scaling
from tflm_zephyr.compiler.ir.kernels import cmsis_kernel, reference_kernel
from tflm_zephyr.compiler.ir.operands import Convert
from tflm_zephyr.compiler.ir.structs import Double, Mutable
from tflm_zephyr.compiler.layer_builder import LayerBuilder
from tflm_zephyr.compiler.lookup_tables import exp_table, reciprocal_table
from tflm_zephyr.compiler.lowering import Lowering
from tflm_zephyr.compiler.operators.weights import (
    arm_struct,
    check_symmetric,
    reference_params,
    transform,
    unary_operands,
)
from tflm_zephyr.compiler.row_forms import elementwise
from tflm_zephyr.compiler.shapes import as_many
from tflm_zephyr.kernels import scale_of, zero_point_of
from tflm_zephyr.model import TensorType

_BOTH_FLOAT = "i0 float32 o0 float32"
_BOTH_INT8 = "i0 int8 o0 int8"
_INT8_TO_INT16 = "i0 int8 o0 int16"
_BOTH_UINT8 = "i0 uint8 o0 uint8"
_BOTH_INT16 = "i0 int16 o0 int16"


def _beta(b: LayerBuilder) -> float:
    value = b.node.operator.options.get("beta", 0.0)
    return float(value) if isinstance(value, int | float) else 0.0


def softmax(b: LayerBuilder) -> None:
    """SOFTMAX in int8, int16 and float."""
    node = b.node
    source, output = node.input(0), node.output()
    if not source.shape or source.shape != output.shape:
        raise b.refuse("has shapes that do not fit each other")
    if b.node.fits(_BOTH_INT16):
        _softmax_int16(b)
        return
    if b.node.fits(_BOTH_FLOAT):
        parameters = reference_params(b, "SoftmaxParams", beta=Double(finite(_beta(b))))
    elif any(map(b.node.fits, (_BOTH_INT8, _INT8_TO_INT16, _BOTH_UINT8))):
        if b.node.fits(_BOTH_UINT8) and (scale_of(output), zero_point_of(output)) != (2.0**-8, 0):
            raise b.refuse("has an output of uint8 in another scale than 1/256")
        scaling, least = softmax_scaling(_beta(b), scale_of(source))
        if b.cmsis_nn and not b.node.fits(_BOTH_UINT8):
            function = "arm_softmax_s8" if b.node.fits(_BOTH_INT8) else "arm_softmax_s8_s16"
            depth = source.shape[-1]
            numbers = (source.elements // depth if depth else 0, depth, scaling.value, scaling.shift, least)
            kernel = cmsis_kernel(function, returns_status=False)
            b.call(kernel, b.source(0, "input"), *numbers, b.result())
            return
        parameters = reference_params(
            b,
            "SoftmaxParams",
            input_multiplier=scaling.value,
            input_left_shift=scaling.shift,
            diff_min=least,
        )
    else:
        raise b.refuse(f"has no direct code for {node.types}")
    b.call(reference_kernel("softmax.h", "Softmax"), parameters, *unary_operands(b))


_NUMBERS = ("int8", "int16", "int32", "uint32", "float32", "bool")


def cast(b: LayerBuilder) -> None:
    """CAST between numbers. To bool TFLM 8d404de7 writes nothing; its own kernel does that."""
    source, output = b.node.input(0), b.node.output()
    kinds = source.type.value, output.type.value
    if kinds[0] not in _NUMBERS or kinds[1] not in _NUMBERS[:-1] or source.elements != output.elements:
        raise b.refuse(f"has no direct code for {b.node.types}")
    transform(b, Convert(source.type, output.type))


def _softmax_int16(b: LayerBuilder) -> None:
    """With tables of exp(x) and 1 / (1 + x), which TFLM makes in Prepare."""
    node = b.node
    source = node.input(0)
    scaling = multiplier(scale_of(source) * float32(_beta(b)) / (10.0 / 65535.0))
    exp, reciprocal = (
        Mutable(b.array(name, TensorType.INT16, struct.pack(f"<{len(table)}h", *table)), TensorType.INT16)
        for name, table in (("exp", exp_table()), ("reciprocal", reciprocal_table()))
    )
    if b.cmsis_nn:
        depth = source.shape[-1]
        given = b.source(0, "input")
        tables = {"exp_lut": exp.array, "one_by_one_lut": reciprocal.array}
        lut = arm_struct(b, "kTables", "cmsis_nn_softmax_lut_s16", **tables)
        numbers = (source.elements // depth if depth else 0, depth, scaling.value, scaling.shift)
        b.call(cmsis_kernel("arm_softmax_s16"), given, *numbers, lut, b.result())
        return
    parameters = reference_params(
        b,
        "SoftmaxParams",
        input_multiplier=scaling.value,
        input_left_shift=scaling.shift,
        exp_lut=exp,
        one_over_one_plus_x_lut=reciprocal,
    )
    b.call(reference_kernel("softmax.h", "SoftmaxInt16"), parameters, *unary_operands(b))


def sigmoid_scaling_int16(scale: float, plain_shifts: tuple[int, ...]) -> tuple[int, int]:
    """Multiplier and left shift of LOGISTIC and TANH in int16: LogisticPrepare and TanhPrepare.

    Scales of 2^-12 (shift 0) and, for TANH, 2^-11 (shift 1) have no multiplier. TFLM compares logarithms, to 1e-3.
    """
    exponent = logarithm(scale)
    shift = 12 + rounded(exponent)
    if abs(exponent - rounded(exponent)) < 1e-3 and shift in plain_shifts:
        return 0, shift
    real, shift = scale * 4096.0 * 3.0, 0
    while real <= 32767.0 / 2.0 and shift <= 30:
        shift += 1
        real *= 2.0
    return int(real), shift


def _sigmoid_int16(b: LayerBuilder, name: str) -> None:
    node = b.node
    source = node.input(0)
    check_symmetric(b)
    value, shift = sigmoid_scaling_int16(scale_of(source), (0,) if name == "Logistic" else (0, 1))
    if value > 32767:
        raise b.refuse("has an input scale that TFLM does not take")
    _integer_sigmoid(b, name, value, shift)


def _integer_sigmoid(b: LayerBuilder, name: str, *numbers: int) -> None:
    """LOGISTIC takes a number of elements, TANH takes shapes."""
    kernel = reference_kernel(f"integer_ops/{name.lower()}.h", name, integer=True)
    if name == "Logistic":
        b.call(kernel, *numbers, b.node.input(0).elements, b.source(0, "input"), b.result())
    else:
        b.call(kernel, *numbers, *unary_operands(b))


def _sigmoid_scaling(scale: float) -> tuple[int, int, int]:
    """Input range radius, multiplier and left shift with 4 integer bits: LogisticPrepare and TanhPrepare."""
    bits = 4
    fraction, shift = math.frexp(scale * (1 << (31 - bits)))
    if shift < 0:
        raise ValueError("shifts to the right")
    radius = math.floor(1.0 * ((1 << bits) - 1) * (1 << (31 - bits)) / (1 << shift))
    return radius, rounded(fraction * 2.0**31), shift


def _sigmoid(b: LayerBuilder, name: str) -> None:
    node = b.node
    source = node.input(0)
    if b.node.fits(_BOTH_FLOAT):
        b.call(reference_kernel(f"{name.lower()}.h", name), *unary_operands(b))
        return
    if b.node.fits(_BOTH_INT16):
        _sigmoid_int16(b, name)
        return
    if not b.node.fits(_BOTH_INT8):
        raise b.refuse(f"has no direct code for {node.types}")
    try:
        radius, value, shift = _sigmoid_scaling(scale_of(source))
    except ValueError as error:
        raise b.refuse(str(error)) from None
    _integer_sigmoid(b, name, zero_point_of(source), radius, value, shift)


def logistic(b: LayerBuilder) -> None:
    """LOGISTIC in int8, int16 and float."""
    _sigmoid(b, "Logistic")


def tanh(b: LayerBuilder) -> None:
    """TANH in int8, int16 and float."""
    _sigmoid(b, "Tanh")


_REQUANTISED = (
    *(("int8", kind) for kind in ("int8", "uint8", "int16", "int32")),
    *(("int16", kind) for kind in ("int8", "int16", "int32")),
    ("int32", "int8"),
    ("int32", "int16"),
    ("uint8", "int8"),
    ("uint8", "uint8"),
)


def quantize(b: LayerBuilder) -> None:
    """QUANTIZE from float to int8 or int16, and between integers."""
    node = b.node
    source, output = node.input(0), node.output()
    kinds = source.type.value, output.type.value
    zero = zero_point_of(output)
    if kinds in (("float32", "int8"), ("float32", "int16"), ("float32", "uint8")):
        scale = Double(finite(scale_of(output)))
        parameters = reference_params(b, "QuantizationParams", zero_point=zero, scale=scale)
        b.call(reference_kernel("quantize.h", "AffineQuantize"), parameters, *unary_operands(b))
    elif kinds in _REQUANTISED:
        scaling = multiplier(scale_of(source) / scale_of(output))
        numbers = (source.elements, scaling.value, scaling.shift, zero_point_of(source), zero)
        given = b.source(0, "input")
        b.call(reference_kernel("requantize.h", "Requantize"), given, *numbers, b.result())
    else:
        raise b.refuse(f"has no direct code for {node.types}")


def dequantize(b: LayerBuilder) -> None:
    """DEQUANTIZE from int8, uint8 or int16 to float."""
    node = b.node
    source, output = node.input(0), node.output()
    if source.type.value not in ("int8", "uint8", "int16") or output.type.value != "float32":
        raise b.refuse(f"has no direct code for {node.types}")
    scale = Double(finite(scale_of(source)))
    parameters = reference_params(b, "DequantizationParams", scale=scale, zero_point=zero_point_of(source))
    b.call(reference_kernel("dequantize.h", "Dequantize"), parameters, *unary_operands(b))


OPERATORS: Mapping[str, Lowering] = {
    "CAST": Lowering(cast, elementwise, as_many),
    "DEQUANTIZE": Lowering(dequantize, elementwise, as_many),
    "LOGISTIC": Lowering(logistic, partial(elementwise, count=-3), as_many),
    "QUANTIZE": Lowering(quantize, partial(elementwise, count=1), as_many, legacy=True),
    "SOFTMAX": Lowering(softmax, misfit=as_many, legacy=True),
    "TANH": Lowering(tanh, elementwise, as_many),
}

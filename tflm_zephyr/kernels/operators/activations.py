# SPDX-License-Identifier: Apache-2.0
"""Activation functions, softmax and normalisation: element by element, or row by row.

Sources: activations_common.cc, softmax_common.cc and the .cc files of their names (tensorflow/lite/micro/kernels) with
kernels/internal/reference/. SOFTMAX in CMSIS-NN e9328d61: arm_nn_softmax_common_s8.c, arm_softmax_s8.c (Helium) and
arm_softmax_s16.c read a row for its maximum, for its sum, and once more while they write (s16 reads its cached output
then). From TFLM fcc760af on RELU and PRELU take int16.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tflm_zephyr.kernels.core import Core
from tflm_zephyr.kernels.in_place.last_readers import one_by_one
from tflm_zephyr.kernels.in_place.rules import elementwise_in_place
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.kernels.quantisation import (
    check_int16_zero_points,
    check_scale,
    check_zero_point,
)
from tflm_zephyr.kernels.revisions import BEFORE_4_4, SINCE_4_4
from tflm_zephyr.kernels.spec import Check, CmsisNn, Kernel, OperatorSpec, Sizes, Specs, TypeRule, fixed, nothing, types
from tflm_zephyr.model import TensorType

_SOFTMAX_TABLE = 2 * 513  # an int16 lookup table


def _kernel(persistent: Sizes) -> Kernel:
    return Kernel(nothing, persistent, elementwise_in_place, one_by_one)


def _spec(persistent: int, rule: TypeRule, *checks: Check) -> OperatorSpec:
    return OperatorSpec(_kernel(fixed(persistent)), types=rule, checks=checks)


def _softmax_persistent(struct: int) -> Sizes:
    """The struct and, for int16, two lookup tables."""

    def sizes(node: Node, core: Core) -> tuple[int, ...]:
        tables = (_SOFTMAX_TABLE,) * 2 if node.input(0).type is TensorType.INT16 else ()
        return (struct, *tables)

    return sizes


def _log_softmax_persistent(node: Node, core: Core) -> tuple[int, ...]:
    return (28,) if node.output().type is TensorType.INT8 else ()


def _overflows(node: Node, core: Core) -> str:
    """arm_softmax_s16() does not clamp the 1.0 of a row of one element, which the reference clamps to 32767."""
    source = node.input(0)
    alone = source.type is TensorType.INT16 and source.shape[-1:] == (1,)
    return "overflows for rows of one element" if alone else ""


def _check_softmax(node: Node) -> None:
    source, output = node.optional_input(0), node.optional_output(0)
    if source is None or output is None or source.type is TensorType.FLOAT32:
        return
    if source.type is TensorType.INT16:
        check_int16_zero_points(node)
        scale, slack = 2.0**-15, 1e-3
    elif output.type is TensorType.INT16:
        check_zero_point(node, output, -32768)
        scale, slack = 2.0**-16, 1e-3
    else:
        check_zero_point(node, output, -128)
        scale, slack = 2.0**-8, 0.0
    check_scale(node, output, scale, slack * scale * 1.001)


def _check_logistic(node: Node) -> None:
    source = node.optional_input(0)
    if source is not None and source.type is TensorType.INT8:
        check_zero_point(node, node.optional_output(0), -128)
    check_int16_zero_points(node)


def _check_log_softmax(node: Node) -> None:
    source, output = node.optional_input(0), node.optional_output(0)
    if source is None or output is None or source.type is not TensorType.INT8:
        return
    check_zero_point(node, output, 127)
    check_scale(node, output, 16.0 / 256)


_TWO = types("i0 o0", "float32|int8 =")
_THREE = types("i0 o0", "float32|int8|int16 =")
_PRELU = types("i0 i1 o0", "float32|int8 = =")

OPERATORS: Mapping[str, Specs] = {
    "ELU": (_spec(256, _TWO),),
    "HARD_SWISH": (_spec(20, _TWO),),
    "L2_NORMALIZATION": (_spec(4, _TWO),),
    "LEAKY_RELU": (_spec(24, _THREE),),
    "LOGISTIC": (_spec(16, _THREE, _check_logistic),),
    "LOG_SOFTMAX": (OperatorSpec(_kernel(_log_softmax_persistent), types=_TWO, checks=(_check_log_softmax,)),),
    "PRELU": (
        replace(_spec(28, _PRELU), revisions=BEFORE_4_4),
        replace(_spec(28, _PRELU.also("int16 int8 int16")), revisions=SINCE_4_4),
    ),
    "RELU": (
        replace(_spec(28, _TWO), revisions=BEFORE_4_4),
        replace(_spec(28, _THREE, check_int16_zero_points), revisions=SINCE_4_4),
    ),
    "RELU6": (_spec(8, _THREE),),
    "SOFTMAX": (
        OperatorSpec(
            _kernel(_softmax_persistent(56)),
            CmsisNn(
                _kernel(_softmax_persistent(64)),
                {"INT8": "i0 int8 o0 int8", "INT16": "i0 int16 o0 int16", "INT8_INT16": "i0 int8 o0 int16"},
                miscomputes=_overflows,
            ),
            types("i0 o0", "float32 float32", "int8 int8|int16", "int16 int16"),
            (_check_softmax,),
        ),
    ),
    "TANH": (_spec(16, _THREE, check_int16_zero_points),),
}

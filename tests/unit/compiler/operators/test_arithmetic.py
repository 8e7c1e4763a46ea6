# SPDX-License-Identifier: Apache-2.0
"""ADD's scaling is in double, SUB's in float32."""

from __future__ import annotations

import pytest

from tests.helpers.compiled_layers import layer_of, node_of
from tests.helpers.operator_models import Case, Spec
from tflm_zephyr.compiler.fixed_point import float32
from tflm_zephyr.compiler.operators.arithmetic import add_scaling, sub_scaling


def case(key: str, shapes: tuple[tuple[int, ...], tuple[int, ...]] = ((4,), (4,))) -> Case:
    inputs = tuple(Spec(shape, "int8", scale=scale) for shape, scale in zip(shapes, (0.1, 0.03), strict=True))
    return Case(key, inputs, (Spec((4,), "int8", scale=0.07),), {})


def test_sub_divides_in_float32() -> None:
    exact, single = add_scaling(node_of(case("ADD"))), sub_scaling(node_of(case("SUB")))
    assert exact.left_shift == single.left_shift == 20
    assert exact.inputs[0] == single.inputs[0]  # a half
    for one, other in ((exact.inputs[1], single.inputs[1]), (exact.output, single.output)):
        assert one.shift == other.shift
        assert one.value != other.value
        assert abs(one.value - other.value) <= 64
        assert other.value % 128 == 0  # 24 of 31 bits
    assert single.output.value * 2.0 ** (single.output.shift - 31) == float32(2 * float32(0.1) / float32(2**20 * 0.07))


@pytest.mark.parametrize(
    ("library", "shapes", "function"),
    [
        ("cmsis_nn", ((4,), (4,)), "arm_maximum_s8"),
        ("cmsis_nn", ((4,), (1,)), "arm_maximum_s8"),
        ("reference", ((4,), (4,)), "tflite::reference_ops::MaximumMinimumBroadcastSlow"),
    ],
)
def test_extremes_have_the_library_s_function(
    library: str, shapes: tuple[tuple[int, ...], tuple[int, ...]], function: str
) -> None:
    (call,) = layer_of(case("MAXIMUM", shapes), library).calls
    assert call.kernel.qualified_name == function

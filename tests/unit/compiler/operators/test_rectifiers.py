# SPDX-License-Identifier: Apache-2.0
"""RELU and its relatives: parameters against values worked out by hand from TFLM's formulas."""

from __future__ import annotations

import pytest

from tests.helpers.compiled_layers import fields, layer_of, node_of
from tests.helpers.operator_models import Case, Spec
from tflm_zephyr.compiler.fixed_point import Multiplier, float32
from tflm_zephyr.compiler.ir.operands import Clamp
from tflm_zephyr.compiler.operators.rectifiers import hard_swish_multipliers, leaky_multiplier
from tflm_zephyr.model import TensorType


def case(key: str, given: float = 0.25, taken: float = 0.5, **options: float) -> Case:
    return Case(key, (Spec((2, 3), "int8", scale=given, zero_point=5),),
                (Spec((2, 3), "int8", scale=taken, zero_point=-7),), options or None)  # fmt: skip


def test_relu_is_a_leaky_relu_without_slope() -> None:
    layer = layer_of(case("RELU"))
    assert [kernel.name for kernel in layer.kernels] == ["QuantizeLeakyRelu"]
    assert fields(layer, "kParams") == {
        "input_offset": 5,
        "output_offset": -7,
        "output_multiplier_alpha": 0,
        "output_shift_alpha": 0,
        "output_multiplier_identity": 1 << 30,
        "output_shift_identity": 0,
    }


@pytest.mark.parametrize(("scale", "six"), [(0.25, 29), (0.5, 17), (0.01, 127)])
def test_relu6_clamps_at_the_quantised_6(scale: float, six: int) -> None:
    (call,) = layer_of(case("RELU6", given=scale)).calls
    assert call.operands[-1] == Clamp(TensorType.INT8, 5, six)


def test_leaky_multipliers_are_rounded_to_float32_twice() -> None:
    # In double 0.1 * 0.3 / 0.7 has another 31st bit.
    found = leaky_multiplier(node_of(case("LEAKY_RELU", given=0.1, taken=0.7, alpha=0.3)))
    exact = float32(0.1) * float32(0.3) / float32(0.7)
    assert found.shift == -4
    assert found.value % 128 == 0  # 24 bits
    assert found.value * 2.0 ** (found.shift - 31) == pytest.approx(exact, rel=1e-6)


def test_hard_swish_multipliers_have_16_bits() -> None:
    # 0.25 / 128 / 0.5 = 2^-8, and 0.25 / 128 / (3 / 32768) = 64 / 3.
    output, factor = hard_swish_multipliers(node_of(case("HARD_SWISH")))
    assert output == Multiplier(1 << 14, -7)
    assert factor == Multiplier(round(2 / 3 * 2**15), 5)

# SPDX-License-Identifier: Apache-2.0
"""Multipliers and clamps, against values worked out by hand from TFLM's formulas."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from tflm_zephyr.compiler.fixed_point import (
    RELU,
    RELU6,
    RELU_N1_TO_1,
    Multiplier,
    activation_range,
    float32,
    float_range,
    multiplier,
    quantised,
    rounded,
    softmax_scaling,
)
from tflm_zephyr.model import TensorType


@pytest.mark.parametrize(
    ("real", "value", "shift"),
    [
        (0.0, 0, 0),
        (1.0, 1 << 30, 1),
        (0.75, 3 << 29, 0),
        (2.0**-10, 1 << 30, -9),
        (1.0 - 2.0**-40, 1 << 30, 1),  # rounds up to 2^31, which is halved
        (2.0**-33, 0, 0),  # a shift below -31 gives nothing
        (2.0**-32, 1 << 30, -31),
    ],
)
def test_multiplier(real: float, value: int, shift: int) -> None:
    assert multiplier(real) == Multiplier(value, shift)


def test_multipliers_are_the_nearest_of_31_bits() -> None:
    rng = random.Random(4)
    for _ in range(300):
        real = rng.uniform(0.5, 1.0) * 2.0 ** rng.randrange(-30, 20)
        found = multiplier(real)
        error = abs(Fraction(found.value) * Fraction(2) ** (found.shift - 31) - Fraction(real))
        assert error <= Fraction(2) ** (found.shift - 32)
        assert 1 << 30 <= found.value < 1 << 31


def test_halves_are_rounded_away_from_zero() -> None:
    assert [rounded(x) for x in (0.5, 1.5, -0.5, -2.5, 0.49999999999999994)] == [1, 2, -1, -3, 0]


def test_clamps_are_divided_in_float32() -> None:
    scale = float32(0.0235294122248888)
    assert activation_range(RELU6, TensorType.INT8, scale, -128) == (-128, 127)
    assert activation_range(RELU, TensorType.INT8, 0.5, 3) == (3, 127)
    assert activation_range(RELU_N1_TO_1, TensorType.INT8, 0.25, 10) == (6, 14)
    assert activation_range(0, TensorType.INT16, 0.25, 0) == (-32768, 32767)
    # The quotients are just below a half in double, and a half in float32.
    assert activation_range(RELU6, TensorType.INT8, float32(2.4), 0) == (0, 3)
    assert activation_range(RELU6, TensorType.INT8, float32(0.8), -20) == (-20, -12)
    assert activation_range(RELU_N1_TO_1, TensorType.INT8, float32(0.4), 10) == (7, 13)
    assert quantised(1.0, float32(2 / 3), 0) == 2 and quantised(-6.0, float32(2.4), 5) == 2
    assert float_range(RELU6) == (0.0, 6.0)


def test_softmax_scaling_of_a_sixteenth() -> None:
    assert softmax_scaling(1.0, 1 / 16) == (Multiplier(1 << 30, 23), -248)

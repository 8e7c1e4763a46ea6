# SPDX-License-Identifier: Apache-2.0
"""MEAN and its relatives: shapes as three dimensions, and multipliers that divide."""

from __future__ import annotations

import pytest

from tests.helpers.compiled_layers import fields, layer_of
from tests.helpers.operator_models import Case, Spec
from tflm_zephyr.compiler.fixed_point import Multiplier, multiplier
from tflm_zephyr.compiler.operators.reductions import Middle, mean_multiplier, middle_of
from tflm_zephyr.errors import ModelError


@pytest.mark.parametrize(
    ("shape", "axes", "found"),
    [
        ((1, 7, 5, 3), {1, 2}, Middle(1, 35, 3)),
        ((2, 7, 5, 3), {1, 2}, Middle(2, 35, 3)),
        ((2, 3), {1}, Middle(2, 3, 1)),
        ((2, 3), {0}, Middle(1, 2, 3)),
        ((2, 1, 3), {0, 2}, Middle(1, 6, 1)),  # a dimension of 1 lies between none
        ((1, 1), {0}, Middle(1, 1, 1)),
        ((2, 4, 3), {0, 2}, None),
    ],
)
def test_reduced_dimensions_are_the_middle_one(shape: tuple[int, ...], axes: set[int], found: Middle | None) -> None:
    assert middle_of(shape, axes) == found


def test_mean_multipliers_divide_with_all_bits() -> None:
    assert mean_multiplier(Multiplier(1 << 30, 1), 4) == Multiplier(1 << 30, -1)
    # 0.75 / 35: the multiplier is shifted left by 5 and divided by 35.
    assert mean_multiplier(multiplier(0.75), 35) == Multiplier((3 << 29 << 5) // 35, -5)
    # The shift never goes below -31.
    assert mean_multiplier(Multiplier(1 << 30, -30), 1024) == Multiplier((1 << 30 << 1) // 1024, -31)


def mean(key: str, axes: tuple[int, ...]) -> Case:
    shape = tuple(n for i, n in enumerate((2, 3, 4)) if i not in axes)
    return Case(key, (Spec((2, 3, 4), "int8", scale=0.5, zero_point=3), Spec((len(axes),), "int32", axes)),
                (Spec(shape, "int8", scale=0.25, zero_point=-4),), {"keep_dims": False})  # fmt: skip


def test_zero_points_are_taken_off_the_sum() -> None:
    layer = layer_of(mean("SUM", (1,)))
    assert fields(layer, "kRescaling") == {
        "input_offset": -9, "multiplier": 1 << 30, "shift": 2, "output_offset": -4,
    }  # fmt: skip
    assert layer.calls[0].operands[2:5] == (2, 3, 4)
    assert layer.scratch_bytes == 0


def test_dimensions_that_are_no_neighbours_are_refused() -> None:
    with pytest.raises(ModelError, match="reduces dimensions that others lie between"):
        layer_of(mean("MEAN", (0, 2)))

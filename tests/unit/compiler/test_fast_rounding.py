# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import numpy
import pytest

from tflm_zephyr.compiler.fast_rounding import NotFastError, Quantities, Requantisation, Sums, joined, requantisation
from tflm_zephyr.compiler.fixed_point import Multiplier
from tflm_zephyr.compiler.ir.kernels import Rounding

WEIGHTS = numpy.array([[3, -5, 100, 7], [-90, 11, 2, -128], [1, 2, 3, 4], [60, -60, 5, 5]])
MULTIPLIERS = tuple(Multiplier(value, -6) for value in (1_500_000_001, 1_700_000_003, 1_100_000_007, 2_000_000_011))
LAYER = Quantities(Sums(WEIGHTS, (100, -40, 7, 0), MULTIPLIERS), source=-3, zero_point=-128, least=-128, most=127)


def every_output(of: Quantities, sums: list[int]) -> list[int]:
    """TFLM's outputs of one sum for each channel."""
    return [int(value) for value in of.scaling.evaluate(numpy.array(sums)[:, None])[:, 0]]


def halves(found: Requantisation) -> list[Rounding]:
    """The forms of both channels of a pair."""
    assert found.rounding.form == "Joined"
    return [one for one in found.rounding.arguments if isinstance(one, Rounding)]


def test_a_zero_point_at_the_clamp_takes_one_floor() -> None:
    found = requantisation(LAYER)
    assert found.rounding == Rounding("OneFloor", (5, -128, 127))
    assert all(len(row) == 3 for row in found.words)


@pytest.mark.parametrize(("least", "most"), [(-64, 56), (-58, 126)])
def test_a_clamp_of_its_own_takes_one_floor(least: int, most: int) -> None:
    layer = replace(LAYER, zero_point=least, least=least, most=most)
    assert requantisation(layer).rounding == Rounding("OneFloor", (5, least, most))
    pair = joined(layer)
    assert pair is not None and [half.form for half in halves(pair)] == ["OneFloor"] * 2


@pytest.mark.parametrize(("zero_point", "shift", "name"), [(4, -6, "TwoFloors"), (4, 0, "TwoRoundings")])
def test_other_layers_take_other_forms(zero_point: int, shift: int, name: str) -> None:
    multipliers = tuple(replace(one, shift=shift) for one in MULTIPLIERS)
    found = requantisation(replace(LAYER, zero_point=zero_point, sums=replace(LAYER.sums, multipliers=multipliers)))
    assert found.rounding == Rounding(name, (4, -128, 127))


def test_the_first_word_has_bias_offset_and_input_offset() -> None:
    found = requantisation(replace(LAYER, zero_point=4))
    assert [row[0] for row in found.words] == [100 + 3 * 105, -40 + 3 * -205, 7 + 3 * 10, 3 * 10]


def test_sums_beyond_32_bits_are_refused() -> None:
    with pytest.raises(NotFastError, match="32 bits"):
        requantisation(replace(LAYER, sums=replace(LAYER.sums, bias=(2**31 - 1, 0, 0, 0))))


def test_joined_sums_give_tflms_outputs() -> None:
    found = joined(LAYER)
    assert found is not None
    rng = numpy.random.default_rng(1)
    shifts = [half.arguments[0] for half in halves(found)]
    for values in rng.integers(-128, 128, (200, 4)):
        sums = (WEIGHTS @ (values + 3) + numpy.array([100, -40, 7, 0])).tolist()
        plain, got = (WEIGHTS @ values).tolist(), []
        for pair in (0, 2):
            one = plain[pair] + found.words[pair][0]
            both = plain[pair] + 256 * plain[pair + 1] + found.words[pair + 1][0]
            for total, row, shift in zip((one, both - one), found.words[pair : pair + 2], shifts, strict=True):
                got.append(max(-128, min(127, (row[2] + (total * row[1] >> 32)) >> shift)))
        assert got == every_output(LAYER, sums)


@pytest.mark.parametrize(
    "weights", [WEIGHTS[:1], WEIGHTS[:, :3], numpy.array([[-1] * 4, [-128] * 4]), numpy.full((2, 4), 2**20)]
)
def test_what_cannot_be_joined_is_not(weights: numpy.ndarray) -> None:
    count = len(weights)
    sums = Sums(weights, LAYER.sums.bias[:count], MULTIPLIERS[:count])
    assert joined(replace(LAYER, sums=sums)) is None

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random
from dataclasses import replace

import numpy
import pytest

from tflm_zephyr.fast_kernels import (
    OneFloor,
    ProofError,
    Reach,
    Scaling,
    one_floor,
    prove,
    proven,
    reach_of,
    two_floors,
)

RELU = Scaling((1_503_238_553, 2_000_000_011, 1_100_000_003), (-6, -8, -5), -128, -128, 127)
REACH = Reach((-9_000, -60_000, -4_000), (30_000, 70_000, 9_000))
RELU6 = replace(RELU, zero_point=-64, least=-64, most=56)
SIGNED = replace(RELU, zero_point=7, least=-100, most=120)


def rounded_twice(total: int, multiplier: int, shift: int) -> int:
    """MultiplyByQuantizedMultiplier() written with Python's integers: to the nearest, twice."""
    product = (total << max(shift, 0)) * multiplier
    high = (product + (1 << 30)) // (1 << 31)
    right = max(-shift, 0)
    magnitude = (abs(high) + (1 << right >> 1)) >> right
    return -magnitude if high < 0 else magnitude


@pytest.mark.parametrize("shift", [-20, -7, -1, 0, 3])
def test_scaling_is_tflms(shift: int) -> None:
    rng = random.Random(shift)
    for _ in range(200):
        multiplier, total = rng.randrange(1 << 30, 1 << 31), rng.randrange(-(2**24), 2**24)
        scaling = Scaling((multiplier,), (shift,), 3, -128, 127)
        want = max(-128, min(127, rounded_twice(total, multiplier, shift) + 3))
        assert scaling.evaluate(numpy.array([[total]])).tolist() == [[want]]


def test_halves_are_rounded_away_from_zero() -> None:
    scaling = Scaling((1 << 30,), (-2,), 0, -128, 127)  # an eighth
    assert scaling.evaluate(numpy.array([[-12, -4, 4, 12]])).tolist() == [[-2, -1, 1, 2]]


@pytest.mark.parametrize("scaling", [RELU, SIGNED])
def test_thresholds_are_the_least_sums(scaling: Scaling) -> None:
    found = scaling.thresholds()
    wanted = numpy.arange(scaling.least + 1, scaling.most + 1)
    assert (scaling.evaluate(found) >= wanted).all()
    assert (scaling.evaluate(found - 1) < wanted).all()


def check_every_sum(scaling: Scaling, form: OneFloor | None) -> None:
    assert form is not None
    for channel, (low, high) in enumerate(zip(REACH.low, REACH.high, strict=True)):
        sums = numpy.broadcast_to(numpy.arange(low, high + 1), (3, high - low + 1))
        assert (form.evaluate(sums)[channel] == scaling.evaluate(sums)[channel]).all()


@pytest.mark.parametrize("gain", [1, 256])
@pytest.mark.parametrize("scaling", [RELU, RELU6])
def test_one_floor_is_equal_on_every_sum(scaling: Scaling, gain: int) -> None:
    check_every_sum(scaling, one_floor(scaling, REACH, gain=gain))


def test_two_floors_are_equal_on_every_sum() -> None:
    form = two_floors(SIGNED, REACH)
    assert form is not None
    sums = numpy.broadcast_to(numpy.arange(-70_000, 70_001), (3, 140_001))
    assert (form.evaluate(sums) == SIGNED.evaluate(sums)).all()


@pytest.mark.parametrize("name", ["multipliers", "addends", "offsets"])
@pytest.mark.parametrize("step", [-1, 1])
def test_the_proof_refuses_constants_wrong_by_one(name: str, step: int) -> None:
    # Every sum of 32 bits that an output needs: a multiplier wrong by one is then wrong somewhere.
    scaling = Scaling((1_503_238_553,), (-12,), -128, -128, 127)
    reach = Reach((-(2**21),), (2**21,))
    form = one_floor(scaling, reach)
    assert form is not None
    prove(scaling, reach, form)
    step *= 1 << 16 if name == "multipliers" else 1
    with pytest.raises(ProofError, match="another output"):
        prove(scaling, reach, replace(form, **{name: (getattr(form, name)[0] + step,)}))


@pytest.mark.parametrize("step", [-1, 1])
def test_the_proof_refuses_another_shift(step: int) -> None:
    scaling, reach = Scaling((1_503_238_553,), (-12,), -128, -128, 127), Reach((-(2**21),), (2**21,))
    form = one_floor(scaling, reach)
    assert form is not None
    with pytest.raises(ProofError, match="another output"):
        prove(scaling, reach, replace(form, shift=form.shift + step))


def test_a_proof_allows_exactly_the_equal_constants() -> None:
    # Whatever the proof says of constants near the right ones, comparing every sum says the same.
    scaling, reach = Scaling((1_900_000_001,), (-4,), -128, -128, 127), Reach((-700,), (5_000,))
    form = one_floor(scaling, reach)
    assert form is not None
    sums = numpy.arange(-700, 5_001)[None]
    said = {True: 0, False: 0}
    for change in range(-40, 41):
        other = replace(form, multipliers=(form.multipliers[0] + change * 40_000,))
        equal = bool((other.evaluate(sums) == scaling.evaluate(sums)).all())
        assert proven(scaling, reach, other) == equal
        said[equal] += 1
    assert min(said.values()) > 0


@pytest.mark.parametrize("gain", [1, 256])
def test_great_shifts_have_one_floor(gain: int) -> None:
    scaling, reach = Scaling((1_900_000_001,), (-20,), -128, -128, 127), Reach((-(2**22),), (2**22,))
    form = one_floor(scaling, reach, gain=gain)
    assert form is not None
    sums = numpy.arange(-(2**22), 2**22, 7)[None]
    assert (form.evaluate(sums) == scaling.evaluate(sums)).all()


def test_a_zero_point_above_the_clamp_takes_two_floors() -> None:
    assert one_floor(SIGNED, REACH) is None
    assert two_floors(SIGNED, REACH) is not None


@pytest.mark.parametrize("shift", [0, 2, -21])
def test_other_shifts_have_neither_form(shift: int) -> None:
    scaling = Scaling((1 << 30,), (shift,), -128, -128, 127)
    assert one_floor(scaling, Reach((-10,), (10,))) is None
    assert two_floors(scaling, Reach((-10,), (10,))) is None


def test_numbers_beyond_32_bits_are_refused() -> None:
    form = one_floor(RELU, REACH)
    assert form is not None
    with pytest.raises(ProofError, match="32 bits"):
        form.evaluate(numpy.array([[2**31], [0], [0]]))
    large = Reach((-(2**30) - 1,), (2**30,))
    assert two_floors(Scaling((1 << 30,), (-6,), 0, -128, 127), large) is None


def test_an_empty_reach_is_no_proof() -> None:
    form = one_floor(RELU, REACH)
    assert form is not None
    with pytest.raises(ProofError, match="least sum"):
        prove(RELU, replace(REACH, low=(40_000, 0, 0)), form)


def test_reach_is_met_by_the_extreme_inputs() -> None:
    found = reach_of([[1, -2, 3], [0, 0, 0]], (10, -5), zero_point=-3)
    assert found == Reach((10 - 125 - 260 - 375, -5), (10 + 130 + 250 + 390, -5))

# SPDX-License-Identifier: Apache-2.0
"""The search within a capacity: what it finds is a packing, what it denies does not exist."""

from __future__ import annotations

import random

import pytest

from tests.helpers.marks import rest_slow
from tests.helpers.packing_cases import GAPS, Piece, assert_packed, cut, peak, sections
from tflm_zephyr.memory_planner.capacity_search import _luby, fit

"""Lower, upper and size."""


def exists(pieces: list[Piece], capacity: int, placed: tuple[int, ...] = ()) -> bool:
    """By brute force: every piece at every height."""
    if len(placed) == len(pieces):
        return True
    low, high, size = pieces[len(placed)]
    for offset in range(capacity - size + 1):
        clear = all(
            other[0] >= high or low >= other[1] or at >= offset + size or offset >= at + other[2]
            for other, at in zip(pieces, placed, strict=False)
        )
        if clear and exists(pieces, capacity, (*placed, offset)):
            return True
    return False


@pytest.mark.parametrize("seed", rest_slow(range(100), 25))
def test_answers_agree_with_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    pieces = [(low, low + rng.randrange(1, 5), rng.randrange(1, 5)) for low in rng.choices(range(8), k=6)]
    for capacity in range(peak(pieces) - 1, peak(pieces) + 2):
        result = fit(sections(pieces), capacity, 10**6)
        assert (result.offsets is not None) == exists(pieces, capacity)
        assert result.proven == (result.offsets is None)
        if result.offsets is not None:
            assert_packed(pieces, result.offsets, capacity)


@pytest.mark.parametrize(("pieces", "most"), GAPS)
def test_what_no_packing_reaches_is_proven(pieces: list[Piece], most: int) -> None:
    assert peak(pieces) == most and not exists(pieces, most) and exists(pieces, most + 1)
    refused = fit(sections(pieces), most, 10**6)
    assert refused.offsets is None and refused.proven and refused.work > 50
    found = fit(sections(pieces), most + 1, 10**6)
    assert found.offsets is not None
    assert_packed(pieces, found.offsets, most + 1)


@pytest.mark.parametrize("seed", range(30))
def test_rectangles_cut_in_pieces_are_put_together_again(seed: int) -> None:
    pieces = cut(seed, 40)
    result = fit(sections(pieces), 64, 20_000_000)
    assert result.offsets is not None and not result.proven
    assert_packed(pieces, result.offsets, 64)
    assert fit(sections(pieces), 64, 20_000_000) == result


def test_a_capacity_below_the_peak_is_refused_at_once() -> None:
    pieces = [(0, 2, 3), (1, 3, 4)]
    refused = fit(sections(pieces), 6, 10**6)
    assert refused.offsets is None and refused.proven and refused.work <= 4


def test_the_work_is_limited() -> None:
    pieces = cut(1, 200, 1 << 20, 1 << 20)
    result = fit(sections(pieces), (1 << 20) - 1, 1000)
    assert result.offsets is None and result.proven
    result = fit(sections(pieces), 1 << 20, 1000)
    assert result.offsets is None and not result.proven and result.work < 100_000


@pytest.mark.slow
def test_a_span_without_packing_is_searched_once() -> None:
    """Fifty spans that have packings, joined to one that has none by a piece below them all."""
    pieces, most = GAPS[0]
    easy = [(low, low + 2, size) for low in range(20, 120, 2) for size in (1, 2, 2)]
    result = fit(sections([*pieces, *easy, (0, 120, 3)]), most + 3, 10**6)
    assert result.proven and result.work < 1_000_000


def test_luby() -> None:
    assert [_luby(turn) for turn in range(15)] == [1, 1, 2, 1, 1, 2, 4, 1, 1, 2, 1, 1, 2, 4, 8]

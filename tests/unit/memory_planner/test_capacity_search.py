# SPDX-License-Identifier: Apache-2.0
"""The search within a capacity: what it finds is a packing, what it denies does not exist."""

from __future__ import annotations

import random

import pytest

from tflm_zephyr.memory_planner.capacity_search import _luby, fit
from tflm_zephyr.memory_planner.time_sections import Sections

Piece = tuple[int, int, int]
"""Lower, upper and size."""


def sections(pieces: list[Piece]) -> Sections:
    return Sections([p[0] for p in pieces], [p[1] for p in pieces], [p[2] for p in pieces])


def peak(pieces: list[Piece]) -> int:
    """The largest sum of sizes alive at one step."""
    return max(sum(p[2] for p in pieces if p[0] <= step < p[1]) for step, _, _ in pieces)


def assert_packed(pieces: list[Piece], offsets: tuple[int, ...], capacity: int) -> None:
    for (low, high, size), offset in zip(pieces, offsets, strict=True):
        assert 0 <= offset <= capacity - size
        for (other_low, other_high, other_size), other in zip(pieces, offsets, strict=True):
            apart = low >= other_high or other_low >= high or offset >= other + other_size or other >= offset + size
            assert apart or (low, high, size, offset) == (other_low, other_high, other_size, other)


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


# Packings of the largest sum alive at one step do not exist of these.
GAPS: list[tuple[list[Piece], int]] = [
    ([(0, 1, 3), (1, 2, 2), (0, 3, 2), (2, 3, 1), (1, 7, 1), (3, 7, 3), (2, 8, 1), (7, 9, 4)], 5),
    ([(0, 3, 7), (3, 4, 3), (3, 5, 4), (4, 6, 1), (5, 6, 3), (4, 7, 2), (5, 7, 1), (6, 8, 4), (7, 8, 3)], 7),
]


def cut(seed: int, count: int, height: int = 64, steps: int = 64) -> list[Piece]:
    """`count` rectangles into which a larger one has been cut: a problem that can be packed without a gap."""
    rng = random.Random(seed)
    rectangles = [(0, steps, height)]
    while len(rectangles) < count:
        low, high, size = rectangles.pop(rng.randrange(len(rectangles)))
        if size > 1 and (high - low == 1 or rng.random() < 0.5):
            at = rng.randrange(1, size)
            rectangles += [(low, high, at), (low, high, size - at)]
        elif high - low > 1:
            at = rng.randrange(low + 1, high)
            rectangles += [(low, at, size), (at, high, size)]
        else:
            rectangles.append((low, high, size))
    rng.shuffle(rectangles)
    return rectangles


@pytest.mark.parametrize("seed", range(100))
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


def test_a_capacity_below_what_is_alive_at_once_is_refused_at_once() -> None:
    pieces = [(0, 2, 3), (1, 3, 4)]
    refused = fit(sections(pieces), 6, 10**6)
    assert refused.offsets is None and refused.proven and refused.work <= 4


def test_the_work_is_limited() -> None:
    pieces = cut(1, 200, 1 << 20, 1 << 20)
    result = fit(sections(pieces), (1 << 20) - 1, 1000)
    assert result.offsets is None and result.proven
    result = fit(sections(pieces), 1 << 20, 1000)
    assert result.offsets is None and not result.proven and result.work < 100_000


def test_a_span_without_a_packing_is_not_searched_again_for_each_way_through_the_others() -> None:
    """Fifty spans that have packings, joined to one that has none by a piece below them all."""
    pieces, most = GAPS[0]
    easy = [(low, low + 2, size) for low in range(20, 120, 2) for size in (1, 2, 2)]
    result = fit(sections([*pieces, *easy, (0, 120, 3)]), most + 3, 10**6)
    assert result.proven and result.work < 1_000_000


def test_luby() -> None:
    assert [_luby(turn) for turn in range(15)] == [1, 1, 2, 1, 1, 2, 4, 1, 1, 2, 1, 1, 2, 4, 8]

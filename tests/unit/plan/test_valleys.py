# SPDX-License-Identifier: Apache-2.0
"""The search within a capacity: what it finds is a packing, what it denies does not exist."""

from __future__ import annotations

import random
from itertools import permutations

import pytest

from tflm_zephyr.plan.sections import Sections
from tflm_zephyr.plan.valleys import _luby, fit

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


def exists(pieces: list[Piece], capacity: int) -> bool:
    """By brute force: some order of placing, each piece at every height where it lies on something."""

    def lowest(placed: list[tuple[Piece, int]], piece: Piece) -> int:
        offset = 0
        for other, at in sorted(placed, key=lambda pair: pair[1]):
            if other[0] < piece[1] and piece[0] < other[1] and at < offset + piece[2] and offset < at + other[2]:
                offset = at + other[2]
        return offset

    for order in permutations(pieces):
        placed: list[tuple[Piece, int]] = []
        for piece in order:
            placed.append((piece, lowest(placed, piece)))
        if all(at + piece[2] <= capacity for piece, at in placed):
            return True
    return False


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
def test_proofs_agree_with_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    pieces = [(low, low + rng.randrange(1, 5), rng.randrange(1, 9)) for low in rng.choices(range(8), k=6)]
    for capacity in range(peak(pieces), peak(pieces) + 4):
        result = fit(sections(pieces), capacity, 10**6)
        assert (result.offsets is not None) == exists(pieces, capacity)
        assert result.proven == (result.offsets is None)
        if result.offsets is not None:
            assert_packed(pieces, result.offsets, capacity)


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


def test_spans_of_time_that_nothing_joins_do_not_hinder_each_other() -> None:
    """Each has no packing only after a search; alone or a hundred in a row, with one that has none at the end."""
    one = [(0, 2, 3), (1, 3, 4)]
    row = [(low + 4 * k, high + 4 * k, size) for k in range(100) for low, high, size in one]
    result = fit(sections(row), 7, 10**6)
    assert result.offsets is not None
    assert_packed(row, result.offsets, 7)


def test_luby() -> None:
    assert [_luby(turn) for turn in range(15)] == [1, 1, 2, 1, 1, 2, 4, 1, 1, 2, 1, 1, 2, 4, 8]

# SPDX-License-Identifier: Apache-2.0
"""Packing problems and checks of their packings."""

from __future__ import annotations

import random

from tflm_zephyr.memory_planner.time_sections import Sections

Piece = tuple[int, int, int]


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

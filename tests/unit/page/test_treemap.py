# SPDX-License-Identifier: Apache-2.0
"""Squarified treemaps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tflm_zephyr.page.treemap import Box, squarified

WHOLE = Box(0, 0, 6, 4)


def test_the_example_of_the_paper() -> None:
    boxes = squarified([6, 6, 4, 3, 2, 2, 1], WHOLE)
    assert boxes[:2] == [Box(0, 0, 3, 2), Box(0, 2, 3, 2)]
    assert [round(max(b.width / b.height, b.height / b.width), 2) for b in boxes[2:4]] == [1.36, 1.81]


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=60))
def test_areas_are_as_given_and_fill_the_whole(sizes: list[int]) -> None:
    sizes.sort(reverse=True)
    boxes = squarified(sizes, WHOLE)
    for size, box in zip(sizes, boxes, strict=True):
        assert box.width * box.height == pytest.approx(24 * size / sum(sizes), rel=1e-6)
        assert box.x >= -1e-6 and box.x + box.width <= 6 + 1e-6
        assert box.y >= -1e-6 and box.y + box.height <= 4 + 1e-6
    for k, one in enumerate(boxes):
        for other in boxes[:k]:
            wide = min(one.x + one.width, other.x + other.width) - max(one.x, other.x)
            high = min(one.y + one.height, other.y + other.height) - max(one.y, other.y)
            assert wide <= 1e-6 or high <= 1e-6


def test_nothing() -> None:
    assert squarified([], WHOLE) == []

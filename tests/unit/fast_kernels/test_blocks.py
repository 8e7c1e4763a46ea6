# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from tflm_zephyr.fast_kernels import (
    Block,
    Rows,
    least_distance,
    least_distance_above,
    of_pixels,
    of_rows,
    of_windows,
)

IMAGE = Rows(in_rows=5, in_bytes=20, out_rows=3, out_pixels=3, out_bytes=12, size=3, stride=2, padding=1)


def test_pixels_come_in_fours_then_two_then_one() -> None:
    assert [one.write_end - one.write_first for one in of_pixels(11, 2, 3)] == [12, 12, 6, 3]
    assert of_pixels(5, 2, 3) == (Block(0, 8, 0, 12), Block(8, 10, 12, 15))


def test_backwards_what_is_left_comes_first() -> None:
    assert of_pixels(11, 2, 3, backwards=True) == (
        Block(16, 20, 24, 30),
        Block(20, 22, 30, 33),
        Block(8, 16, 12, 24),
        Block(0, 8, 0, 12),
    )
    assert set(of_pixels(7, 2, 3, backwards=True)) == set(of_pixels(7, 2, 3))


def test_rows_read_their_windows_inside_the_image() -> None:
    assert of_rows(IMAGE) == (Block(0, 40, 0, 12), Block(20, 80, 12, 24), Block(60, 100, 24, 36))


def test_windows_of_a_block_may_lie_in_two_rows() -> None:
    assert of_windows(IMAGE) == (Block(0, 80, 0, 16), Block(20, 100, 16, 32), Block(60, 100, 32, 36))


def test_rows_of_padding_alone_read_nothing() -> None:
    below = Rows(in_rows=1, in_bytes=4, out_rows=3, out_pixels=1, out_bytes=4, size=1, stride=1, padding=1)
    assert of_rows(below) == (Block(0, 0, 0, 4), Block(0, 4, 4, 8), Block(0, 0, 8, 12))
    assert least_distance(of_rows(below)) == 8


@pytest.mark.parametrize(
    "blocks", [of_pixels(13, 8, 3), of_pixels(13, 3, 8), of_rows(IMAGE), of_windows(IMAGE), of_pixels(1, 5, 9)]
)
def test_the_distance_is_the_least_that_is_safe(blocks: tuple[Block, ...]) -> None:
    distance = least_distance(blocks)
    assert safe(blocks, distance)
    assert distance == 0 or not safe(blocks, distance - 1)


@pytest.mark.parametrize(
    "blocks",
    [
        of_pixels(13, 8, 3, backwards=True),
        of_pixels(13, 3, 8, backwards=True),
        of_pixels(3, 4, 4, backwards=True),
        of_rows(IMAGE)[::-1],
        of_rows(IMAGE, 2)[::-1],
        of_windows(IMAGE)[::-1],
    ],
)
def test_the_distance_above_is_the_least_that_is_safe(blocks: tuple[Block, ...]) -> None:
    distance = least_distance_above(blocks)
    assert safe(blocks, -distance)
    assert distance == 0 or not safe(blocks, 1 - distance)


def safe(blocks: tuple[Block, ...], distance: int) -> bool:
    """Whether no byte of the input is written before, or in, the last block that reads it."""
    written: set[int] = set()
    for block in blocks:
        written |= {byte - distance for byte in range(block.write_first, block.write_end)}
        if written & set(range(block.read_first, block.read_end)):
            return False
    return True

# SPDX-License-Identifier: Apache-2.0
"""The bytes that our kernels read and write, block by block, from the first block to the last or backwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

PIXELS = 4
"""Pixels of a block of a convolution."""


class Block(NamedTuple):
    """Bytes of input and output, from the first one to the end; a block that reads nothing has 0, 0."""

    read_first: int
    read_end: int
    write_first: int
    write_end: int


@dataclass(frozen=True)
class Rows:
    """A kernel's rows: those of input and output, their bytes, an output row's pixels, and the window."""

    in_rows: int
    in_bytes: int
    out_rows: int
    out_pixels: int
    out_bytes: int
    size: int
    stride: int
    padding: int

    @property
    def padded(self) -> bool:
        """Whether a window reaches above the first row, or below the last one."""
        return self.padding > 0 or (self.out_rows - 1) * self.stride - self.padding + self.size > self.in_rows

    def read(self, first: int, last: int) -> tuple[int, int]:
        """The input's bytes that output rows `first` to `last` read."""
        begin = max(0, first * self.stride - self.padding)
        end = min(self.in_rows, last * self.stride - self.padding + self.size)
        return (begin * self.in_bytes, end * self.in_bytes) if begin < end else (0, 0)


def of_pixels(pixels: int, depth: int, channels: int, *, backwards: bool = False) -> tuple[Block, ...]:
    """Blocks of Pointwise: four pixels, then what is left as two and one. Backwards the fours come last, in reverse."""

    def found() -> Iterator[Block]:
        first = 0
        for size in (PIXELS, 2, 1):
            while pixels - first >= size:
                last = first + size
                yield Block(first * depth, last * depth, first * channels, last * channels)
                first = last

    blocks, fours = tuple(found()), pixels // PIXELS
    return (*blocks[fours:], *blocks[:fours][::-1]) if backwards else blocks


def of_windows(rows: Rows) -> tuple[Block, ...]:
    """Blocks of Convolution: the windows of four pixels are copied, which may begin and end in different rows."""
    pixels, pixel = rows.out_rows * rows.out_pixels, rows.out_bytes // rows.out_pixels
    return tuple(
        Block(
            *rows.read(first // rows.out_pixels, (min(first + PIXELS, pixels) - 1) // rows.out_pixels),
            first * pixel,
            min(first + PIXELS, pixels) * pixel,
        )
        for first in range(0, pixels, PIXELS)
    )


def of_rows(rows: Rows, step: int = 1) -> tuple[Block, ...]:
    """Blocks of Depthwise: `step` output rows each."""
    found = []
    for first in range(0, rows.out_rows, step):
        end = min(first + step, rows.out_rows)
        found.append(Block(*rows.read(first, end - 1), first * rows.out_bytes, end * rows.out_bytes))
    return tuple(found)


def least_distance(blocks: Sequence[Block]) -> int:
    """The least number of bytes that the output has to begin below the input, 0 or more, to lie over it.

    No block writes what it reads itself, or a later one.
    """
    found, unread = 0, None
    for block in reversed(blocks):
        if block.read_first < block.read_end:
            unread = block.read_first if unread is None else min(unread, block.read_first)
        if unread is not None:
            found = max(found, block.write_end - unread)
    return found


def least_distance_above(blocks: Sequence[Block]) -> int:
    """The same for an output that begins above the input."""
    found, unread = 0, 0
    for block in reversed(blocks):
        unread = max(unread, block.read_end)
        if unread:
            found = max(found, unread - block.write_first)
    return found

# SPDX-License-Identifier: Apache-2.0
"""Runs of input elements with the moment of their last read, as the in-place checker states them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Run:
    """`count` elements of `size` bytes, from byte `start` of the input on.

    When element k is read for the last time, the output may be written up to (not including) byte until + k * step.
    """

    start: int
    count: int
    size: int
    until: int
    step: int

    def overwritten(self, distance: int, out_bytes: int) -> int | None:
        """A byte of the input that is written before, when the output begins `distance` below; None if none is."""
        # Element k lies over the output's bytes from `first + k * size` on.
        first = self.start + distance
        low = max(0, -((first + self.size - 1) // self.size))
        high = min(self.count - 1, (out_bytes - 1 - first) // self.size)
        # Between the ends both sides grow evenly; the lowest element may stick out below the output.
        for k in {low, low + 1, high}:
            if low <= k <= high and max(first + k * self.size, 0) < self.until + k * self.step:
                return self.start + k * self.size
        return None


COPY: Iterable[Run] = (Run(0, 0, 1, 0, 0),)
"""This very object instead of runs: one memcpy, safe at the same place or apart."""

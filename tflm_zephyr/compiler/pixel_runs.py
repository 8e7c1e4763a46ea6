# SPDX-License-Identifier: Apache-2.0
"""A 1x1 convolution in place: as few calls as possible, each on a run of pixels whose output reaches no unread input.

CMSIS-NN's 1x1 function reads a call's whole input until it returns (on cores without Helium), so that a call's output
may lie only over the input of calls before it. From call to call the room grows or shrinks by the difference of the
channels: a growing layer needs about log2(pixels) calls. Runs go forwards where the output lies below the input, and
backwards where it lies above.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from tflm_zephyr.memory_planner import align_up

_CALLS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128)


@dataclass(frozen=True)
class Runs:
    """Pixels of each call, in the order of the calls; `backwards`: from the last pixel to the first."""

    counts: tuple[int, ...]
    backwards: bool = False


@dataclass(frozen=True)
class PixelLayer:
    """A layer that can be cut into runs: its pixels, and bytes a pixel of input and output."""

    pixels: int
    in_bytes: int
    out_bytes: int

    def runs(self, distance: int) -> Runs | None:
        """The fewest runs where the output starts `distance` bytes below the input (negative: above).

        None where a single pixel's output would overwrite unread input.
        """
        if distance >= self.pixels * self.out_bytes or -distance >= self.pixels * self.in_bytes:
            return Runs((self.pixels,))
        found = [Runs(counts) for counts in (self._forwards(distance),) if counts]
        found += [Runs(counts, True) for counts in (self._backwards(-distance),) if counts]
        return min(found, key=lambda runs: len(runs.counts), default=None)

    def _forwards(self, distance: int) -> tuple[int, ...]:
        """The largest even run each time, as kernels compute pixels in pairs; none where that is impossible."""
        found = []
        first = 0
        while first < self.pixels:
            room = (distance + first * self.in_bytes) // self.out_bytes - first
            count = _even(min(self.pixels - first, room), self.pixels - first)
            if count <= 0:
                return ()
            found.append(count)
            first += count
        return tuple(found)

    def _backwards(self, above: int) -> tuple[int, ...]:
        found = []
        left = self.pixels
        while left:
            first = max(0, -((above - left * self.in_bytes) // self.out_bytes))
            count = _even(left - first, left)
            if count <= 0:
                return ()
            found.append(count)
            left -= count
        return tuple(found)

    def distances(self, alignment: int, *, backwards: bool) -> tuple[tuple[int, int], ...]:
        """Pairs of a distance and the number of calls there, fewest calls first.

        The distance is how far the output starts below the input, or backwards above it. Each is the least multiple of
        `alignment` for no more calls; the last one is the least of all.
        """
        return _distances(self, alignment, backwards)


@lru_cache(maxsize=1024)
def _distances(layer: PixelLayer, alignment: int, backwards: bool) -> tuple[tuple[int, int], ...]:
    """Layers of one shape, and plans of one model, ask for the same."""
    one, other = (layer.in_bytes, layer.out_bytes) if backwards else (layer.out_bytes, layer.in_bytes)
    runs = layer._backwards if backwards else layer._forwards
    whole = align_up(layer.pixels * one, alignment)
    least = align_up(max(one, layer.pixels * one - (layer.pixels - 1) * other), alignment)
    found: list[tuple[int, int]] = []
    for most in (*_CALLS, layer.pixels):
        distance = _least(runs, least // alignment, whole // alignment, most, alignment)
        if distance is None or distance >= whole:
            continue
        if not found or distance < found[-1][0]:
            found.append((distance, len(runs(distance))))
        if distance == least:
            break
    return tuple(found)


def _even(count: int, left: int) -> int:
    """`count`, or one less where that is even and pixels are left after it."""
    return count - 1 if count > 1 and count % 2 and count < left else count


def _least(runs: Callable[[int], tuple[int, ...]], low: int, high: int, most: int, unit: int) -> int | None:
    """The least distance from low to high units with at least one and at most `most` runs."""

    def good(units: int) -> bool:
        return 0 < len(runs(units * unit)) <= most

    if low > high or not good(high):
        return None
    while low < high:
        middle = (low + high) // 2
        if good(middle):
            high = middle
        else:
            low = middle + 1
    return high * unit

# SPDX-License-Identifier: Apache-2.0
"""The state of a packing that grows from the bottom up, with bounds for the rest; every change can be undone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from tflm_zephyr.memory_planner.problem import most_saved
from tflm_zephyr.memory_planner.time_sections import Sections


class Skyline:
    """Each buffer's lowest offset left, and for each section its floor, slack and sorted keys.

    A section's floor is the lowest of its unplaced buffers' offsets. Its need is the height of those buffers
    stacked by their offsets, less what they can share at most; its slack is what the capacity leaves above the floor
    and all their sizes, less the same. `work` counts looks at a buffer in a section, and about as much time for
    everything else.

    An input that may lie over an output is raised by its lead alone when the output is placed. The other way round
    the output is raised above the whole input: below it, it would have been placed before.

    A buffer's key has, from the lowest bits, its size, whether nothing placed is right below it (it cannot stay
    there, then), and its lowest offset, so that sorted keys are a section's buffers from the floor up.
    """

    def __init__(self, sections: Sections, capacity: int) -> None:
        self.sections, self.capacity = sections, capacity
        self.flag_at = max(sections.sizes, default=0).bit_length()
        self.offset_at = self.flag_at + 1
        self._size_mask = (1 << self.flag_at) - 1
        self._placed = (2 * capacity + 1) << self.offset_at
        self.work = 0
        self._words = len(sections.members) // 64
        self.reset()

    def reset(self) -> None:
        """Nothing placed, and the sections not yet looked at: `update` does that."""
        buffers, count = self.sections.sizes, len(self.sections.members)
        self.keys = list(buffers)
        self.offsets = [0] * len(buffers)
        self.unplaced = (1 << len(buffers)) - 1
        self.floors, self.slacks = [0] * count, [0] * count
        self.sorted: list[list[int]] = [[] for _ in range(count)]
        self.trail: list[tuple[int, int] | tuple[int, int, int, list[int]]] = []

    def place(self, buffer: int) -> bool:
        """Place it at its lowest offset; False when that leaves no packing."""
        keys, offset_at, sizes = self.keys, self.offset_at, self.sections.sizes
        spans, trail = self.sections.span_bits, self.trail
        offset = keys[buffer] >> offset_at
        self.offsets[buffer] = offset
        trail.append((buffer, keys[buffer]))
        keys[buffer] = self._placed
        self.unplaced ^= 1 << buffer
        top = (offset + sizes[buffer]) << offset_at
        floating = top + (2 << self.flag_at)  # above all keys of this offset
        changed = spans[buffer]
        self.work += len(self.sections.meets[buffer])
        leads = self.sections.leads[buffer]
        for other in self.sections.meets[buffer]:
            key = keys[other]
            if other in leads:
                above = (offset + leads[other]) << offset_at
                if key < above + (2 << self.flag_at) and key != above + sizes[other]:
                    trail.append((other, key))
                    keys[other] = above + sizes[other]
                    changed |= spans[other]
            elif key < floating:
                raised = top + sizes[other]
                if raised != key:
                    trail.append((other, key))
                    keys[other] = raised
                    changed |= spans[other]
        return self.update(changed)

    def rise(self, buffers: list[int]) -> bool:
        """None of these, which all meet, starts at its lowest offset: each lies on something yet to be placed."""
        keys, offset_at, sizes = self.keys, self.offset_at, self.sections.sizes
        spans = self.sections.span_bits
        beyond = self.capacity + 1
        rests = []
        for buffer in buffers:
            tops = (
                (keys[other] >> offset_at) + self.sections.leads[other].get(buffer, sizes[other])
                for other in self.sections.meets[buffer]
                if other not in buffers
            )
            rests.append(min(tops, default=beyond))
        # The lowest of them lies on one of the others that they meet, the rest on that one or on such as well.
        least = self.sections.least_rise
        stacked = min(rest + least[buffer] for rest, buffer in zip(rests, buffers, strict=True))
        changed = 0
        for buffer, rest in zip(buffers, rests, strict=True):
            offset = max(min(rest, stacked), (keys[buffer] >> offset_at) + 1)
            if offset + sizes[buffer] > self.capacity:
                return False
            self.trail.append((buffer, keys[buffer]))
            keys[buffer] = (2 * offset + 1) << self.flag_at | sizes[buffer]
            changed |= spans[buffer]
        return self.update(changed)

    def update(self, changed: int) -> bool:
        """Floors and slacks of the sections in the bits of `changed`; False when one needs too much."""
        keys, members, offset_at, size_mask = self.keys, self.sections.members, self.offset_at, self._size_mask
        placed, capacity, trail, pairs = self._placed, self.capacity, self.trail, self.sections.pairs
        while changed:
            section = (changed & -changed).bit_length() - 1
            changed &= changed - 1
            group = members[section]
            self.work += len(group) + self._words
            trail.append((section, self.floors[section], self.slacks[section], self.sorted[section]))
            self.sorted[section] = inside = sorted([keys[buffer] for buffer in group])
            floor = need = inside[0] >> offset_at
            idle = 0
            for key in inside:
                if key >= placed:
                    break
                offset = key >> offset_at
                if offset > need:
                    idle += offset - need
                    need = offset
                need += key & size_mask
            if pairs[section]:
                need -= self._shared(section)
            if need > capacity >= floor:
                return False
            self.floors[section], self.slacks[section] = floor, capacity - need + idle
        return True

    def _shared(self, section: int) -> int:
        """No less than the section's unplaced buffers can share."""
        unplaced = self.unplaced
        free = [pair for pair in self.sections.pairs[section] if unplaced >> pair[0] & unplaced >> pair[1] & 1]
        return most_saved(free, self.sections.sizes) if free else 0

    def undo(self, mark: int) -> None:
        """Back to where the trail had the length `mark`."""
        trail, keys, placed = self.trail, self.keys, self._placed
        while len(trail) > mark:
            change = trail.pop()
            if len(change) == 2:
                buffer, key = change
                if keys[buffer] == placed:
                    self.unplaced |= 1 << buffer
                keys[buffer] = key
            else:
                section, self.floors[section], self.slacks[section], self.sorted[section] = change

    def digest(self, buffers: Iterable[int]) -> bytes:
        """The state a part's search depends on: unplaced buffers and their lowest offsets, in a short digest."""
        keys, unplaced = self.keys, self.unplaced
        state = [(buffer, keys[buffer]) for buffer in buffers if unplaced >> buffer & 1]
        return hashlib.blake2b(repr(state).encode(), digest_size=16).digest()

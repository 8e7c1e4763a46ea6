# SPDX-License-Identifier: Apache-2.0
"""A beam search for a packing within a given capacity; imports numpy, so import it late.

Bottom up, as google/minimalloc searches, but in breadth. A state has some buffers placed, and for each other one
the lowest offset that it can still have. The next decision is at the lowest valley: the section (a maximal set
of buffers alive together) in which something could start lowest. Either one of the buffers that could start
there does, or none does, and each of them has to rest on some other buffer, hence starts higher. A packing in
which no buffer could be moved down always exists and is reached by such decisions, so a search that never had
to drop a state and ends without a packing proves that there is none.

A section's need is a bound on the height that a state must reach there: buffers with earliest starts, one after
the other, on one machine. States that need more than the capacity anywhere are dropped, then those with the
worst scores, so that at most `width` go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_PLACED = 1 << 30
_SHIFT = 31
_SIZE_MASK = (1 << _SHIFT) - 1
_HASH_SEED = 20


@dataclass(frozen=True)
class Setting:
    """How states are compared. Lost height in a section weighs 1 / (its slack + ease x capacity); what is
    placed counts `progress` times its height, summed over the sections with the same weights."""

    ease: float
    progress: float


@dataclass(frozen=True)
class Result:
    """Offsets, or None; `proven`: then there are none at all. `work` counts looks at a buffer in a section."""

    offsets: tuple[int, ...] | None
    proven: bool
    work: int


class Sections:
    """A problem's buffers by the sections they are alive in; sizes in any unit, below 2**30 in sum."""

    def __init__(self, lower: Sequence[int], upper: Sequence[int], sizes: Sequence[int]) -> None:
        self.sizes: Ints = np.array(sizes, dtype=np.int64)
        starts = _section_starts(lower, upper)
        low, high, at = np.array(lower)[:, None], np.array(upper)[:, None], np.array(starts)
        self.alive: Bools = (low <= at) & (at < high)
        self.meets: Bools = (low < high.T) & (high > low.T)
        self.live: Ints = self.alive.T @ self.sizes
        members = [np.flatnonzero(column) for column in self.alive.T]
        # One column a section, filled up with the index of a buffer that is always placed.
        self.members: Ints = np.full((len(members), max(map(len, members))), len(sizes), dtype=np.int64)
        for row, found in zip(self.members, members, strict=True):
            row[: len(found)] = found
        keys = np.random.default_rng(_HASH_SEED)
        self.hashes: Ints = keys.integers(1, 1 << 62, size=len(sizes), dtype=np.int64)

    @property
    def cells(self) -> int:
        """Looks at a buffer in a section that one state costs."""
        return int(self.members.size)

    def needs(self, lowest: Ints) -> tuple[Ints, Ints]:
        """For states with these `lowest` offsets: the height needed and the lowest start, by section."""
        keys = np.full((len(lowest), lowest.shape[1] + 1), _PLACED << _SHIFT, dtype=np.int64)
        keys[:, :-1] = np.where(lowest >= _PLACED, _PLACED << _SHIFT, (lowest << _SHIFT) | self.sizes)
        inside = keys[:, self.members]
        inside.sort(axis=2)
        starts, sizes = inside >> _SHIFT, inside & _SIZE_MASK
        above = np.cumsum(sizes[:, :, ::-1], axis=2)[:, :, ::-1]
        needed = np.where(starts < _PLACED, starts + above, 0).max(axis=2)
        return needed, starts[:, :, 0]


def _section_starts(lower: Sequence[int], upper: Sequence[int]) -> list[int]:
    """A step of each maximal set of buffers alive together: the last start before an end."""
    events = sorted([(step, 1) for step in lower] + [(step, 0) for step in upper])
    starts = []
    for (step, is_start), (_, next_is_start) in pairwise(events):
        if is_start and not next_is_start:
            starts.append(step)
    return starts


def beam(sections: Sections, capacity: int, setting: Setting, width: int, max_work: int) -> Result:
    """A packing within `capacity` (in the unit of the sizes), looking at no more than `width` states a level."""
    slack = capacity - sections.live
    weights: npt.NDArray[Any] = 1.0 / (slack + max(setting.ease * capacity, 1e-9))
    gain = setting.progress * (sections.alive @ weights) * sections.sizes
    lowest: Ints = np.zeros((1, len(sections.sizes)), dtype=np.int64)
    gained, keys = np.zeros(1), np.zeros(1, dtype=np.int64)
    needed, starts = sections.needs(lowest)
    history: list[tuple[Ints, Ints, Ints]] = []
    work, complete = 0, True
    while work <= max_work:
        states, buffers, offsets, children = _decide(sections, lowest, starts, needed, capacity)
        placed = buffers >= 0
        done = np.flatnonzero(placed & (children >= _PLACED).all(axis=1))
        if len(done):
            history.append((states, buffers, offsets))
            return Result(_trace(history, int(done[0]), len(sections.sizes)), False, work)
        new_keys = keys[states] ^ np.where(placed, sections.hashes[buffers], 0)
        new_gained = gained[states] + np.where(placed, gain[buffers], 0.0)
        # The same buffers placed and the same offsets left for the others: the same state.
        _, first = np.unique(new_keys + (children * sections.hashes).sum(axis=1), return_index=True)
        first.sort()
        new_needed, new_starts = sections.needs(children[first])
        work += len(first) * sections.cells
        score = np.where(new_needed > 0, new_needed - sections.live, 0) @ weights - new_gained[first]
        score[(new_needed > capacity).any(axis=1)] = np.inf
        order = np.argsort(score, kind="stable")
        order = order[score[order] < np.inf]
        if not len(order):
            return Result(None, complete, work)
        complete &= len(order) <= width
        order = order[:width]
        kept = first[order]
        history.append((states[kept], buffers[kept], offsets[kept]))
        lowest, keys, gained = children[kept], new_keys[kept], new_gained[kept]
        needed, starts = new_needed[order], new_starts[order]
    return Result(None, False, work)


def _decide(
    sections: Sections, lowest: Ints, starts: Ints, needed: Ints, capacity: int
) -> tuple[Ints, Ints, Ints, Ints]:
    """All decisions at each state's lowest valley: (state, buffer or -1, offset, lowest offsets after it).

    Of several equally low valleys it is the one with the least height to lose.
    """
    every = np.arange(len(lowest))
    section = (starts * (capacity + 1) + capacity - needed).argmin(axis=1)
    floor = starts[every, section]
    could: Bools = (lowest == floor[:, None]) & sections.alive[:, section].T
    states, buffers = np.nonzero(could)
    pairs = np.arange(len(states))
    tops = floor[states] + sections.sizes[buffers]
    meets = sections.meets[buffers]
    children = lowest[states]
    children = np.where(meets & (children < _PLACED), np.maximum(children, tops[:, None]), children)
    children[pairs, buffers] = _PLACED

    # None of them starts there: the lowest of them rests on another one, the rest on that or on each other.
    others = np.where((lowest >= _PLACED) | could, _PLACED, lowest + sections.sizes)
    rest = np.where(meets, others[states], _PLACED).min(axis=1)
    raised = lowest.copy()
    raised[states, buffers] = rest
    stacked = np.full(len(lowest), _PLACED, dtype=np.int64)
    np.minimum.at(stacked, states, rest + sections.sizes[buffers])
    raised[states, buffers] = np.minimum(rest, np.maximum(stacked[states], floor[states] + 1))
    alive = np.ones(len(lowest), dtype=bool)
    np.logical_and.at(alive, states, raised[states, buffers] + sections.sizes[buffers] <= capacity)
    up = np.flatnonzero(alive)
    return (
        np.concatenate([states, up]),
        np.concatenate([buffers, np.full(len(up), -1)]),
        np.concatenate([floor[states], floor[up]]),
        np.concatenate([children, raised[up]]),
    )


def _trace(history: list[tuple[Ints, Ints, Ints]], state: int, count: int) -> tuple[int, ...]:
    found = [0] * count
    for states, buffers, offsets in reversed(history):
        if buffers[state] >= 0:
            found[buffers[state]] = int(offsets[state])
        state = int(states[state])
    return tuple(found)

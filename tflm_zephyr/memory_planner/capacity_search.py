# SPDX-License-Identifier: Apache-2.0
"""A depth-first search for a packing within a capacity, which decides first where there are fewest possibilities.

It is complete and works from the bottom up, like google/minimalloc: if a packing exists, one exists in which no buffer
can be moved down, and in it each buffer lies on the ground or on another buffer. The search need not continue at the
lowest offset, though. A section's floor is the lowest offset that any of its unplaced buffers can still have; a valley
is a run of sections with one floor, with higher floors on both sides. No buffer that could start on a valley's floor
reaches out of the valley. So in each of its sections either one of these buffers starts there, or none does; then each
of them lies on another unplaced buffer, and hence starts higher. The section with the fewest possibilities is decided
first. A single possibility is no decision, and its consequences leave fewer possibilities for the others.

A section's need, the height of its unplaced buffers stacked by their lowest offsets, must stay within the
capacity. Spans of time that no unplaced buffer joins are searched one after the other; where one has no packing,
the search goes back to the decision that separated it, past all decisions in the others. States without a packing are
remembered. Where an input may start at the offset of its output, one lies on the other at the same height: such an
output can start on the floor together with a buffer of the section, though it is not alive there itself. After some
decisions the search starts over with another order, since no later decision can repair a wrong early one.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from tflm_zephyr.memory_planner.skyline import Skyline
from tflm_zephyr.memory_planner.time_sections import Sections

_DECISIONS, _DECISIONS_EACH = 500, 2  # of the shortest searches before they start over: at least, and a buffer
_NOISE = 0.2  # how far a buffer's rank moves when starting over, as a share of all buffers
_STYLES = ((30.0, 4.0), (10.0, 1.0), (100.0, 16.0), (3.0, 4.0))  # cautions and reaches
_AWAY = 0.1  # how much a section's distance from the last one counts, in mean lives
_NEAREST = 8  # sections that are looked at on both sides at least
_REMEMBERED = 400  # buffers of a part, at most, for its state to be remembered
_SEED = 20


@dataclass(frozen=True)
class SearchResult:
    """Offsets, or None; `proven`: then there are none at all. `work` counts looks at a buffer in a section."""

    offsets: tuple[int, ...] | None
    proven: bool
    work: int


@dataclass(frozen=True)
class Settings:
    """Settings of a search; they change the time until a packing is found, but not whether one can be found.

    `order`: a rank for each buffer, of which the highest is tried first. `caution`: how much a section is preferred
    for having little slack, next to few possibilities. `reach`: how far from the last section the next one may be, in
    mean lives.
    """

    order: Sequence[float]
    caution: float
    reach: float


def fit(sections: Sections, capacity: int, max_work: int) -> SearchResult:
    """A packing within `capacity` (in the unit of the sizes), unless the work is spent before one is found."""
    search = _Search(sections, capacity, max_work)
    shortest = max(_DECISIONS, _DECISIONS_EACH * len(sections.sizes))
    known = len(_STYLES) * len(sections.orders)
    for turn, settings in enumerate(_settings(sections)):
        ended = search.run(settings, shortest * _luby(turn // known))
        if ended is not None:
            return SearchResult(tuple(search.sky.offsets) if ended else None, not ended, search.sky.work)
        if search.sky.work > max_work:
            break
    return SearchResult(None, False, search.sky.work)


def _settings(sections: Sections) -> Iterator[Settings]:
    """All that are known, then shuffled ones without end."""
    for style in _STYLES:
        for order in sections.orders:
            yield Settings(order, *style)
    rng = random.Random(_SEED)
    noise = _NOISE * len(sections.sizes)
    while True:
        for order in sections.orders:
            caution, reach = (_STYLES[int(rng.random() * len(_STYLES))][part] for part in (0, 1))
            yield Settings([rank + noise * rng.random() for rank in order], caution, reach)


def _luby(turn: int) -> int:
    """1 1 2 1 1 2 4 1 1 2 1 1 2 4 8 ...: within a constant factor of the best lengths to start over at."""
    size = 1
    while turn >= size:
        size = 2 * size + 1
    while turn < size - 1:
        size //= 2
        turn %= size
    return (size + 1) // 2


class _Part(NamedTuple):
    """Buffers that lifespans join, in the order of their starts, and the sections they may be unplaced in."""

    buffers: list[int]
    start: int
    end: int


class _Agenda(NamedTuple):
    """The search that is left: a part, the decision (its index) that made it, and the rest."""

    part: _Part
    parent: int
    rest: _Agenda | None


@dataclass
class _Decision:
    """Buffers still to try at a floor, then none of all of them; `mark` is the length of the trail before it.

    What is tried are buffers to be placed one after the other, mostly a single one; `placed` is what is tried now.
    """

    part: _Part
    parent: int
    rest: _Agenda | None
    mark: int
    untried: Iterator[list[int]]
    starting: list[int]
    may_rise: bool
    state: bytes | None
    placed: list[int] | None = None


class _Search:
    """Searches within one capacity; `failed` are the states of parts that have no packing."""

    def __init__(self, sections: Sections, capacity: int, max_work: int) -> None:
        self.sections, self.max_work = sections, max_work
        self.sky = Skyline(sections, capacity)
        self.failed: set[bytes] = set()
        self.last = 0
        self.mean_life = sum(end - start for start, end in sections.spans) / max(1, len(sections.spans))

    def run(self, settings: Settings, decisions: int) -> bool | None:
        """Whether there is a packing (the skyline then has it); None when `decisions` or the work are spent."""
        sky = self.sky
        sky.reset()
        self.last = 0
        if not sky.update((1 << len(self.sections.members)) - 1):
            return False
        taken: list[_Decision] = []
        agenda = self._queue(sorted(range(len(settings.order)), key=self.sections.spans.__getitem__), -1, None)
        while agenda is not None:
            part, parent, rest = agenda
            settled = self._settle(part, settings)
            if isinstance(settled, _Part):
                agenda = self._queue(settled.buffers, parent, rest)
                continue
            if settled is not None:
                section, starting, options = settled
                state = sky.digest(part.buffers) if len(part.buffers) <= _REMEMBERED else None
                if state not in self.failed:
                    options.sort(key=lambda option: settings.order[option[-1]], reverse=True)
                    may_rise = sky.slacks[section] > 0
                    decision = _Decision(part, parent, rest, len(sky.trail), iter(options), starting, may_rise, state)
                    taken.append(decision)
                    parent = len(taken) - 1
                    decisions -= 1
            at = self._next(taken, parent)
            if at < 0:
                return False
            if decisions < 0 or sky.work > self.max_work:
                return None
            decision = taken[at]
            if decision.placed is None or not self._separates(decision.placed):
                agenda = _Agenda(decision.part, at, decision.rest)
            else:
                agenda = self._queue(decision.part.buffers, at, decision.rest)
        return True

    def _next(self, taken: list[_Decision], at: int) -> int:
        """Go back to decision `at` and do what is next there, or before it if nothing is.

        Which decision it was, or -1 when all have been tried.
        """
        sky = self.sky
        while at >= 0:
            del taken[at + 1 :]
            decision = taken[at]
            sky.undo(decision.mark)
            decision.placed = option = next(decision.untried, None)
            if option is not None:
                if all(map(sky.place, option)):
                    return at
            elif decision.may_rise:
                decision.may_rise = False
                if sky.rise(decision.starting):
                    return at
            else:
                if decision.state is not None:
                    self.failed.add(decision.state)
                at = decision.parent
        return -1

    def _queue(self, buffers: Iterable[int], parent: int, rest: _Agenda | None) -> _Agenda | None:
        """The unplaced of `buffers` in parts, those of few buffers before the others, and then the rest."""
        spans, unplaced = self.sections.spans, self.sky.unplaced
        self.sky.work += len(self.sections.sizes)
        parts: list[_Part] = []
        for buffer in buffers:
            if unplaced >> buffer & 1:
                start, end = spans[buffer]
                if not parts or start >= parts[-1].end:
                    parts.append(_Part([buffer], start, end))
                else:
                    parts[-1].buffers.append(buffer)
                    if end > parts[-1].end:
                        parts[-1] = parts[-1]._replace(end=end)
        for part in sorted(parts, key=lambda part: len(part.buffers), reverse=True):
            rest = _Agenda(part, parent, rest)
        return rest

    def _settle(self, part: _Part, settings: Settings) -> tuple[int, list[int], list[list[int]]] | _Part | None:
        """Do all that is forced in a part. None when it has no packing, else the section to decide on, the buffers
        that may start at its floor, and what to place so that one does; or the part itself, when it may have come
        apart or is done."""
        sky = self.sky
        keys, flag_at = sky.keys, sky.flag_at
        while True:
            section = self._narrowest(part, settings)
            lowest = 2 * sky.floors[section]
            group = self.sections.members[section]
            floating = [buffer for buffer in group if keys[buffer] >> flag_at == lowest + 1]
            lying = [buffer for buffer in floating if any(self._chains(buffer, lowest))]
            if not all(sky.rise([buffer]) for buffer in floating if buffer not in lying):
                return None
            if len(floating) > len(lying):
                continue
            starting = [buffer for buffer in group if keys[buffer] >> flag_at == lowest] + lying
            options = [chain for buffer in starting for chain in self._chains(buffer, lowest, starting)]
            if len(options) > 1:
                return section, starting, options
            if sky.slacks[section] > 0:
                mark = len(sky.trail)
                possible = sky.rise(starting)
                sky.undo(mark)
                if possible:
                    return section, starting, options
            if not options or not all(map(sky.place, options[0])):
                return None
            if self._separates(options[0]):
                return part

    def _chains(self, buffer: int, lowest: int, starting: Sequence[int] = ()) -> Iterator[list[int]]:
        """The buffer as the last of those to place so that it starts at its key's place, `lowest` >> 1: alone unless
        it floats there, or after outputs that start there as well; not those of `starting`, placed for themselves."""
        sky, outputs_at = self.sky, self.sections.outputs_at
        chains = [[buffer]]
        while chains:
            chain = chains.pop()
            if sky.keys[chain[0]] >> sky.flag_at == lowest:
                yield chain
            for output in outputs_at[chain[0]]:
                if sky.keys[output] >> sky.offset_at == lowest >> 1 and output not in starting:
                    chains.append([output, *chain])

    def _narrowest(self, part: _Part, settings: Settings) -> int:
        """The section of a valley with the fewest possibilities for its floor, weighted; the first of equal ones.

        In long parts it is one near the last one, so that what a wrong decision spoils is soon seen.
        """
        reach = max(_NEAREST, int(settings.reach * self.mean_life))
        start, end = max(part.start, self.last - reach), min(part.end, self.last + reach)
        narrowest = self._narrowest_in(part, start, end, settings.caution)
        if narrowest < 0:
            narrowest = self._narrowest_in(part, part.start, part.end, settings.caution)
        self.last = narrowest
        return narrowest

    def _narrowest_in(self, part: _Part, section: int, end: int, caution: float) -> int:
        """The narrowest of the valleys that start from `section` to `end`; -1 when there are none.

        It has the least possibilities x (1 + caution x its share of slack) x (1 + _AWAY x its distance).
        """
        sky = self.sky
        floors, slacks, above = sky.floors, sky.slacks, sky.capacity + 1
        sky.work += max(0, end - section)
        share, away, last = caution / sky.capacity, _AWAY / self.mean_life, self.last
        narrowest, fewest = -1, math.inf
        left = floors[section - 1] if section > part.start else above
        while section < end:
            floor, start = floors[section], section
            section += 1
            while section < part.end and floors[section] == floor:
                section += 1
            if left > floor < (floors[section] if section < part.end else above):
                next_key = (2 * floor + 1) << sky.flag_at
                for inside in range(start, section):
                    possible = bisect_left(sky.sorted[inside], next_key) * (1 + share * slacks[inside])
                    possible *= 1 + away * abs(inside - last)
                    if possible < fewest:
                        narrowest, fewest = inside, possible
            left = floor
        return narrowest

    def _separates(self, placed: list[int]) -> bool:
        """Whether nothing unplaced is left in a section of a placed buffer's life, or across a border in it."""
        unplaced = self.sky.unplaced
        for buffer in placed:
            start, end = self.sections.spans[buffer]
            left = [unplaced & bits for bits in self.sections.member_bits[start:end]]
            if not all(left) or not all(one & other for one, other in pairwise(left)):
                return True
        return False

# SPDX-License-Identifier: Apache-2.0
"""The packing planner: never worse than TFLM's greedy rule, the same plan for the same problem.

First TFLM's rule, then first fit in other orders; where that does not reach the lower bound, beam searches for a
packing within a given size, narrow ones with many settings first. No clock decides: the search ends when its
budget of work is spent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tflm_zephyr.plan.greedy import first_fit, greedy
from tflm_zephyr.plan.problem import Plan, Problem, lower_bound

_Key = Callable[[int], tuple[int, ...]]

WORK = 1_500_000_000
"""Looks of the beam searches at a buffer in a section: tens of seconds on one core."""
_WIDTHS = (20, 60, 150, 400)
_EASES = (0.05, 0.005, 1.0)
_PROGRESSES = (0.1, 0.5, 0.02)
_BISECTIONS = 6
_MANY_BUFFERS = 3000  # beyond these only two of the orders are tried, and no beams, whose tables grow with n * n
_MOST_CELLS = 1 << 25  # looks at a buffer in a section by all states of a level: bounds the beams' memory
_LARGEST = 1 << 29


def pack(problem: Problem, *, capacity: int | None = None, work: int = WORK) -> Plan:
    """The smallest plan found; optimal, and proven so, when its size is `lower_bound(problem)`.

    The search ends at the lower bound, at `capacity` bytes when that is given, or when `work` is spent.
    """
    goal = max(lower_bound(problem), capacity or 0)
    best = greedy(problem)
    orders = _orders(problem)
    for order in orders if len(problem.buffers) <= _MANY_BUFFERS else orders[:2]:
        if best.size_bytes <= goal:
            return best
        plan = first_fit(problem, order, "packed")
        if plan.size_bytes < best.size_bytes:
            best = plan
    if best.size_bytes <= goal or any(buffer.offset is not None for buffer in problem.buffers):
        return best
    return _Search(problem, best, goal, work).run()


def _orders(problem: Problem) -> list[list[int]]:
    sizes, buffers = problem.sizes, problem.buffers
    free = [i for i, buffer in enumerate(buffers) if buffer.offset is None]
    life = [buffer.upper - buffer.lower for buffer in buffers]
    keys: tuple[_Key, ...] = (
        lambda i: (-sizes[i] * life[i],),
        lambda i: (-life[i], -sizes[i]),
        lambda i: (-sizes[i], -life[i]),
        lambda i: (buffers[i].lower, -life[i]),
        lambda i: (-buffers[i].upper, -life[i]),
    )
    return [sorted(free, key=key) for key in keys]


@dataclass
class _Search:
    """Beam searches for ever smaller plans, between a size that is proven impossible and the best one."""

    problem: Problem
    best: Plan
    goal: int
    work: int

    def __post_init__(self) -> None:
        """Count in the largest unit that all sizes share, without the buffers that have none."""
        # Buffers of no bytes are out of the way anywhere; TFLM puts them at 0.
        self.indices = [i for i, size in enumerate(self.problem.sizes) if size > 0]
        sizes = [self.problem.sizes[i] for i in self.indices]
        self.unit = math.gcd(*sizes)
        self.sizes = [size // self.unit for size in sizes]
        self.impossible = (self.goal + self.unit - 1) // self.unit - 1
        self.budget = self.work

    def run(self) -> Plan:
        if sum(self.sizes) >= _LARGEST or len(self.sizes) > _MANY_BUFFERS:
            return self.best
        from tflm_zephyr.plan.beam import Sections

        buffers = [self.problem.buffers[i] for i in self.indices]
        self.sections = Sections([b.lower for b in buffers], [b.upper for b in buffers], self.sizes)
        for width in _WIDTHS:
            if width * self.sections.cells > _MOST_CELLS:
                break
            for setting in self._settings():
                if self._finished():
                    return self.best
                self._attempt(self.impossible + 1, setting, width)
            if not self._finished():
                self._bisect(width)
        return self.best

    def _finished(self) -> bool:
        return self.budget <= 0 or self._units(self.best.size_bytes) <= self.impossible + 1

    def _units(self, size_bytes: int) -> int:
        return -(-size_bytes // self.unit)

    def _bisect(self, width: int) -> None:
        """Smaller plans than the best, where the smallest conceivable one was not found."""
        below = self.impossible + 1
        for _ in range(_BISECTIONS):
            above = self._units(self.best.size_bytes) - 1
            if above <= below:
                return
            middle = (below + above + 1) // 2
            if not any(self._attempt(middle, setting, width) for setting in list(self._settings())[:3]):
                below = middle

    def _settings(self) -> Iterator[tuple[float, float]]:
        for ease in _EASES:
            for progress in _PROGRESSES:
                yield ease, progress

    def _attempt(self, capacity: int, setting: tuple[float, float], width: int) -> bool:
        from tflm_zephyr.plan.beam import Setting, beam

        result = beam(self.sections, capacity, Setting(*setting), width, self.budget)
        self.budget -= result.work
        if result.proven:
            self.impossible = max(self.impossible, capacity)
        if result.offsets is None:
            return False
        offsets = [0] * len(self.problem.buffers)
        for i, offset in zip(self.indices, result.offsets, strict=True):
            offsets[i] = offset * self.unit
        plan = Plan(self.problem, tuple(offsets), "packed")
        if plan.size_bytes < self.best.size_bytes:
            self.best = plan
        return True

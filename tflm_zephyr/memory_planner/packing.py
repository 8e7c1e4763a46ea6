# SPDX-License-Identifier: Apache-2.0
"""The packing planner: never worse than TFLM's greedy rule, the same plan for the same problem.

It tries TFLM's rule, then first fit in other orders; where these do not reach the lower bound, a chain is packed
exactly (chain_packing), and other problems are searched for a packing within a given size, with short searches first.
The budget is counted in work, not in time.

Where outputs may overlap inputs this is done twice: first with every in-place pair merged into one buffer, which leaves
the fewest decisions, then with separate buffers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice, permutations

from tflm_zephyr.memory_planner.chain_packing import chain_plan
from tflm_zephyr.memory_planner.greedy_planner import first_fit, greedy
from tflm_zephyr.memory_planner.in_place_packing import merged_in_place, overlapping_first_fit
from tflm_zephyr.memory_planner.problem import InPlacePair, Plan, Problem, lower_bound
from tflm_zephyr.memory_planner.reduction import fit_reduced, pieces

_Key = Callable[[int], tuple[int, ...]]

WORK = 120_000_000
"""Looks of the searches at a buffer in a section: tens of seconds on one core."""
_SHORTEST, _SHORTEST_EACH = 300_000, 400  # looks of the first searches above the goal: at least, and a buffer
_MORE = 4  # times as many in each further round
_AT_GOAL = 2  # times as many for the search within the goal itself, after the first round
_BISECTIONS = 10
_MANY_BUFFERS = 500  # beyond these only one of the orders is tried, and the search before it
_FEW_BUFFERS = 6  # all orders of so few are tried where the search does not know what in-place pairs allow
_MOST_PAIRS = 2_000_000  # of buffers alive together: no search beyond these


def pack(problem: Problem, *, capacity: int | None = None, work: int = WORK, known: Plan | None = None) -> Plan:
    """The smallest plan found; its `proven_bytes` is a proven lower bound of any plan's size.

    The search ends at that bound, or when `work` is spent; with `capacity` also when a plan fits it, or when it is
    proven to be too small. `known` is the result of `greedy` for the problem, if it has been computed already.
    """
    bound = lower_bound(problem)
    best = replace(known or greedy(problem), problem=problem, proven_bytes=bound)
    goal = max(bound, capacity or 0)
    chain = chain_plan(best) if best.size_bytes > goal else None
    if chain is not None:
        reached = _ordered(
            replace(best, proven_bytes=chain.proven_bytes), _orders(problem), max(goal, chain.size_bytes)
        )
        return reached if reached.size_bytes <= max(goal, chain.size_bytes) else chain
    merged = merged_in_place(problem)
    if merged is not None and best.size_bytes > goal:
        found = _packed(replace(greedy(merged.problem), proven_bytes=bound), goal, work // 2)
        if found.size_bytes < best.size_bytes:
            best = replace(best, offsets=merged.apart(found.offsets), method=found.method)
    rest = work // (4 if merged is not None else 2 if problem.pairs else 1)  # with pairs there is a proof to come
    best = _packed(best, goal, rest, capacity)
    relaxed = _relaxed(problem)
    if best.size_bytes > max(goal, best.proven_bytes) and relaxed != problem and len(problem.buffers) <= _MANY_BUFFERS:
        proven = _Search(replace(best, problem=relaxed), goal, rest).run().proven_bytes
        best = replace(best, proven_bytes=max(best.proven_bytes, proven))
    free = [i for i, buffer in enumerate(problem.buffers) if buffer.offset is None]
    if problem.pairs and len(free) <= _FEW_BUFFERS:
        best = _ordered(best, map(list, permutations(free)), max(goal, best.proven_bytes))
    return best


def _relaxed(problem: Problem) -> Problem:
    """With all that may be in place at any distance from 0 on, which the search knows: every plan is one of it, too."""
    pairs = (replace(pair, distance=min(0, pair.distance or 0)) if pair.in_place else pair for pair in problem.pairs)
    return replace(problem, pairs=tuple(pairs))


def _packed(best: Plan, goal: int, work: int, capacity: int | None = None) -> Plan:
    problem = best.problem
    orders = _orders(problem)
    if len(problem.buffers) <= _MANY_BUFFERS:
        best = _ordered(best, orders, goal)
    searched = False
    if best.size_bytes > goal and not any(buffer.offset is not None for buffer in problem.buffers):
        search = _Search(best, goal, work, capacity)
        best, searched = search.run(), search.pieces is not None
    return _ordered(best, islice(orders, 1) if searched else orders, goal)


def _ordered(best: Plan, orders: Iterator[list[int]], goal: int) -> Plan:
    """First fit in these orders, as long as none reaches the goal."""
    problem, meets = best.problem, None
    if problem.pairs and best.size_bytes > goal:
        buffers = problem.buffers
        met = pieces([b.lower for b in buffers], [b.upper for b in buffers], problem.sizes, _MOST_PAIRS)
        meets = None if met is None else met.meets
    while best.size_bytes > goal and (order := next(orders, None)) is not None:
        if meets is None:
            plan = first_fit(problem, order, "packed")
        else:
            plan = overlapping_first_fit(problem, meets, order, "packed")
        if plan.size_bytes < best.size_bytes:
            best = replace(plan, proven_bytes=best.proven_bytes)
    return best


def _orders(problem: Problem) -> Iterator[list[int]]:
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
    return (sorted(free, key=key) for key in keys)


def _is_searched(problem: Problem, pair: InPlacePair) -> bool:
    """Whether the search covers the pair: it has neither equal offsets below the lead, nor an output that starts
    above its input."""
    lead = problem.leads.get((pair.input, pair.output))
    above = pair.distance is not None and pair.distance <= -problem.alignment
    return not above and (lead == 0 or not pair.in_place)


class _Search:
    """Searches for ever smaller plans, between a size that is proven impossible and the best one.

    Sizes are counted in the largest unit that all of them share.
    """

    def __init__(self, best: Plan, goal: int, work: int, capacity: int | None = None) -> None:
        problem, self.capacity = best.problem, capacity
        # Buffers of no bytes are out of the way anywhere; TFLM puts them at 0.
        self.indices = [i for i, size in enumerate(problem.sizes) if size > 0]
        buffers = [problem.buffers[i] for i in self.indices]
        sizes = [problem.sizes[i] for i in self.indices]
        self.unit = math.gcd(*sizes, *problem.leads.values())
        place = {i: k for k, i in enumerate(self.indices)}
        leads = [(place[i], place[o], lead // self.unit) for (i, o), lead in problem.leads.items()]
        self.pieces = pieces(
            [b.lower for b in buffers],
            [b.upper for b in buffers],
            [size // self.unit for size in sizes],
            _MOST_PAIRS,
            leads,
        )
        self.best, self.budget = best, work
        self.proves = all(_is_searched(problem, pair) for pair in problem.pairs)
        self.goal = self._units(goal)

    def run(self) -> Plan:
        at_goal = work = max(_SHORTEST, _SHORTEST_EACH * len(self.indices))
        while self.pieces is not None and not self._finished():
            self._attempt(self.goal, at_goal)
            self._bisect(work)
            work *= _MORE
            at_goal = _AT_GOAL * work
        return self.best

    def _finished(self) -> bool:
        impossible = self.capacity is not None and self.best.proven_bytes > self.capacity
        return impossible or self.budget <= 0 or self._units(self.best.size_bytes) <= self.goal

    def _units(self, size_bytes: int) -> int:
        return -(-size_bytes // self.unit)

    def _bisect(self, work: int) -> None:
        """Plans between the best one and the goal, where that was not reached."""
        below = self.goal
        for _ in range(_BISECTIONS):
            above = self._units(self.best.size_bytes) - 1
            if self._finished() or above <= below:
                return
            middle = (below + 3 * above + 3) // 4  # nearer to what exists: finding takes less than failing
            if not self._attempt(middle, work):
                below = middle

    def _attempt(self, capacity: int, work: int) -> bool:
        assert self.pieces is not None
        result = fit_reduced(self.pieces, capacity, min(work, self.budget))
        self.budget -= result.work
        if result.proven:
            self.goal = max(self.goal, capacity + 1)
        if result.proven and self.proves:
            self.best = replace(self.best, proven_bytes=max(self.best.proven_bytes, (capacity + 1) * self.unit))
        if result.offsets is None:
            return False
        offsets = [0] * len(self.best.offsets)
        for i, offset in zip(self.indices, result.offsets, strict=True):
            offsets[i] = offset * self.unit
        plan = replace(self.best, offsets=tuple(offsets), method="packed")
        if plan.size_bytes < self.best.size_bytes:
            self.best = plan
        return True

# SPDX-License-Identifier: Apache-2.0
"""Exact packing of chains: problems in which at most one buffer lives on from any step to the next.

Networks without branches are such problems: a layer reads the tensor of the layer before it, writes the next one, and
has scratch buffers of its own. Two such tensors and the scratch of a layer have few orders in memory (the output above
or below the input, or over it as an in-place pair allows), and in each order the offsets are bound by differences
alone. So the offsets that a tensor can have within a capacity are a few intervals, which follow from those of the
tensor before it; a capacity is enough when the last tensor has any. The smallest capacity is found by bisection, and
is proven: no plan is smaller.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from tflm_zephyr.memory_planner.problem import Plan, Problem, align_up, lower_bound

_MOST_LOCAL = 3
"""Buffers of a single step beside those that live on; each can lie in three places."""
_UNBOUND = 1 << 62

Interval = tuple[int, int]
"""Offsets from the first to the last, both included, in multiples of the alignment."""


@dataclass(frozen=True)
class _Link:
    """A step: the buffers that live on into it and out of it (None for none; the same one may do both), its own ones.

    `differences` are the ranges of output offset - input offset that in-place pairs allow.
    """

    entering: int | None
    leaving: int | None
    local: tuple[int, ...]
    differences: tuple[Interval, ...] = ()


@dataclass(frozen=True)
class _Order:
    """An order of a step's buffers in memory: where its own ones lie, and the range of output - input offset.

    `below`, `between` and `above` are the step's own buffers under both tensors, between them and over them. `lowest`
    is the first offset of both tensors, `room` the bytes that have to stay free above both.
    """

    below: tuple[int, ...]
    between: tuple[int, ...]
    above: tuple[int, ...]
    lowest: int
    room: int
    difference: Interval = (-_UNBOUND, _UNBOUND)


def chain_plan(best: Plan) -> Plan | None:
    """A smallest plan of the chain that `best` is a plan of, proven; `best` itself where none is smaller.

    None where the problem is no chain; one with fixed offsets counts as none.
    """
    problem = best.problem
    chain = _links(problem)
    if chain is None:
        return None
    unit, sizes = problem.alignment, problem.sizes
    orders = [tuple(_orders(link, sizes)) for link in chain]
    bounds = [_bounds(link, each, sizes) for link, each in zip(chain, orders, strict=True)]
    low, high, smallest = align_up(lower_bound(problem), unit), best.size_bytes - unit, None
    middle = low  # many chains need no more than what is alive at once
    while low <= high:
        states = _states(bounds, middle)
        if states is None:
            low = middle + unit
        else:
            smallest, high = (states, middle), middle - unit
        middle = (low + high) // 2 // unit * unit
    if smallest is None:
        return replace(best, proven_bytes=max(best.proven_bytes, best.size_bytes))
    return Plan(problem, tuple(_offsets(chain, orders, sizes, *smallest)), "packed", proven_bytes=low)


def _links(problem: Problem) -> list[_Link] | None:
    """The steps of a chain in their order; None for other problems."""
    kept = [i for i, size in enumerate(problem.sizes) if size]
    buffers = problem.buffers
    if any(buffers[i].offset is not None for i in kept):
        return None
    steps = sorted({buffers[i].lower for i in kept} | {buffers[i].upper - 1 for i in kept})
    pairs: dict[int, list[tuple[int, int, Interval]]] = {}
    for pair in problem.pairs:
        if not problem.sizes[pair.input] or not problem.sizes[pair.output]:
            continue
        meet = max(buffers[pair.input].lower, buffers[pair.output].lower)
        ranges = [] if pair.distance is None else [(-_UNBOUND, -align_up(pair.distance, problem.alignment))]
        ranges += [(0, 0)] if pair.in_place else []
        pairs.setdefault(meet, []).extend((pair.input, pair.output, each) for each in ranges)
    born: dict[int, list[int]] = {}
    for i in kept:
        born.setdefault(buffers[i].lower, []).append(i)
    chain: list[_Link] = []
    entering: int | None = None
    for step in steps:
        alive = [*(() if entering is None else (entering,)), *born.get(step, ())]
        leaving = [i for i in alive if buffers[i].upper > step + 1]
        if len(leaving) > 1:
            return None
        out = leaving[0] if leaving else None
        local = tuple(i for i in alive if i not in (entering, out))
        differences = _differences(pairs.get(step, ()), entering, out)
        if differences is None or len(local) > _MOST_LOCAL:
            return None
        chain.append(_Link(entering, out, local, differences))
        entering = out
    return chain


def _differences(
    pairs: Sequence[tuple[int, int, Interval]], entering: int | None, leaving: int | None
) -> tuple[Interval, ...] | None:
    """The ranges that the pairs of a step allow; None where a pair is of one of the step's own buffers."""
    ranges = []
    for source, result, (low, high) in pairs:
        if (source, result) == (entering, leaving):
            ranges.append((low, high))
        elif (source, result) == (leaving, entering):
            ranges.append((-high, -low))
        else:
            return None
    return tuple(ranges)


def _orders(link: _Link, sizes: Sequence[int]) -> Iterator[_Order]:
    """The orders of a step, those without shared bytes first."""
    two = link.entering is not None and link.leaving is not None and link.entering != link.leaving
    places = [
        tuple(tuple(i for i, at in zip(link.local, where, strict=True) if at == place) for place in range(3))
        for where in product(range(3), repeat=len(link.local))
    ]

    def order(place: tuple[tuple[int, ...], ...], difference: Interval) -> _Order:
        below, between, above = place
        return _Order(
            below, between, above, sum(sizes[i] for i in below), sum(sizes[i] for i in above), difference
        )  # fmt: skip

    if not two:
        yield from (order(place, (-_UNBOUND, _UNBOUND)) for place in places if not place[1])
        return
    assert link.entering is not None and link.leaving is not None
    for place in places:
        gap = sum(sizes[i] for i in place[1])
        yield order(place, (sizes[link.entering] + gap, _UNBOUND))
        yield order(place, (-_UNBOUND, -sizes[link.leaving] - gap))
    for difference in link.differences:
        yield from (order(place, difference) for place in places if not place[1])


def _ends(order: _Order, buffer: int | None, sizes: Sequence[int], capacity: int) -> Interval:
    """The offsets of a tensor in an order; (0, 0) for none, where the step's own buffers fit."""
    size = 0 if buffer is None else sizes[buffer]
    low, high = order.lowest, capacity - order.room - size
    return (low, high) if buffer is not None else (0, 0 if low <= high else -1)


_Bounds = tuple[int, int, int, int, int]
"""An order's first offset, the bytes that the entering and the leaving tensor need from theirs on, and the range of
leaving - entering offset; a tensor that there is not has offset 0 and needs all, of which 0 bytes are left."""


def _bounds(link: _Link, orders: Sequence[_Order], sizes: Sequence[int]) -> tuple[tuple[bool, bool], list[_Bounds]]:
    """Whether a tensor enters and whether one leaves, and the different bounds that the orders put on their offsets."""
    one, other = (0 if i is None else sizes[i] for i in (link.entering, link.leaving))
    enters, leaves = link.entering is not None, link.leaving is not None
    found: dict[_Bounds, None] = {}
    for order in orders:
        difference = order.difference if enters and leaves else (-_UNBOUND, _UNBOUND)
        if enters and link.leaving == link.entering:
            difference = 0, 0
        bounds = order.lowest, order.room + one, order.room + other, *difference
        found[bounds] = None
    return (enters, leaves), list(found)


def _states(
    bounds: Sequence[tuple[tuple[bool, bool], Sequence[_Bounds]]], capacity: int
) -> list[list[Interval]] | None:
    """For each step the offsets that the tensor which lives on into it can have; None where there is no packing."""
    states: list[list[Interval]] = []
    state: list[Interval] = [(0, 0)]
    for (enters, leaves), each in bounds:
        states.append(state)
        images = []
        for lowest, before, after, least, greatest in each:
            first, last = (lowest, capacity - before) if enters else (0, 0 if lowest <= capacity - before else -1)
            low, high = (lowest, capacity - after) if leaves else (0, 0 if lowest <= capacity - after else -1)
            if first > last or low > high:
                continue
            for one, other in state:
                start, end = (one if one > first else first), (other if other < last else last)
                if start > end:
                    continue
                start, end = start + least, end + greatest
                start, end = (start if start > low else low), (end if end < high else high)
                if start <= end:
                    images.append((start, end))
        state = _union(images)
        if not state:
            return None
    return states


def _union(intervals: Sequence[Interval]) -> list[Interval]:
    """The intervals without overlaps, sorted."""
    union: list[Interval] = []
    for start, end in sorted(intervals):
        if union and start <= union[-1][1] + 1:
            union[-1] = (union[-1][0], max(end, union[-1][1]))
        else:
            union.append((start, end))
    return union


def _offsets(
    chain: Sequence[_Link],
    orders: Sequence[Sequence[_Order]],
    sizes: Sequence[int],
    states: Sequence[Sequence[Interval]],
    capacity: int,
) -> list[int]:
    """The offsets of a packing, from the last step back to the first one."""
    offsets = [0] * len(sizes)
    after = 0  # the offset of the tensor that lives on out of the step
    for link, each, state in reversed(list(zip(chain, orders, states, strict=True))):
        order, before = _fitting(link, each, sizes, state, (after, capacity))
        _place_local(link, order, sizes, offsets, (before, after))
        if link.leaving is not None:
            offsets[link.leaving] = after
        if link.entering is not None:
            offsets[link.entering] = before
        after = before
    return offsets


def _fitting(
    link: _Link, orders: Sequence[_Order], sizes: Sequence[int], state: Sequence[Interval], end: tuple[int, int]
) -> tuple[_Order, int]:
    """The first order in which the step's output can lie at end[0], and its input's offset: the furthest from it."""
    after, capacity = end
    for order in orders:
        low, high = _ends(order, link.leaving, sizes, capacity)
        first, last = _ends(order, link.entering, sizes, capacity)
        if (link.leaving is not None and not low <= after <= high) or first > last or low > high:
            continue
        if link.entering is not None and link.leaving is not None:
            least, greatest = (0, 0) if link.entering == link.leaving else order.difference
            first, last = max(first, after - greatest), min(last, after - least)
        possible = [(max(one, first), min(other, last)) for one, other in state]
        ends = [offset for one, other in possible if one <= other for offset in (one, other)]
        if ends:
            return order, min(ends) if link.leaving is None else max(ends, key=lambda at: (abs(at - after), -at))
    raise AssertionError("the states hold the offsets that a step can have")


def _place_local(link: _Link, order: _Order, sizes: Sequence[int], offsets: list[int], ends: tuple[int, int]) -> None:
    """Offsets for the step's own buffers, beside its tensors at `ends`."""
    tensors = [(at, at + sizes[i]) for i, at in zip((link.entering, link.leaving), ends, strict=True) if i is not None]
    tops = sorted(end for _, end in tensors) or [0]
    for group, at in ((order.below, 0), (order.between, tops[0]), (order.above, tops[-1])):
        for buffer in group:
            offsets[buffer] = at
            at += sizes[buffer]

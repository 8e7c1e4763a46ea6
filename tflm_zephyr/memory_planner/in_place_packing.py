# SPDX-License-Identifier: Apache-2.0
"""Packing with in-place pairs: pairs merged into one buffer, and first fit with outputs that may overlap inputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tflm_zephyr.memory_planner.problem import InPlacePair, Plan, Problem


@dataclass(frozen=True)
class Merged:
    """A problem in which some buffers stand for several of another one; `groups` has that one's by buffer."""

    problem: Problem
    groups: Sequence[Sequence[int]]

    def apart(self, offsets: Sequence[int]) -> tuple[int, ...]:
        """The offsets of this problem as those of the other one."""
        found = [0] * sum(len(group) for group in self.groups)
        for group, offset in zip(self.groups, offsets, strict=True):
            for buffer in group:
                found[buffer] = offset
        return tuple(found)


def merged_in_place(problem: Problem) -> Merged | None:
    """Inputs and outputs of one size that may be in place as one buffer, for all its steps; None where there are none.

    An output that could be in the place of several inputs takes the first, and so does an input of several outputs.
    """
    sizes, buffers = problem.sizes, problem.buffers
    following: dict[int, int] = {}
    joined: set[int] = set()
    for pair in sorted(problem.pairs, key=lambda pair: (pair.output, pair.input)):
        one, other = pair.input, pair.output
        free = one not in following and other not in joined and buffers[one].offset is buffers[other].offset is None
        if free and sizes[one] == sizes[other] and (pair.in_place or problem.leads.get((one, other)) == 0):
            following[one] = other
            joined.add(other)
    if not following:
        return None
    groups: list[list[int]] = []
    for first in range(len(buffers)):
        if first not in joined:
            groups.append([first])
            while groups[-1][-1] in following:
                groups[-1].append(following[groups[-1][-1]])
    place = {buffer: k for k, group in enumerate(groups) for buffer in group}
    pairs = tuple(
        replace(pair, input=place[pair.input], output=place[pair.output])
        for pair in problem.pairs
        if groups[place[pair.input]][-1] == pair.input and groups[place[pair.output]][0] == pair.output
    )
    whole = (replace(buffers[group[0]], upper=buffers[group[-1]].upper) for group in groups)
    return Merged(replace(problem, buffers=tuple(whole), pairs=pairs), groups)


def overlapping_first_fit(problem: Problem, meets: Sequence[Sequence[int]], order: Iterable[int], method: str) -> Plan:
    """Fixed buffers where they are, then those of `order` (indices), each at its lowest offset that is allowed.

    meets: the buffers that each buffer is alive together with.
    """
    sizes, buffers = problem.sizes, problem.buffers
    offsets: dict[int, int] = {i: b.offset for i, b in enumerate(buffers) if b.offset is not None}
    as_input: dict[tuple[int, int], InPlacePair] = {(o.input, o.output): o for o in problem.pairs}
    for i in order:
        taken: list[tuple[int, int]] = []  # starts that are not allowed, both ends excluded
        shared: list[tuple[int, int, int]] = []  # as well, but for the one place in the middle
        for other in meets[i]:
            if other in offsets and sizes[i] and sizes[other]:
                offset = offsets[other]
                span = _excluded(problem, i, other, offset)
                pair = as_input.get((i, other)) or as_input.get((other, i))
                if pair is not None and pair.in_place and span[0] < offset < span[1]:
                    shared.append((span[0], offset, span[1]))
                else:
                    taken.append(span)
        offsets[i] = _lowest(taken, shared)
    return Plan(problem, tuple(offsets[i] for i in range(len(buffers))), method)


def _excluded(problem: Problem, buffer: int, other: int, offset: int) -> tuple[int, int]:
    """Where `buffer` cannot start because of `other` at `offset`, ends excluded."""
    sizes, leads = problem.sizes, problem.leads
    below = leads.get((other, buffer), sizes[buffer])  # the buffer is an output, and the other its input
    above = leads.get((buffer, other), sizes[other])
    return offset - below, offset + above


def _lowest(taken: list[tuple[int, int]], shared: list[tuple[int, int, int]]) -> int:
    """The lowest start from 0 up that lies in none of the open spans, but may be the middle of shared ones."""
    starts = {0, *(end for _, end in taken), *(end for _, _, end in shared), *(middle for _, middle, _ in shared)}
    for start in sorted(starts):
        free = start >= 0 and not any(low < start < high for low, high in taken)
        if free and all(start == middle or not low < start < high for low, middle, high in shared):
            return start
    raise AssertionError("the highest end is always free")

# SPDX-License-Identifier: Apache-2.0
"""Time cut into sections: a packing problem as the search for a packing within a capacity reads it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

Leads = Sequence[tuple[int, int, int]]
"""(input, output, lead): the input may lie over the output from `lead` above its start on; less than its size."""


class Sections:
    """Buffers by the sections they are alive in: the maximal sets of buffers alive together, in time's order.

    Every buffer is alive in consecutive sections, and two meet if and only if they share a section; those of a lead
    share one alone. Sizes are above 0, in any unit.
    """

    def __init__(self, lower: Sequence[int], upper: Sequence[int], sizes: Sequence[int], leads: Leads = ()) -> None:
        starts = _section_starts(lower, upper)
        self.sizes = list(sizes)
        self.spans = _spans(lower, upper, starts)
        self.members: list[list[int]] = [[] for _ in starts]
        for buffer, (start, end) in enumerate(self.spans):
            for section in range(start, end):
                self.members[section].append(buffer)
        # Sets as bits of an integer: the sections of a buffer, and the buffers of a section.
        self.span_bits = [(1 << end) - (1 << start) for start, end in self.spans]
        self.member_bits = [sum(1 << buffer for buffer in group) for group in self.members]
        self.meets = [
            sorted({other for group in self.members[start:end] for other in group} - {buffer})
            for buffer, (start, end) in enumerate(self.spans)
        ]
        self.orders = self._orders(lower, upper)
        # In-place pairs: leads by output and input, outputs that may start where an input does, the least that a
        # buffer raises another one by, and the pairs of each section with the most that they can share.
        self.leads: list[dict[int, int]] = [{} for _ in sizes]
        self.outputs_at: list[list[int]] = [[] for _ in sizes]
        self.least_rise = list(sizes)
        self.pairs: list[list[tuple[int, int, int]]] = [[] for _ in starts]
        for source, result, lead in leads:
            self.leads[result][source] = lead
            if lead == 0:
                self.outputs_at[source].append(result)
            self.least_rise[result] = min(self.least_rise[result], lead)
            shared = min(sizes[source], sizes[result] - lead)
            meet = max(self.spans[source][0], self.spans[result][0])
            self.pairs[meet].append((source, result, shared))

    def _orders(self, lower: Sequence[int], upper: Sequence[int]) -> list[list[float]]:
        """Ways to prefer one buffer over another, as a rank for each of them: the highest is placed first."""
        live = [sum(self.sizes[buffer] for buffer in group) for group in self.members]
        life = [high - low for low, high in zip(lower, upper, strict=True)]
        area = [steps * size for steps, size in zip(life, self.sizes, strict=True)]
        crowd = [max(live[start:end]) for start, end in self.spans]
        return [
            _ranks(zip(life, area, crowd, strict=True)),
            _ranks(zip(crowd, area, life, strict=True)),
            _ranks(zip(crowd, life, area, strict=True)),
            _ranks(zip(self.sizes, life, area, strict=True)),
        ]


def _section_starts(lower: Sequence[int], upper: Sequence[int]) -> list[int]:
    """A step of each maximal set of buffers alive together: the last start before an end."""
    events = sorted([(step, 1) for step in lower] + [(step, 0) for step in upper])
    return [step for (step, is_start), (_, next_is_start) in pairwise(events) if is_start and not next_is_start]


def _spans(lower: Sequence[int], upper: Sequence[int], starts: list[int]) -> list[tuple[int, int]]:
    return [(bisect_left(starts, low), bisect_left(starts, high)) for low, high in zip(lower, upper, strict=True)]


def _ranks(values: Iterable[Any]) -> list[float]:
    """Each one's place when sorted; of equal ones the first ranks highest."""
    listed = list(values)
    ranks = [0.0] * len(listed)
    for rank, buffer in enumerate(sorted(range(len(listed)), key=lambda i: (listed[i], -i))):
        ranks[buffer] = rank
    return ranks

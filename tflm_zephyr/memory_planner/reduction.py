# SPDX-License-Identifier: Apache-2.0
"""The hard part of a packing problem: without buffers that fit in any case, and divided into independent groups.

Each buffer of size t that is alive together with a buffer of size s excludes s - 1 + t start offsets for it. Where all
of them together leave some offsets within the capacity, the buffer can be placed after them, wherever they are. It is
set aside, which leaves fewer conflicts for the others, and so on. The remaining buffers are mostly alive at the steps
with the most bytes alive, and fall into groups that are never alive together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tflm_zephyr.memory_planner.capacity_search import SearchResult, fit
from tflm_zephyr.memory_planner.time_sections import Leads, Sections


@dataclass(frozen=True)
class Pieces:
    """Buffers with lifespans (half-open) and sizes above 0 in any unit; `meets` has those that each one meets.

    `leads`: see Sections. A buffer that is set aside makes no use of them.
    """

    lower: Sequence[int]
    upper: Sequence[int]
    sizes: Sequence[int]
    meets: Sequence[Sequence[int]]
    leads: Leads = ()


def pieces(
    lower: Sequence[int], upper: Sequence[int], sizes: Sequence[int], most: int, leads: Leads = ()
) -> Pieces | None:
    """None when more than `most` pairs of buffers meet."""
    meets: list[list[int]] = [[] for _ in sizes]
    alive: list[int] = []
    pairs = 0
    for buffer in sorted(range(len(sizes)), key=lower.__getitem__):
        alive = [other for other in alive if upper[other] > lower[buffer]]
        pairs += len(alive)
        if pairs > most:
            return None
        meets[buffer] += alive
        for other in alive:
            meets[other].append(buffer)
        alive.append(buffer)
    return Pieces(lower, upper, sizes, meets, leads)


def fit_reduced(all_pieces: Pieces, capacity: int, max_work: int) -> SearchResult:
    """As `fit`, group by group of what is hard; `max_work` is for all of them."""
    offsets = [-1] * len(all_pieces.sizes)
    hard, easy = _divided(all_pieces, capacity)
    work = 0
    leads_of: dict[int, list[tuple[int, int]]] = {}
    for source, output, lead in all_pieces.leads:
        leads_of.setdefault(output, []).append((source, lead))
    for group in _groups(all_pieces, hard):
        lower, upper, sizes = (
            [column[i] for i in group] for column in (all_pieces.lower, all_pieces.upper, all_pieces.sizes)
        )
        place = {buffer: k for k, buffer in enumerate(group)}
        leads = [(place[i], place[o], lead) for o in group for i, lead in leads_of.get(o, ()) if i in place]
        result = fit(Sections(lower, upper, sizes, leads), capacity, max_work - work)
        work += result.work
        if result.offsets is None:
            return SearchResult(None, result.proven, work)
        for buffer, offset in zip(group, result.offsets, strict=True):
            offsets[buffer] = offset
    for buffer in reversed(easy):
        offsets[buffer] = _lowest(all_pieces, offsets, buffer)
    return SearchResult(tuple(offsets), False, work)


def _divided(all_pieces: Pieces, capacity: int) -> tuple[list[int], list[int]]:
    """The buffers that may be hard to place, and the others, each to be placed before those in front of it."""
    sizes, meets = all_pieces.sizes, all_pieces.meets
    # The offsets left to each, if none that it meets took away the same.
    left = [
        capacity - size + 1 - sum(sizes[other] + size - 1 for other in met)
        for size, met in zip(sizes, meets, strict=True)
    ]
    easy = [buffer for buffer, offsets in enumerate(left) if offsets > 0]
    aside = set(easy)
    for buffer in easy:
        for other in meets[buffer]:
            left[other] += sizes[buffer] + sizes[other] - 1
            if left[other] > 0 and other not in aside:
                aside.add(other)
                easy.append(other)
    return [buffer for buffer in range(len(sizes)) if buffer not in aside], easy


def _groups(all_pieces: Pieces, buffers: list[int]) -> list[list[int]]:
    """Groups of `buffers` that lifespans join, small groups first."""
    groups: list[list[int]] = []
    end = 0
    for buffer in sorted(buffers, key=lambda i: (all_pieces.lower[i], i)):
        if not groups or all_pieces.lower[buffer] >= end:
            groups.append([])
            end = all_pieces.upper[buffer]
        groups[-1].append(buffer)
        end = max(end, all_pieces.upper[buffer])
    return sorted((sorted(group) for group in groups), key=len)


def _lowest(all_pieces: Pieces, offsets: list[int], buffer: int) -> int:
    taken = sorted((offsets[i], all_pieces.sizes[i]) for i in all_pieces.meets[buffer] if offsets[i] >= 0)
    lowest = 0
    for offset, size in taken:
        if offset - lowest >= all_pieces.sizes[buffer]:
            break
        lowest = max(lowest, offset + size)
    return lowest

# SPDX-License-Identifier: Apache-2.0
"""Candidate offsets for a head: from packings of all buffers, and from packings that leave room for scratch buffers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tflm_zephyr.arena.requests import Requests
from tflm_zephyr.memory_planner import Buffer, Plan, Problem, align_up, greedy, pack
from tflm_zephyr.tflm import ALIGNMENT

SEARCH_WORK = 4_000_000
"""Work of `pack` for each packing of a model: about a second where the lower bound is not reached."""
_LARGE_BUFFERS = 300
_WORK_PER_BUFFER = 1200  # above _LARGE_BUFFERS, so that planning takes no longer than n log n
_LATER = 4  # packings after the first ones get this part of the work


def packed(problem: Problem, known: Plan | None = None, share: int = 1) -> Plan:
    """The packing found with 1/`share` of the work that a packing gets. `known`: see pack."""
    count = len(problem.buffers)
    work = SEARCH_WORK if count <= _LARGE_BUFFERS else min(SEARCH_WORK, _WORK_PER_BUFFER * count)
    return pack(problem, work=work // share, known=known)


def candidate_offsets(requests: Requests, packings: Sequence[Plan], offline: str) -> Iterator[list[int | None]]:
    """Offsets to try: none; those of `packings`; those with scratch in one block; those with scratch lowest.

    In-place pairs are used in the later `packings`, so that they are taken only where they save something. When some
    scratch buffers are not known, offsets could do harm and are given only where a constraint needs them.
    """
    if offline != "always":
        yield [None] * len(requests.sizes)
    needed = offline == "always" or not requests.tflm_meets_all
    if offline == "never" or (requests.unknown and not needed):
        return
    for plan in packings:
        yield _without_online(requests, plan.offsets)
    for plan in packings:
        yield _without_online(requests, _pack_scratch_in_blocks(requests, plan.problem))
    for plan in packings:
        yield _without_online(requests, _pack_above_scratch(requests, plan.problem))
    if offline == "always":
        yield _without_online(requests, requests.placed_by_tflm([None] * len(requests.sizes)))


def _without_online(requests: Requests, offsets: Sequence[int]) -> list[int | None]:
    """`offsets`, with None for the buffers that TFLM must place itself."""
    return [None if online else at for online, at in zip(requests.online, offsets, strict=True)]


def _pack_scratch_in_blocks(requests: Requests, problem: Problem) -> list[int]:
    """Offsets from a packing in which the buffers that TFLM places and that live equally long form one block.

    TFLM puts the pieces, largest first, into the lowest gaps; in any order, they fit in the block.
    """
    kept = [i for i, online in enumerate(requests.online) if not online]
    blocks: dict[tuple[int, int], int] = {}
    for i, online in enumerate(requests.online):
        if online:
            span = (problem.buffers[i].lower, problem.buffers[i].upper)
            blocks[span] = blocks.get(span, 0) + problem.sizes[i]
    merged = [Buffer(f"scratch {n}", *span, size) for n, (span, size) in enumerate(sorted(blocks.items()))]
    found = packed(problem.only(kept, merged), share=_LATER).offsets
    offsets = [0] * len(requests.sizes)
    for i, offset in zip(kept, found, strict=False):
        offsets[i] = offset
    return offsets


def _pack_above_scratch(requests: Requests, problem: Problem) -> list[int]:
    """Offsets above the room that TFLM needs for the buffers that it places, so that the two kinds never meet."""
    assumed = requests.problem(requests.assumed)
    online = tuple(b for b, is_online in zip(assumed.buffers, requests.online, strict=True) if is_online)
    kept = [i for i, is_online in enumerate(requests.online) if not is_online]
    room = align_up(greedy(replace(assumed, buffers=online, alignment=ALIGNMENT)).size_bytes, requests.alignment)
    found = iter(packed(problem.only(kept), share=_LATER).offsets)
    return [0 if is_online else room + next(found) for is_online in requests.online]

# SPDX-License-Identifier: Apache-2.0
"""Plans for a head to choose from: packings, and what TFLM makes of them with scratch buffers around them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tflm_zephyr.arena.requests import ALIGNMENT, Requests
from tflm_zephyr.errors import PlanError
from tflm_zephyr.memory_planner import Buffer, Plan, Problem, check_plan, greedy, pack

SEARCH_WORK = 4_000_000
"""Of `pack`, for each packing of a model: about a second where the lower bound is not reached."""
_WORK_OF_LARGE = 300, 1200
"""With more buffers than this, less: so much for each, so that planning takes no longer than n log n."""
_LATER = 4  # the share of what comes after the first packings


def packed(problem: Problem, known: Plan | None = None, share: int = 1) -> Plan:
    """The packing with a part, one in `share`, of the work that a packing gets. `known`: see pack."""
    few, each = _WORK_OF_LARGE
    count = len(problem.buffers)
    work = SEARCH_WORK if count <= few else min(SEARCH_WORK, each * count)
    return pack(problem, work=work // share, known=known)


def played(
    requests: Requests,
    problem: Problem,
    offsets: Sequence[int | None],
    stock: Plan | None = None,
    below: int | None = None,
) -> Plan | None:
    """What TFLM makes of the offsets (of none of them: `stock`), None if that does not hold what is wanted, or, where
    `below` is given, is not smaller."""
    online = requests.told == requests.wanted and requests.alignment == ALIGNMENT and set(offsets) <= {None}
    places = stock.offsets if stock is not None and online else requests.play(offsets)
    for place, row in zip(places, requests.rows, strict=True):
        if row is not None and place % requests.alignment:
            return None
    method = "greedy" if all(offset is None for offset in offsets) else "packed"
    plan = Plan(replace(problem, alignment=ALIGNMENT), places, method)
    if below is not None and plan.size_bytes >= below:
        return None
    try:
        check_plan(plan, why_unsafe=requests.why_unsafe)
    except PlanError:
        return None
    return plan


def candidates(requests: Requests, plans: Sequence[Plan], offline: str, *, known: bool) -> Iterator[list[int | None]]:
    """Offsets to try: none, those of the packed `plans`, those with scratch in one piece, those with scratch lowest.

    Overlaps are in what comes after the first of `plans`, so that they are used only where they gain something.

    Without knowing all scratch, offsets could do harm and are given only where an option asks for them.
    """
    if offline != "always":
        yield [None] * len(requests.sizes)
    needed = offline == "always" or requests.told != requests.wanted or requests.alignment != ALIGNMENT
    if offline == "never" or not (known or needed):
        return
    for plan in plans:
        yield _fixed(requests, plan.offsets)
    for plan in plans:
        yield _fixed(requests, _pack_scratch_whole(requests, plan.problem))
    for plan in plans:
        yield _fixed(requests, _pack_above_scratch(requests, plan.problem))
    if offline == "always":
        yield _fixed(requests, requests.play([None] * len(requests.sizes)))


def _fixed(requests: Requests, offsets: Sequence[int]) -> list[int | None]:
    return [None if online else at for online, at in zip(requests.online, offsets, strict=True)]


def _pack_scratch_whole(requests: Requests, problem: Problem) -> list[int]:
    """Offsets from a packing in which buffers that TFLM places and that live equally long form one block.

    TFLM puts the pieces, largest first, into the lowest gaps; whatever order that is, they fit in the block.
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
    """Offsets above the room that TFLM needs for what it places, so that it never lands on anything else."""
    told = requests.problem(requests.told)
    online = tuple(b for b, is_online in zip(told.buffers, requests.online, strict=True) if is_online)
    kept = [i for i, is_online in enumerate(requests.online) if not is_online]
    room = greedy(replace(told, buffers=online, alignment=ALIGNMENT)).size_bytes
    room += -room % requests.alignment
    found = iter(packed(problem.only(kept), share=_LATER).offsets)
    return [0 if is_online else room + next(found) for is_online in requests.online]

# SPDX-License-Identifier: Apache-2.0
"""A plan of all buffers as a constant of the app, so that no planner is in the binary, and its arena.

TFLM asks its planner for every tensor and then for every scratch buffer, with sizes rounded up to 16 (CreatePlan in
tensorflow/lite/micro/micro_allocator.cc, revision 8d404de7). An app with a static plan answers from a table. As TFLM's
planner places nothing, scratch buffers are placed as freely as tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tflm_zephyr.arena.arena_plan import ArenaPlan, LibraryArena
from tflm_zephyr.arena.arena_size import ArenaSize, arena_size
from tflm_zephyr.arena.head import HeadPlan
from tflm_zephyr.arena.tail import estimate_tail
from tflm_zephyr.errors import PlanError
from tflm_zephyr.memory_planner import Plan, check_plan, pack
from tflm_zephyr.tflm import StructSizes


@dataclass(frozen=True)
class StaticArena:
    """A plan of tensors and scratch buffers in TFLM's order of requests, and the arena of an app with it."""

    plan: Plan
    size: ArenaSize


def static_arena(planned: ArenaPlan) -> StaticArena:
    """The static plan of `planned`'s model, for all kernel libraries of its request.

    Raises PlanError when a kernel's scratch buffers are not known, and when the libraries ask for different buffers.
    """
    plan = _common_plan(planned.arenas, planned.model.where)
    sizes, given = _without_planner(planned.request.sizes), planned.request.arena_bytes
    found = []
    for arena in planned.arenas:
        tail = estimate_tail(arena.head.graph, arena.library, sizes)
        found.append(arena_size(replace(arena.head, plan=plan), tail, given=given))
    return StaticArena(plan, max(found, key=lambda size: size.bytes))


def _common_plan(arenas: Sequence[LibraryArena], where: str) -> Plan:
    head = arenas[0].head
    unknown = sorted({key for arena in arenas for key in arena.head.unknown})
    if unknown:
        what = f"a static plan needs all buffers, and those of {', '.join(unknown)} are not known"
        raise PlanError(what, where=where, hint="Use plan: packed")
    if any(arena.head.problem.sizes != head.problem.sizes for arena in arenas):
        raise PlanError(
            "a static plan is for one kernel library and one kind of core, and these boards' ask for other buffers",
            where=where,
            hint="Name one board, or --kernels reference, or use plan: packed",
        )
    plan = min((_with_free_scratch(arena.head) for arena in arenas), key=lambda plan: plan.size_bytes)
    for arena in arenas:
        check_plan(plan, why_unsafe=arena.head.in_place_check)
    return plan


def _without_planner(sizes: StructSizes) -> StructSizes:
    """`sizes` of an app whose arena holds neither a planner nor the planner's records."""
    own = tuple(item for item in sizes.own_objects if item != "GreedyMemoryPlanner")
    return replace(sizes, own_objects=own, planner_record_bytes=0)


def _with_free_scratch(head: HeadPlan) -> Plan:
    """The plan of `head`, or a smaller one where TFLM would have to place scratch buffers."""
    if head.in_place_bytes >= head.head_bytes:
        return head.plan
    plan = pack(head.problem, known=head.plan)
    return plan if plan.size_bytes < head.head_bytes else head.plan

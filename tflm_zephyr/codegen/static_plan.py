# SPDX-License-Identifier: Apache-2.0
"""A plan of all buffers as a constant of the app, so that no planner is in the binary.

TFLM asks its planner for every tensor and then for every scratch buffer, with sizes rounded up to 16 (CreatePlan in
tensorflow/lite/micro/micro_allocator.cc, revision 8d404de7). The app answers from a table of those sizes and of offsets
in that order, and refuses any other request. As TFLM's planner places nothing, scratch buffers are placed as freely as
tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tflm_zephyr.arena import HeadPlan, LibraryArena, arena_size, estimate_tail
from tflm_zephyr.codegen.backends.interpreter_spec import InterpreterSpec, StaticPlan
from tflm_zephyr.codegen.prepared_model import PreparedModel
from tflm_zephyr.codegen.spec import ArenaSpec
from tflm_zephyr.errors import AppError
from tflm_zephyr.memory_planner import Plan, check_plan, pack
from tflm_zephyr.model import planned
from tflm_zephyr.tflm import StructSizes


def with_static_plan(runtime: InterpreterSpec, item: PreparedModel) -> tuple[InterpreterSpec, ArenaSpec]:
    """`runtime` with a table instead of an offline plan, and its arena.

    Raises AppError when the kernel libraries that `item` was planned for ask for different buffers.
    """
    plan = _plan(item.arenas, item.config.label)
    sizes, given = _without_planner(item.plan.request.sizes), item.plan.request.arena_bytes
    found = []
    for one in item.arenas:
        tail = estimate_tail(one.head.graph, one.library, sizes)
        found.append(arena_size(replace(one.head, plan=plan), tail, given=given))
    arena = max(found, key=lambda size: size.bytes)
    slots = tuple(zip(plan.problem.sizes, plan.offsets, strict=True))
    table = StaticPlan(slots, plan.size_bytes)
    data = planned(item.running, None)
    return (
        replace(runtime, data=data, planned=False, static_plan=table),
        ArenaSpec(arena.bytes, arena.source, arena.note),
    )


def _plan(arenas: Sequence[LibraryArena], name: str) -> Plan:
    head = arenas[0].head
    unknown = sorted({key for arena in arenas for key in arena.head.unknown})
    if unknown:
        what = f"a static plan needs all buffers, and those of {', '.join(unknown)} are not known"
        raise AppError(what, where=name, hint="Use planner: tflm")
    if any(arena.head.problem.sizes != head.problem.sizes for arena in arenas):
        raise AppError(
            "a static plan is for one kernel library and one kind of core, and these boards' ask for other buffers",
            where=name,
            hint="Name one board, or --kernels reference, or use planner: tflm",
        )
    plan = min((_free(arena.head) for arena in arenas), key=lambda plan: plan.size_bytes)
    for arena in arenas:
        check_plan(plan, why_unsafe=arena.head.in_place_check)
    return plan


def _without_planner(sizes: StructSizes) -> StructSizes:
    """`sizes` of an app whose arena holds neither a planner nor the planner's records."""
    own = tuple(item for item in sizes.own_objects if item != "GreedyMemoryPlanner")
    return replace(sizes, own_objects=own, planner_record_bytes=0)


def _free(head: HeadPlan) -> Plan:
    """The plan of `head`, or a smaller one where TFLM would have to place scratch buffers."""
    if head.in_place_bytes >= head.head_bytes:
        return head.plan
    plan = pack(head.problem, known=head.plan)
    return plan if plan.size_bytes < head.head_bytes else head.plan

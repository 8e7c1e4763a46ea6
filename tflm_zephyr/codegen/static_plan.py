# SPDX-License-Identifier: Apache-2.0
"""An app with a table of its memory plan in place of TFLM's planner."""

from __future__ import annotations

from dataclasses import replace

from tflm_zephyr.arena import static_arena
from tflm_zephyr.codegen.backends.interpreter_spec import InterpreterSpec, StaticPlan
from tflm_zephyr.codegen.prepared_model import PreparedModel
from tflm_zephyr.codegen.spec import ArenaSpec
from tflm_zephyr.model import planned


def with_static_plan(runtime: InterpreterSpec, item: PreparedModel) -> tuple[InterpreterSpec, ArenaSpec]:
    """`runtime` with a table instead of an offline plan, and its arena.

    The app answers TFLM's requests from the table's sizes and offsets, and refuses any other. Raises PlanError, as
    arena.static_arena does.
    """
    arena = static_arena(item.plan)
    slots = tuple(zip(arena.plan.problem.sizes, arena.plan.offsets, strict=True))
    table = StaticPlan(slots, arena.plan.size_bytes)
    data = planned(item.running, None)
    size = arena.size
    return (
        replace(runtime, data=data, planned=False, static_plan=table),
        ArenaSpec(size.bytes, size.source, size.note),
    )

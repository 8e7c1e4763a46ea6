# SPDX-License-Identifier: Apache-2.0
"""Heads with offsets that stand in the model or that the user gives, checked: TFLM checks neither overlap nor
alignment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tflm_zephyr.arena.head import HeadPlan, plan_head
from tflm_zephyr.arena.requests import ONLINE, Constraints, Requests, places_variables, requests_of
from tflm_zephyr.errors import PlanError
from tflm_zephyr.kernels import KernelLibrary
from tflm_zephyr.memory_planner import Plan, align_up, check_plan
from tflm_zephyr.model import Model
from tflm_zephyr.tflm import ALIGNMENT

ADDRESSABLE_BYTES = 2**31 - 1
"""TFLM's planner counts in int."""


def given_plan(model: Model, library: KernelLibrary) -> Plan | None:
    """TFLM's plan with the offsets that `model` carries, None when it carries none.

    ModelError when the offsets are for another number of tensors, PlanError when they corrupt memory. An output may
    overlap an input where the kernels of `library` allow it.
    """
    rows = model.offline_plan
    if rows is None:
        return None
    constraints = Constraints(plan_variables=places_variables(model, rows))
    return _checked(requests_of(model, library, constraints, in_place=(library,)), rows, None)


def head_with_offsets(
    model: Model,
    library: KernelLibrary,
    rows: Sequence[int] | None,
    constraints: Constraints | None = None,
    *,
    arena_bytes: int | None = None,
    in_place: bool = True,
) -> HeadPlan:
    """The head of `model` with the user's own offsets: one for each tensor of all subgraphs, -1 = placed by TFLM.

    rows: None when TFLM places all tensors. in_place: False where no output may overlap an input, whatever the kernels
    of `library` allow. PlanError, naming tensors and offsets, when the number of offsets is not that of tensors, an
    offset is for a tensor that no plan can place, tensors overlap where that is not allowed, or an offset is not
    aligned or ends past `arena_bytes`.
    """
    constraints = constraints or Constraints()
    placed = rows is not None and any(row != ONLINE for row in rows)
    rows = [ONLINE] * model.tensor_count if rows is None else rows
    if len(rows) != model.tensor_count:
        what = f"the plan has {len(rows)} offsets, the model {model.tensor_count} tensors"
        raise PlanError(what, where=model.where, hint="A plan gives one offset for each tensor, -1 for TFLM's choice")
    for row, (subgraph, tensor) in zip(rows, model.tensors(), strict=True):
        own = subgraph.index == 0 and tensor.index in constraints.preallocated
        if row != ONLINE and (own or tensor.is_constant):
            kind = "preallocated" if own else "a constant"
            what = f"{tensor.label} is {kind}, but the plan gives it the offset {row}"
            raise PlanError(what, where=model.where, hint="Give -1 there")
    constraints = replace(constraints, plan_variables=places_variables(model, rows))
    requests = requests_of(model, library, constraints, in_place=(library,) if in_place else ())
    plan = _checked(requests, rows, arena_bytes)
    return replace(plan_head(requests), plan=plan, offsets=tuple(rows) if placed else None)


def _checked(requests: Requests, rows: Sequence[int], arena_bytes: int | None) -> Plan:
    where = requests.model.where
    offsets = requests.given_offsets(rows)
    for name, offset in zip(requests.names, offsets, strict=True):
        if offset is not None and offset < 0:
            raise PlanError(f"{name} has the negative offset {offset}", where=where)
        if offset is not None and offset % ALIGNMENT:  # before TFLM places other buffers around it, as badly aligned
            raise PlanError(f"{name} at offset {offset} is not aligned to {ALIGNMENT} bytes", where=where)
    plan = Plan(requests.in_place_problem(), requests.placed_by_tflm(offsets), "given")
    placed = zip(requests.names, plan.offsets, requests.sizes, strict=True)
    for name, offset, size in sorted(placed, key=lambda one: one[1]):  # TFLM's own choices lie above the given ones
        end = align_up(offset + size, ALIGNMENT)
        if end > ADDRESSABLE_BYTES:
            what = f"{name} at offset {offset} ends at {end}, past the {ADDRESSABLE_BYTES} bytes that TFLM can address"
            raise PlanError(what, where=where, hint="Give a smaller offset, or -1 for TFLM's choice")
    check_plan(plan, why_unsafe=requests.in_place_check, arena_bytes=arena_bytes)
    return plan

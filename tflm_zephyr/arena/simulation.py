# SPDX-License-Identifier: Apache-2.0
"""Simulation of TFLM's planner: its plan for a model with given offsets, scratch buffers included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tflm_zephyr.arena.requests import Requests
from tflm_zephyr.errors import PlanError
from tflm_zephyr.memory_planner import Plan, Problem, check_plan
from tflm_zephyr.tflm import ALIGNMENT


def simulate(
    requests: Requests,
    problem: Problem,
    offsets: Sequence[int | None],
    *,
    stock: Plan | None = None,
    below: int | None = None,
) -> Plan | None:
    """TFLM's plan with these `offsets`; None when it violates a constraint, or is not smaller than `below` bytes.

    `stock` is TFLM's plan without any offset for the required lifespans, if the caller has it already. `problem` is
    the packing problem of `requests`, with in-place pairs.
    """
    use_stock = stock is not None and requests.tflm_meets_all and set(offsets) <= {None}
    places = stock.offsets if stock is not None and use_stock else requests.placed_by_tflm(offsets)
    for place, row in zip(places, requests.rows, strict=True):
        if row is not None and place % requests.alignment:
            return None
    method = "greedy" if all(offset is None for offset in offsets) else "packed"
    plan = Plan(replace(problem, alignment=ALIGNMENT), places, method)
    if below is not None and plan.size_bytes >= below:
        return None
    try:
        check_plan(plan, why_unsafe=requests.in_place_check)
    except PlanError:
        return None
    return plan

# SPDX-License-Identifier: Apache-2.0
"""The report of `plan`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tests.helpers.model_builder import chain
from tflm_zephyr.arena import ArenaPlan, Constraints, PlanRequest, plan
from tflm_zephyr.cli.report import plan as report
from tflm_zephyr.kernels.libraries import kernel_library
from tflm_zephyr.memory_planner.problem import Buffer, Plan, Problem
from tflm_zephyr.model.reader import parse_model
from tflm_zephyr.model.types import Model
from tflm_zephyr.tflm import cortex_m_sizes

KERNELS = kernel_library("reference")


def planned(model: Model, *, in_place: bool = False, preallocated: tuple[int, ...] = ()) -> ArenaPlan:
    constraints = Constraints(preallocated=preallocated)
    return plan(
        model, PlanRequest((KERNELS,), cortex_m_sizes(static_memory=True), in_place=in_place, constraints=constraints)
    )


def item(found: ArenaPlan, **values: object) -> report.PlannedModel:
    return replace(report.PlannedModel(Path("a/net.tflite"), found, "reference kernels"), **values)  # type: ignore[arg-type]


def test_a_model() -> None:
    found = planned(parse_model(chain()))
    shown = report.plan(item(found), drawn=report.plan_json(item(found)), written=Path("out.tflite"))
    assert shown.startswith("net.tflite: 3 operators, 4 buffers in the head (0 scratch buffers), reference kernels\n")
    assert "linear             256" in shown and "lower bound        128" in shown and "so this one is optimal" in shown
    assert "in-place           128  no output may overlap an input" in shown and "It holds for" not in shown
    assert "\n   3: " in shown and shown.endswith("Written: out.tflite")
    largest = replace(found.largest, head=replace(found.head, lower_bound_bytes=96))
    above = report.plan(item(replace(found, arenas=(largest,))), drawn=None, written=None)
    assert "this one is 32 bytes above" in above
    raw = json.loads(json.dumps(report.plan_json(item(found))))
    assert (raw["linear_bytes"], raw["greedy_bytes"], raw["lower_bound_bytes"]) == (256, 128, 128)
    assert [buffer["size"] for buffer in raw["buffers"]] == [64] * 4


def test_an_overlapping_plan_says_what_it_holds_for() -> None:
    found = planned(parse_model(chain(3, 4096)), in_place=True)
    shown = report.plan(item(found), drawn=None, written=None)
    assert "in-place          4096  the same with in-place operators, as far as the kernels allow it" in shown
    assert "In place: 3 outputs are written over inputs. The plan is safe with reference kernels alone." in shown
    assert report.plan_json(item(found))["in_place_count"] == 3


def test_preallocated_tensors_say_what_they_save() -> None:
    found = planned(parse_model(chain()), preallocated=(0,))
    for saved in (0, -16):
        shown = report.plan(item(found, saved_bytes=saved), drawn=None, written=None)
        assert f"preallocated {saved:>9}  saved of the arena by 1 tensor in the app's own memory" in shown


def test_one_arena_for_several_models() -> None:
    items = [item(planned(parse_model(chain(3, width)))) for width in (6400, 12800)]
    shown = report.shared(items)
    together = report.shared_bytes(items)
    assert f"One arena for 2 models: {together} instead of {sum(i.plan.size.bytes for i in items)}" in shown
    assert max(i.plan.size.bytes for i in items) < together < sum(i.plan.size.bytes for i in items) - 12800


def test_packing() -> None:
    plan = Plan(Problem((Buffer("a", 0, 2, 16),)), (0,), "greedy")
    shown = report.packing(plan, 16, written=None)
    assert shown == "1 buffer packed into 16 (greedy), optimal: the lower bound is reached"
    assert "16 above the lower bound 0" in report.packing(plan, 0, written=None)

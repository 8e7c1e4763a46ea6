# SPDX-License-Identifier: Apache-2.0
"""The report of `plan`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tests.helpers.model_builder import chain
from tflm_zephyr.arena.head import HeadPlan, arena_size, plan_head
from tflm_zephyr.arena.tail import estimate_tail
from tflm_zephyr.cli.report import plan as report
from tflm_zephyr.kernels.libraries import kernel_library
from tflm_zephyr.memory_planner.problem import Buffer, Plan, Problem
from tflm_zephyr.model.reader import parse_model

KERNELS = kernel_library("reference")


def item(head: HeadPlan, **values: object) -> report.PlannedModel:
    model, tail = head.graph.model, estimate_tail(head.graph, KERNELS)
    made = report.PlannedModel(
        Path("a/net.tflite"), model, head, arena_size(head, KERNELS), tail, "reference kernels", None, model, None
    )
    return replace(made, **values)  # type: ignore[arg-type]


def test_a_model() -> None:
    head = plan_head(parse_model(chain()), KERNELS)
    shown = report.plan(item(head), draw=True, written=Path("out.tflite"))
    assert shown.startswith("net.tflite: 3 operators, 4 buffers in the head (0 scratch buffers), reference kernels\n")
    assert "linear             256" in shown and "lower bound        128" in shown and "so this one is optimal" in shown
    assert "overlapped         128  no output may overlap an input" in shown and "It holds for" not in shown
    assert shown.endswith("Written: out.tflite")
    above = report.plan(item(replace(head, lower_bound_bytes=96)), draw=False, written=None)
    assert "this one is 32 bytes above" in above
    raw = json.loads(json.dumps(report.plan_json(head, head.graph.model, None)))
    assert (raw["linear_bytes"], raw["greedy_bytes"], raw["lower_bound_bytes"]) == (256, 128, 128)
    assert [buffer["size"] for buffer in raw["buffers"]] == [64] * 4


def test_an_overlapping_plan_says_what_it_holds_for() -> None:
    head = plan_head(parse_model(chain()), KERNELS, overlap=[KERNELS])
    shown = report.plan(item(head), draw=False, written=None)
    assert "overlapped          64  outputs over inputs, as far as the kernels allow it" in shown
    assert "It holds for reference kernels alone: 3 outputs overlap inputs." in shown
    assert report.plan_json(head, head.graph.model, None)["overlapping"] == 3


def test_preallocated_tensors_say_what_they_save() -> None:
    head = plan_head(parse_model(chain()), KERNELS, preallocated=(0,))
    for saved in (0, -16):
        shown = report.plan(item(head, saved_bytes=saved), draw=False, written=None)
        assert f"preallocated {saved:>9}  saved of the arena by 1 tensor in the app's own memory" in shown


def test_one_arena_for_several_models() -> None:
    items = [item(plan_head(parse_model(chain(3, width)), KERNELS)) for width in (6400, 12800)]
    shown = report.shared(items)
    together = report.shared_bytes(items)
    assert f"One arena for 2 models: {together} instead of {sum(i.arena.bytes for i in items)}" in shown
    assert max(i.arena.bytes for i in items) < together < sum(i.arena.bytes for i in items) - 12800


def test_packing() -> None:
    plan = Plan(Problem((Buffer("a", 0, 2, 16),)), (0,), "greedy")
    shown = report.packing(plan, 16, written=None)
    assert shown == "1 buffer packed into 16 (greedy), optimal: the lower bound is reached"
    assert "16 above the lower bound 0" in report.packing(plan, 0, written=None)

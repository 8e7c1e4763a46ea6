# SPDX-License-Identifier: Apache-2.0
"""The checker against hand-made faults, and against comparing every pair on random plans."""

from __future__ import annotations

import random

import pytest

from tflm_zephyr.errors import PlanError
from tflm_zephyr.memory_planner.checker import check_plan
from tflm_zephyr.memory_planner.problem import Buffer, Plan, Problem

A, B = Buffer("a", 0, 3, 32), Buffer("b", 2, 5, 16)


def given(*offsets: int, buffers: tuple[Buffer, ...] = (A, B), alignment: int = 16) -> Plan:
    return Plan(Problem(buffers, alignment, "p"), offsets, "given")


def test_a_plan_that_holds_passes() -> None:
    check_plan(given(0, 32), arena_bytes=48)


def test_a_fixed_buffer_in_its_place_passes() -> None:
    check_plan(given(32, 0, buffers=(Buffer("c", 0, 1, 16, 32), Buffer("d", 0, 1, 16, 0))))


def test_buffers_at_different_times_may_share() -> None:
    check_plan(given(0, 0, buffers=(Buffer("a", 0, 2, 32), Buffer("b", 2, 5, 16))))


@pytest.mark.parametrize(
    ("plan", "arena_bytes", "said"),
    [
        (given(0, 16), None, r"buffer a \(bytes 0 to 32, steps 0 to 2\) and buffer b \(bytes 16 to 32, steps 2 to 4\)"),
        (given(16, 16), None, "overlap"),
        (given(0, 40), None, "buffer b at offset 40 is not aligned to 16"),
        (given(-16, 32), None, "buffer a has the negative offset -16"),
        (given(0), None, "1 offsets for 2 buffers"),
        (given(0, 32, 64), None, "3 offsets for 2 buffers"),
        (given(0, 32), 47, "buffer b at offset 32 ends at 48, past the arena's 47 bytes"),
        (given(0, buffers=(Buffer("c", 0, 1, 16, 32),)), None, "buffer c is fixed at offset 32, the plan says 0"),
        (given(48, buffers=(Buffer("c", 0, 1, 16, 32),)), None, "buffer c is fixed at offset 32, the plan says 48"),
        (given(16, buffers=(Buffer("c", 0, 1, 16, 0),)), None, "buffer c is fixed at offset 0, the plan says 16"),
        (given(0, 17, buffers=(Buffer("c", 0, 1, 17), Buffer("d", 0, 1, 1)), alignment=16), None, "not aligned"),
    ],
)
def test_a_fault_is_named(plan: Plan, arena_bytes: int | None, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        check_plan(plan, arena_bytes=arena_bytes)


def test_the_rounded_up_part_of_a_buffer_counts() -> None:
    with pytest.raises(PlanError, match="overlap"):
        check_plan(given(0, 16, buffers=(Buffer("a", 0, 1, 17), Buffer("b", 0, 1, 16))))


def pairs_overlap(plan: Plan) -> bool:
    entries = list(zip(plan.problem.buffers, plan.problem.sizes, plan.offsets, strict=True))
    return any(
        one.lower < other.upper
        and other.lower < one.upper
        and start < other_start + other_size
        and other_start < start + size
        for i, (one, size, start) in enumerate(entries)
        for other, other_size, other_start in entries[:i]
    )


@pytest.mark.parametrize("seed", range(100))
def test_it_agrees_with_comparing_every_pair(seed: int) -> None:
    rng = random.Random(seed)
    buffers, offsets = [], []
    for i in range(rng.randrange(2, 7)):
        lower = rng.randrange(8)
        buffers.append(Buffer(str(i), lower, lower + rng.randrange(1, 5), 16 * rng.randrange(1, 4)))
        offsets.append(16 * rng.randrange(10))
    plan = Plan(Problem(tuple(buffers)), tuple(offsets), "given")
    if pairs_overlap(plan):
        with pytest.raises(PlanError, match="overlap"):
            check_plan(plan)
    else:
        check_plan(plan)

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from tflm_zephyr.memory_planner.checker import check_plan
from tflm_zephyr.memory_planner.linear_planner import linear
from tflm_zephyr.memory_planner.problem import Buffer, Problem


def test_nothing_shares_memory() -> None:
    plan = linear(Problem((Buffer("a", 0, 1, 20), Buffer("b", 5, 6, 16), Buffer("c", 9, 10, 1))))
    assert plan.offsets == (0, 32, 48)
    assert plan.size_bytes == 64
    check_plan(plan)


def test_fixed_buffers_stay_and_the_rest_comes_behind() -> None:
    plan = linear(Problem((Buffer("a", 0, 1, 16), Buffer("b", 0, 1, 16, 64), Buffer("c", 0, 1, 16))))
    assert plan.offsets == (80, 64, 96)

# SPDX-License-Identifier: Apache-2.0
"""The packing planner: never worse than greedy, repeatable, optimal where brute force can tell."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

from tests.helpers.marks import rest_slow
from tflm_zephyr.memory_planner import packing
from tflm_zephyr.memory_planner.checker import check_plan
from tflm_zephyr.memory_planner.csv_files import load_problem
from tflm_zephyr.memory_planner.greedy_planner import first_fit, greedy
from tflm_zephyr.memory_planner.packing import pack
from tflm_zephyr.memory_planner.problem import Buffer, InPlacePair, Problem, lower_bound

CAPACITY = 1_048_576


def random_problem(seed: int, most: int, fixed: float = 0.0) -> Problem:
    rng = random.Random(seed)
    buffers = []
    for i in range(rng.randrange(1, most + 1)):
        lower = rng.randrange(-1, 8)
        offset = 16 * rng.randrange(20) if rng.random() < fixed else None
        buffers.append(Buffer(str(i), lower, lower + rng.randrange(1, 5), 16 * rng.randrange(0, 9), offset))
    return Problem(tuple(buffers))


def smallest(problem: Problem) -> int:
    """The optimum: some order of placing, each buffer as low as it goes, gives it."""
    orders = itertools.permutations(range(len(problem.buffers)))
    return min(first_fit(problem, order, "order").size_bytes for order in orders)


@pytest.mark.parametrize("seed", range(60))
def test_small_problems_are_packed_to_the_optimum(seed: int) -> None:
    problem = random_problem(seed, most=6)
    plan = pack(problem)
    check_plan(plan)
    assert plan.size_bytes == smallest(problem)


@pytest.mark.parametrize("seed", range(60))
def test_never_worse_than_greedy_and_the_same_again(seed: int) -> None:
    problem = random_problem(seed, most=40)
    plan = pack(problem, work=2_000_000)
    check_plan(plan)
    assert lower_bound(problem) <= plan.size_bytes <= greedy(problem).size_bytes
    assert pack(problem, work=2_000_000).offsets == plan.offsets


@pytest.mark.parametrize("seed", range(40))
def test_fixed_buffers_stay_where_they_are(seed: int) -> None:
    rng = random.Random(seed)
    free = random_problem(seed, most=12)
    taken = greedy(free)
    buffers = tuple(
        Buffer(b.id, b.lower, b.upper, b.size, offset if rng.random() < 0.4 else None)
        for b, offset in zip(free.buffers, taken.offsets, strict=True)
    )
    plan = pack(Problem(buffers))
    check_plan(plan)
    assert plan.size_bytes <= greedy(Problem(buffers)).size_bytes


def test_the_search_stops_at_a_capacity() -> None:
    problem = Problem((Buffer("a", 0, 2, 16), Buffer("b", 1, 3, 32)))
    assert pack(problem, capacity=1000).method == "greedy"


def test_problems_of_nothing() -> None:
    assert pack(Problem(())).size_bytes == 0
    assert pack(Problem((Buffer("a", 0, 1, 0), Buffer("b", 0, 1, 0)))).size_bytes == 0


def fragmented() -> Problem:
    """Seven buffers on which neither TFLM's rule nor first fit in any simple order is optimal."""
    for seed in range(10_000):
        problem = random_problem(seed, most=14)
        if pack(problem, work=0).size_bytes > pack(problem).size_bytes:
            return problem
    raise AssertionError("no such problem")


def test_searches_find_what_no_order_finds() -> None:
    plan = pack(fragmented())
    check_plan(plan)
    assert plan.method == "packed"


@pytest.mark.parametrize("seed", range(60))
def test_what_is_proven_is_the_optimum(seed: int) -> None:
    problem = random_problem(seed, most=6)
    plan = pack(problem)
    assert lower_bound(problem) <= plan.proven_bytes == plan.size_bytes == smallest(problem)


def test_an_optimum_above_the_lower_bound_is_proven() -> None:
    pieces = [(0, 1, 3), (1, 2, 2), (0, 3, 2), (2, 3, 1), (1, 7, 1), (3, 7, 3), (2, 8, 1), (7, 9, 4)]
    problem = Problem(tuple(Buffer(str(i), low, high, 16 * size) for i, (low, high, size) in enumerate(pieces)))
    plan = pack(problem)
    check_plan(plan)
    assert (lower_bound(problem), plan.proven_bytes, plan.size_bytes) == (80, 96, 96)


@pytest.mark.slow
def test_ten_thousand_buffers() -> None:
    rng = random.Random(3)
    buffers = tuple(
        Buffer(str(i), i, i + (2 if i % 3 else rng.choice((5, 50))), 16 * rng.randrange(1, 999)) for i in range(10_000)
    )
    plan = pack(Problem(buffers), work=1_500_000)
    check_plan(plan)


@pytest.mark.parametrize("name", rest_slow("ABCDEF", 2))
def test_hard_problems_fit_their_capacity(shared: Path, name: str) -> None:
    problem = load_problem(shared / "allocation-problems" / f"{name}.{CAPACITY}.csv")
    plan = pack(problem, capacity=CAPACITY)
    check_plan(plan, arena_bytes=CAPACITY)
    assert greedy(problem).size_bytes > 1.2 * CAPACITY


def test_minimallocs_example_is_packed_perfectly(shared: Path) -> None:
    plan = pack(load_problem(shared / "allocation-problems" / "input.12.csv"))
    check_plan(plan, arena_bytes=12)


@pytest.mark.slow
def test_many_buffers_over_their_inputs_reach_the_bound() -> None:
    """A chain in which an output may be in place, or start a little below its input."""
    rng = random.Random(3)
    sizes = [16 * rng.randrange(1, 64) for _ in range(800)]
    buffers = tuple(Buffer(str(i), i, i + 2, size) for i, size in enumerate(sizes))
    overlaps = tuple(InPlacePair(i, i + 1, 16 * rng.randrange(0, 4)) for i in range(len(sizes) - 1))
    plan = pack(Problem(buffers, pairs=overlaps), work=2_000_000)
    assert plan.size_bytes == plan.proven_bytes < lower_bound(Problem(buffers))


def test_without_a_search_all_orders_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long lives that begin one after the other: TFLM's order is a poor one, and there are too many pairs to search."""
    rng = random.Random(1)
    problem = Problem(tuple(Buffer(str(i), i, i + 300, rng.randrange(1, 5000)) for i in range(600)), alignment=1)
    monkeypatch.setattr(packing, "_MOST_PAIRS", 1000)
    plan = pack(problem)
    check_plan(plan)
    assert plan.size_bytes < 0.98 * greedy(problem).size_bytes

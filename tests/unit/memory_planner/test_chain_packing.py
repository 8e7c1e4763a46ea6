# SPDX-License-Identifier: Apache-2.0
"""Chains are packed exactly: as small as brute force over all offsets, proven, and at once."""

from __future__ import annotations

import itertools
import random

import pytest

from tflm_zephyr.memory_planner.chain_packing import chain_plan
from tflm_zephyr.memory_planner.greedy_planner import greedy
from tflm_zephyr.memory_planner.packing import pack
from tflm_zephyr.memory_planner.problem import Buffer, InPlacePair, Plan, Problem, lower_bound

UNIT = 16


def chain(seed: int) -> Problem:
    """Layers with a tensor in and out, up to two buffers of their own, and in-place pairs one way or both."""
    rng = random.Random(seed)
    buffers = [Buffer("input", 0, 2, rng.randrange(0, 6 * UNIT))]
    pairs = []
    last = 0
    for step in range(1, rng.randrange(2, 6)):
        for k in range(rng.randrange(3)):
            buffers.append(Buffer(f"scratch {step} {k}", step, step + 1, rng.randrange(0, 4 * UNIT)))
        life = rng.choice((2, 2, 2, 3))
        if life == 3 or rng.random() < 0.1:  # nothing is written at this step: the tensor lives on
            buffers[last] = Buffer(f"tensor {step}", buffers[last].lower, buffers[last].upper + 1, buffers[last].size)
            continue
        buffers.append(Buffer(f"tensor {step}", step, step + 2, rng.randrange(0, 6 * UNIT)))
        place = len(buffers) - 1
        for source, result in ((last, place), (place, last)):
            if rng.random() < 0.6:
                distance = rng.choice((None, rng.randrange(-2 * UNIT, 5 * UNIT)))
                pairs.append(InPlacePair(source, result, distance, rng.random() < 0.3))
        last = place
    return Problem(tuple(buffers), UNIT, pairs=tuple(pairs))


def fits(problem: Problem, capacity: int) -> bool:
    """Whether some offsets on the lattice of the alignment fit: step by step, all of them are tried."""
    buffers, sizes = problem.buffers, problem.sizes
    places = {i: range(0, capacity - sizes[i] + 1, UNIT) for i in range(len(buffers))}
    states: set[tuple[tuple[int, int], ...]] = {()}
    for step in range(max(buffer.upper for buffer in buffers)):
        alive = [i for i, buffer in enumerate(buffers) if buffer.lower <= step < buffer.upper]
        after = set()
        for state in states:
            held = {i: offset for i, offset in state if i in alive}
            new = [i for i in alive if i not in held]
            for offsets in itertools.product(*(places[i] for i in new)):
                now = held | dict(zip(new, offsets, strict=True))
                if all(apart(problem, now, one, other) for one, other in itertools.combinations(alive, 2)):
                    after.add(tuple(sorted(now.items())))
        states = {tuple(item for item in state if buffers[item[0]].upper > step + 1) for state in after}
        if not states:
            return False
    return True


def apart(problem: Problem, offsets: dict[int, int], one: int, other: int) -> bool:
    first, second = offsets[one], offsets[other]
    if first + problem.sizes[one] <= second or second + problem.sizes[other] <= first:
        return True
    if not problem.sizes[one] or not problem.sizes[other]:
        return True
    return any(
        (pair.distance is not None and offsets[pair.input] - offsets[pair.output] >= pair.distance)
        or (pair.in_place and first == second)
        for pair in problem.pairs
        if {pair.input, pair.output} == {one, other}
    )


def assert_right(plan: Plan) -> None:
    buffers, offsets = plan.problem.buffers, dict(enumerate(plan.offsets))
    assert all(offset >= 0 and offset % UNIT == 0 for offset in plan.offsets)
    for one, other in itertools.combinations(range(len(buffers)), 2):
        if buffers[one].lower < buffers[other].upper and buffers[other].lower < buffers[one].upper:
            assert apart(plan.problem, offsets, one, other), (one, other, plan)


@pytest.mark.parametrize("seed", range(60))
def test_is_as_small_as_brute_force(seed: int) -> None:
    problem = chain(seed)
    plan = chain_plan(greedy(problem))
    assert plan is not None
    assert_right(plan)
    assert plan.size_bytes == plan.proven_bytes
    assert fits(problem, plan.size_bytes)
    assert plan.size_bytes == 0 or not fits(problem, plan.size_bytes - UNIT)


def test_some_chains_lie_between_the_bound_and_greedy() -> None:
    """Random chains are of both kinds; without them the test above would show little."""
    plans = [(greedy(problem), lower_bound(problem)) for problem in map(chain, range(400))]
    sizes = [(chain_plan(plan), plan, bound) for plan, bound in plans]
    assert sum(best is not None and best.size_bytes > bound for best, _, bound in sizes) >= 5
    assert sum(best is not None and best.size_bytes < plan.size_bytes for best, plan, _ in sizes) >= 100


def test_a_branch_and_a_fixed_offset_are_no_chains() -> None:
    branch = Problem((Buffer("a", 0, 3, 16), Buffer("b", 0, 3, 16), Buffer("c", 1, 4, 16)))
    fixed = Problem((Buffer("a", 0, 2, 16, 32), Buffer("b", 1, 3, 16)))
    assert chain_plan(greedy(branch)) is None
    assert chain_plan(greedy(fixed)) is None


def test_a_long_chain_is_packed_without_a_search() -> None:
    """1,000 layers whose best plan lies above the lower bound: pack() proves it with no work for its searches."""
    tensors = [Buffer(f"t{k}", k, k + 2, 8000) for k in range(1000)]
    scratch = [Buffer(f"s{k}", k, k + 1, 896 if k % 2 else 512) for k in range(1, 1000)]
    pairs = [InPlacePair(k, k + 1, 4160 if k % 2 else 256) for k in range(999)]
    pairs += [InPlacePair(pair.output, pair.input, pair.distance) for pair in pairs]
    problem = Problem((*tensors, *scratch), pairs=tuple(pairs))
    plan = pack(problem, work=0)
    assert lower_bound(problem) < plan.size_bytes == plan.proven_bytes < greedy(problem).size_bytes

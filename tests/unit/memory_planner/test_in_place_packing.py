# SPDX-License-Identifier: Apache-2.0
"""Packing where outputs may overlap inputs: against trying everything, and by examples."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tflm_zephyr.errors import PlanError
from tflm_zephyr.memory_planner.checker import check_plan
from tflm_zephyr.memory_planner.in_place_packing import merged_in_place
from tflm_zephyr.memory_planner.packing import pack
from tflm_zephyr.memory_planner.problem import Buffer, InPlacePair, Problem, lower_bound


def allows(overlap: InPlacePair, input_offset: int, output_offset: int) -> bool:
    near = overlap.distance is not None and input_offset - output_offset >= overlap.distance
    return near or (overlap.in_place and input_offset == output_offset)


def fits(problem: Problem, offsets: dict[int, int], new: int) -> bool:
    """Whether buffer `new` has none of the others where it must not be."""
    buffers, sizes = problem.buffers, problem.sizes
    overlaps = {(o.input, o.output): o for o in problem.pairs}
    for other, offset in offsets.items():
        one, two = buffers[other], buffers[new]
        meet = one.lower < two.upper and two.lower < one.upper
        if other == new or not meet:
            continue
        start = offsets[new]
        if offset < start + sizes[new] and start < offset + sizes[other]:
            pairs = [(other, new), (new, other)]
            if not any(pair in overlaps and allows(overlaps[pair], *(offsets[i] for i in pair)) for pair in pairs):
                return False
    return True


def smallest(problem: Problem, known: int) -> int:
    """The size of the best of all plans, where one of `known` bytes exists."""
    best, offsets = known, {}

    def place(k: int) -> None:
        nonlocal best
        if k == len(problem.buffers):
            best = max(offsets[i] + size for i, size in enumerate(problem.sizes))
            return
        for start in range(0, best - problem.sizes[k], problem.alignment):
            offsets[k] = start
            if start + problem.sizes[k] < best and fits(problem, offsets, k):
                place(k + 1)
            del offsets[k]

    place(0)
    return best


def random_problem(seed: int, *, odd: bool) -> Problem:
    """Few small buffers; `odd`: with distances below 0, and in place for unequal sizes."""
    rng = random.Random(seed)
    steps, count = rng.randrange(2, 6), rng.randrange(3, 7)
    buffers = []
    for i in range(count):
        lower = rng.randrange(steps)
        buffers.append(Buffer(str(i), lower, rng.randrange(lower + 1, steps + 1), 16 * rng.randrange(1, 5)))
    overlaps = []
    for i, one in enumerate(buffers):
        for j, other in enumerate(buffers):
            if one.lower < other.lower == one.upper - 1 and rng.random() < 0.7:
                in_place = rng.random() < 0.3 and (odd or one.size == other.size)
                distances = [0, 0, 5, 16, 32, -7, -40] if odd else [0, 0, 5, 16, 32, -7]
                distance = None if in_place and rng.random() < 0.6 else rng.choice(distances)
                overlaps.append(InPlacePair(i, j, distance, in_place))
    return Problem(tuple(buffers), 16, f"seed {seed}", tuple(overlaps))


def asked(problem: Problem) -> object:
    """The checker's word on overlaps: those of the problem."""
    overlaps = {(o.input, o.output): o for o in problem.pairs}

    def why_unsafe(source: int, result: int, distance: int) -> str | None:
        overlap = overlaps.get((source, result))
        return None if overlap is not None and allows(overlap, distance, 0) else "not allowed"

    return why_unsafe


@pytest.mark.slow
@pytest.mark.parametrize("odd", [False, True])
def test_against_trying_everything(odd: bool) -> None:
    """Only outputs that start above their inputs, which no search tries, can leave a plan above the best one."""
    worse = better = 0
    for seed in range(200):
        problem = random_problem(seed, odd=odd)
        plan = pack(problem, work=300_000)
        check_plan(plan, why_unsafe=asked(problem))  # type: ignore[arg-type]
        best = smallest(problem, plan.size_bytes)
        assert lower_bound(problem) <= plan.proven_bytes <= best
        worse += plan.size_bytes > best
        better += best < pack(replace(problem, pairs=())).size_bytes
    assert worse <= (2 if odd else 0)
    assert better > 60


def chain(sizes: list[int], distance: int | None, *, in_place: bool = False) -> Problem:
    """Each buffer made of the one before."""
    buffers = tuple(Buffer(str(i), max(0, i), i + 2, size) for i, size in enumerate(sizes))
    return Problem(buffers, 16, "", tuple(InPlacePair(i, i + 1, distance, in_place) for i in range(len(sizes) - 1)))


def test_a_chain_slides_down() -> None:
    plan = pack(chain([160, 160, 160], 32))
    assert plan.size_bytes == 224 == plan.proven_bytes  # 160 + 2 x 32: the middle one has to make room twice
    assert pack(chain([160, 160, 160], None, in_place=True)).size_bytes == 160


def test_the_bound_counts_no_byte_twice() -> None:
    """Two inputs of an output smaller than both: it saves its own size at most."""
    buffers = (Buffer("a", 0, 2, 160), Buffer("b", 0, 2, 160), Buffer("c", 1, 3, 64))
    problem = Problem(buffers, 16, "", (InPlacePair(0, 2, 0), InPlacePair(1, 2, 0)))
    assert lower_bound(problem) == 320 == pack(problem).size_bytes
    wide = replace(problem, buffers=(*buffers[:2], Buffer("c", 1, 3, 400)))
    assert lower_bound(wide) == 400 == pack(wide).size_bytes


def test_scratch_of_the_step_stays_apart() -> None:
    buffers = (Buffer("a", 0, 2, 160), Buffer("b", 1, 3, 160), Buffer("scratch", 1, 2, 48))
    plan = pack(Problem(buffers, 16, "", (InPlacePair(0, 1, 0),)))
    assert plan.size_bytes == 208
    with pytest.raises(PlanError, match="scratch"):
        check_plan(
            replace(plan, offsets=(0, 0, 0)), why_unsafe=lambda source, result, distance: "x" if result == 2 else None
        )


def test_in_place_buffers_are_one() -> None:
    problem = chain([64, 64, 64, 32], None, in_place=True)
    merged = merged_in_place(problem)
    assert merged is not None
    assert [(b.lower, b.upper, b.size) for b in merged.problem.buffers] == [(0, 4, 64), (3, 5, 32)]
    assert merged.problem.pairs == (InPlacePair(0, 1, None, True),)
    assert merged.apart((16, 96)) == (16, 16, 16, 96)
    assert merged_in_place(chain([64, 64], 16)) is None


def test_only_those_that_meet_at_one_step_can_overlap() -> None:
    buffers = (Buffer("a", 0, 3, 16), Buffer("b", 1, 4, 16))
    with pytest.raises(PlanError, match="buffer b may overlap a, but is not first used where"):
        Problem(buffers, 16, "", (InPlacePair(0, 1, 0),))


def test_the_checker_does_not_take_the_problems_word() -> None:
    problem = chain([64, 64], 0)
    plan = pack(problem)
    assert plan.size_bytes == 64
    with pytest.raises(PlanError, match="overlap"):
        check_plan(plan)
    with pytest.raises(PlanError, match="overlap: no"):
        check_plan(plan, why_unsafe=lambda source, result, distance: "no")
    check_plan(plan, why_unsafe=lambda source, result, distance: None)


def test_the_checker_asks_for_a_single_shared_step_only() -> None:
    buffers = (Buffer("a", 0, 3, 64), Buffer("b", 1, 4, 64), Buffer("c", 2, 5, 64))
    plan = replace(pack(Problem(buffers)), offsets=(0, 64, 32))
    with pytest.raises(PlanError, match=r"buffer b .* and buffer c .* overlap"):
        check_plan(plan, why_unsafe=lambda source, result, distance: None)
    with pytest.raises(PlanError, match=r"buffer a .* and buffer b .* overlap"):
        check_plan(replace(plan, offsets=(0, 32, 128)), why_unsafe=lambda source, result, distance: None)


def test_the_checker_finds_every_overlap_of_a_long_buffer() -> None:
    """Several older buffers lie within the new one: each is asked about."""
    buffers = (Buffer("a", 0, 2, 32), Buffer("b", 0, 2, 32), Buffer("c", 0, 2, 32), Buffer("d", 1, 3, 96))
    plan = replace(pack(Problem(buffers)), offsets=(0, 32, 64, 0))
    seen = []

    def why_unsafe(source: int, result: int, distance: int) -> str | None:
        seen.append((source, result, distance))
        return None

    check_plan(plan, why_unsafe=why_unsafe)
    assert sorted(seen) == [(0, 3, 0), (1, 3, 32), (2, 3, 64)]

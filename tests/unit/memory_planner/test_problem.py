# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random

import pytest

from tflm_zephyr.errors import PlanError
from tflm_zephyr.memory_planner.problem import Buffer, Plan, Problem, lower_bound


def test_sizes_are_rounded_up_to_the_alignment() -> None:
    buffers = tuple(Buffer(str(size), 0, 1, size) for size in (0, 1, 16, 17))
    assert Problem(buffers).sizes == (0, 16, 16, 32)
    assert Problem(buffers, alignment=1).sizes == (0, 1, 16, 17)


def test_the_lower_bound_is_the_fullest_step() -> None:
    buffers = (Buffer("a", 0, 2, 16), Buffer("b", 1, 3, 32), Buffer("c", 2, 4, 64))
    assert lower_bound(Problem(buffers)) == 96
    assert lower_bound(Problem(())) == 0


def test_a_fixed_buffer_raises_the_lower_bound() -> None:
    assert lower_bound(Problem((Buffer("a", 0, 1, 16, 160),))) == 176


@pytest.mark.parametrize("seed", range(20))
def test_the_lower_bound_is_what_counting_every_step_gives(seed: int) -> None:
    rng = random.Random(seed)
    buffers = []
    for i in range(rng.randrange(1, 30)):
        lower = rng.randrange(-1, 20)
        buffers.append(Buffer(str(i), lower, lower + rng.randrange(1, 9), 16 * rng.randrange(9)))
    counted = max(sum(b.size for b in buffers if b.lower <= t < b.upper) for t in range(-1, 30))
    assert lower_bound(Problem(tuple(buffers))) == counted


def test_the_plans_size_is_its_highest_byte() -> None:
    problem = Problem((Buffer("a", 0, 1, 20), Buffer("b", 5, 6, 16)))
    assert Plan(problem, (16, 0), "given").size_bytes == 48
    assert Plan(Problem(()), (), "given").size_bytes == 0


@pytest.mark.parametrize(
    ("buffer", "said"),
    [
        (Buffer("x", 3, 3, 16), "buffer x has an empty lifespan"),
        (Buffer("x", 3, 4, -1), "buffer x has the negative size -1"),
        (Buffer("x", 3, 4, 16, -16), "buffer x has the negative offset -16"),
    ],
)
def test_what_is_no_problem_is_refused(buffer: Buffer, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        Problem((buffer,))


def test_the_alignment_is_positive() -> None:
    with pytest.raises(PlanError, match="alignment 0"):
        Problem((), alignment=0)

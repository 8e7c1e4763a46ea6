# SPDX-License-Identifier: Apache-2.0
"""Steps fold into loops and unfold to the same steps."""

from __future__ import annotations

import random

from tests.helpers.row_chains import conv, random_chain, tensors
from tflm_zephyr.row_planner import Chain, Loop, Pace, folded, unfolded
from tflm_zephyr.row_planner.schedule import scheduled


def test_a_schedule_repeats_itself_but_for_its_ends() -> None:
    chain = Chain(tensors((48, 48, 24), (8,) * 3), (conv(0, 1), conv(1, 2, size=3, stride=2)), (0,), (2,))
    steps = scheduled(chain, 0, 2, Pace()).steps
    loops = folded(steps)
    assert tuple(unfolded(loops)) == steps
    assert sum(len(loop.steps) for loop in loops) < 12 < len(steps)


def test_what_does_not_repeat_is_one_loop() -> None:
    assert folded([(0, 1), (1, 1), (0, 2)]) == (Loop(((0, 1), (1, 1), (0, 2)), 1),)
    assert folded([]) == ()


def test_random_schedules_unfold_to_themselves() -> None:
    rng = random.Random(5)
    for _ in range(20):
        chain = random_chain(rng)
        steps = scheduled(chain, 0, len(chain.operations), Pace(rng.choice((1, 2)), rng.choice((0, 1)))).steps
        assert tuple(unfolded(folded(steps))) == steps

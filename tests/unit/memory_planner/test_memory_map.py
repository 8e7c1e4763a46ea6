# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from tflm_zephyr.memory_planner.memory_map import draw
from tflm_zephyr.memory_planner.problem import Buffer, Plan, Problem


def test_the_map_has_the_form_of_tflms() -> None:
    # What TFLM's planner would print for these three buffers: sizes 1600, 1600 and 800 of an arena of 4000.
    buffers = (Buffer("in", 0, 2, 1600), Buffer("out", 1, 3, 1600), Buffer("scratch", 1, 2, 800))
    assert draw(Plan(Problem(buffers), (0, 1600, 3200), "given")) == [
        "0 (id=0): size=1600, offset=0, first_used=0 last_used=1  in",
        "1 (id=1): size=1600, offset=1600, first_used=1 last_used=2  out",
        "* (id=2): size=800, offset=3200, first_used=1 last_used=1  scratch",
        "   0: " + "0" * 32 + "." * 48 + " (2k)",
        "   1: " + "0" * 32 + "1" * 32 + "*" * 16 + " (4k)",
        "   2: " + "." * 32 + "1" * 32 + "." * 16 + " (2k)",
    ]


def test_overlap_shows_and_signs_go_on_after_the_digits() -> None:
    buffers = tuple(Buffer(str(i), 0, 2, 16) for i in range(63))
    lines = draw(Plan(Problem(buffers), (0,) * 63, "given"))
    assert [line[0] for line in lines[:63:10]] == ["0", "a", "k", "u", "E", "O", "Y"]
    assert lines[62].startswith("0 (id=62)")
    assert "!" in lines[63]


def test_steps_counted_in_ticks_do_not_make_a_million_lines() -> None:
    plan = Plan(Problem((Buffer("a", 0, 1_000_000, 16), Buffer("b", 500_000, 1_000_000, 16))), (0, 16), "given")
    assert [line.split(":")[0].strip() for line in draw(plan)[2:]] == ["0", "500000"]


def test_no_buffers_draw_one_empty_step() -> None:
    assert draw(Plan(Problem(()), (), "given")) == ["   0: " + "." * 80 + " (0k)"]

# SPDX-License-Identifier: Apache-2.0
"""A plan's arena as lines of text."""

from __future__ import annotations

from typing import Any

from tflm_zephyr.page.arena_text import arena_text


def plan(*buffers: tuple[str, int, int, int, int], steps: int, in_place: tuple[tuple[int, int], ...] = ()) -> Any:
    """A document whose buffers are name, first step, last step and one, size, offset."""
    keys = ("id", "lower", "upper", "size", "offset")
    placed = [
        {**dict(zip(keys, buffer, strict=True)), "kind": "tensor", "subgraph": 0, "index": i}
        for i, buffer in enumerate(buffers)
    ]
    pairs = [{"input": first, "output": second, "bytes": 0} for first, second in in_place]
    head = max((size + offset for *_, size, offset in buffers), default=0)
    placing = {"name": "shipped", "head_bytes": head, "steps": [None] * steps, "buffers": placed, "in_place": pairs}
    return {"tensors": [], "placings": [placing]}


def test_the_form_is_that_of_tflms_planner() -> None:
    # What TFLM's planner would print for these three buffers: sizes 1600, 1600 and 800 of an arena of 4000.
    buffers = (("in", 0, 2, 1600, 0), ("out", 1, 3, 1600, 1600), ("scratch", 1, 2, 800, 3200))
    assert arena_text(plan(*buffers, steps=3)).lines()[:-1] == [
        "0 (id=0): size=1600, offset=0, first_used=0 last_used=1  in",
        "1 (id=1): size=1600, offset=1600, first_used=1 last_used=2  out",
        "* (id=2): size=800, offset=3200, first_used=1 last_used=1  scratch",
        "   0: " + "0" * 32 + "." * 48 + " (2k)",
        "   1: " + "0" * 32 + "1" * 32 + "*" * 16 + " (4k)",
        "   2: " + "." * 32 + "1" * 32 + "." * 16 + " (2k)",
    ]


def test_bytes_of_an_in_place_pair_count_once() -> None:
    drawn = arena_text(plan(("in", 0, 2, 4096, 0), ("out", 1, 3, 2048, 0), steps=3, in_place=((0, 1),)), 8)
    assert drawn.lines()[2:5] == ["   0: 00000000 (4k)", "   1: ====0000 (4k)", "   2: 1111.... (2k)"]
    assert [run.look for run in drawn.steps[1].runs] == ["shared", "intermediate"]


def test_signs_go_on_after_the_digits() -> None:
    lines = arena_text(plan(*((str(i), 0, 2, 16, 16 * i) for i in range(63)), steps=2)).lines()
    assert [line[0] for line in lines[:63:10]] == ["0", "a", "k", "u", "E", "O", "Y"]
    assert lines[62].startswith("0 (id=62)")


def test_no_buffers_draw_an_empty_step() -> None:
    assert arena_text(plan(steps=1)).lines()[0] == "   0: " + "." * 80 + " (0k)"

# SPDX-License-Identifier: Apache-2.0
"""A plan's placings as rectangles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.helpers.command_line import Tool
from tests.helpers.model_builder import chain
from tflm_zephyr.page.arena_map import maps, ticks


def plan(tool: Tool, *options: str) -> Any:
    Path("net.tflite").write_bytes(chain(3, 4096))
    return tool("plan", "net.tflite", "--kernels", "reference", *options, "--json").json


def test_equal_placings_are_one_map(tool: Tool) -> None:
    both = maps(plan(tool))
    assert [one.names for one in both] == [("greedy", "packed"), ("in_place", "shipped", "compiled")]
    assert [one.head_bytes for one in both] == [8192, 4096]
    assert both[1].title == "In-place = This plan = Compiled"
    alone, compiled = maps(plan(tool, "--no-in-place"))
    assert alone.names == ("greedy", "packed", "in_place", "shipped")
    assert compiled.names == ("compiled",)
    assert compiled.head_bytes == 4096


def test_rectangles_are_the_buffers(tool: Tool) -> None:
    found = plan(tool)
    stock, own = maps(found)
    assert [(r.x, r.width, r.height) for r in stock.rectangles] == [(k, 2 if k < 3 else 1, 4096) for k in range(4)]
    assert [r.kind for r in stock.rectangles] == ["input", "intermediate", "intermediate", "output"]
    assert stock.shared == () and stock.peak_steps == (1, 2, 3)
    assert [(r.index, r.x, r.width, r.y, r.height) for r in own.shared] == [(k, k, 1, 0, 4096) for k in (1, 2, 3)]
    assert [placing["steps"] for placing in found["placings"]] == [[None, [0, 0], [0, 1], [0, 2]]] * 5


def test_ticks_are_round() -> None:
    assert ticks(55296) == [0, 16384, 32768, 49152]
    assert ticks(0) == [0]

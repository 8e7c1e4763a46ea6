# SPDX-License-Identifier: Apache-2.0
"""Results on a terminal: as wide as it is, in colour unless that is not wanted."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from tests.helpers.command_line import Tool
from tests.helpers.model_builder import chain
from tflm_zephyr.cli.report import terminal
from tflm_zephyr.page.arena_text import ArenaStep, ArenaText, Run

COST = {"name": "RELU", "least": 90, "median": 100, "most": 110}
PROFILE = {
    "operators": [COST, COST],
    "total": {**COST, "name": "all operators", "median": 200},
    "changes": [{"operator": 0, "name": "RELU", "before": 50, "after": 100, "slower": True}],
}
FOOTPRINT = {
    "regions": [{"name": "FLASH", "used_bytes": 1500}, {"name": "RAM", "used_bytes": 0}],
    "parts": {"kernels": {"FLASH": 1000}, "libc": {"FLASH": 500}},
}


def shown(drawn: terminal.Drawn, width: int, *, colour: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, no_color=not colour, highlight=False)
    console.print(drawn)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def plain(drawn: terminal.Drawn, width: int) -> list[str]:
    return [Text.from_ansi(line).plain for line in shown(drawn, width).splitlines()]


@pytest.mark.parametrize("width", [60, 100, 200])
def test_bars_take_the_rest_of_the_width(width: int) -> None:
    figures = [("greedy", 4000, "a note"), ("this plan", 2000, ""), ("tail", 100, "")]
    for drawn in (
        terminal.plan(figures, ["before"], ["after"]),
        terminal.profile(PROFILE, ["before"], []),
        terminal.footprint(FOOTPRINT, []),
    ):
        assert max(map(len, plain(drawn, width))) <= width
    lines = plain(terminal.plan(figures, ["before"], ["after"]), width)
    assert lines[0].rstrip() == "before" and lines[-1].rstrip() == "after"
    bars = [line.count("█") + line.count("▌") / 2 for line in lines[1:4]]
    assert bars[0] == pytest.approx(2 * bars[1], abs=1) and bars[0] >= 8 and bars[2] == 0


def test_a_profile_has_its_numbers() -> None:
    lines = plain(terminal.profile(PROFILE, [], ["verdict"]), 80)
    assert lines[0].split()[:3] == ["0", "RELU", "100"] and lines[0].split()[-4:] == ["50.0", "%", "+100.0", "%"]
    assert lines[2].split()[:3] == ["all", "operators", "200"]


def test_in_place_pairs_are_green() -> None:
    runs = (Run("0", 2, "input"), Run("=", 2, "shared"), Run(".", 4, "free"))
    drawn = terminal.arena(ArenaText(("0 (id=0): size=1  x" * 20,), (ArenaStep(1, runs, 1000),), "legend"))
    assert "\x1b[36m00" in shown(drawn, 80, colour=True) and "\x1b[1;32m==" in shown(drawn, 80, colour=True)
    assert not re.search(r"\x1b\[[\d;]*3\d", shown(drawn, 80))
    assert plain(drawn, 80)[0].endswith("…") and plain(drawn, 80)[1:] == ["   1: 00==.... (1k)", "legend"]


def test_commands_draw_on_a_terminal_alone(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("net.tflite").write_bytes(chain(3, 4096))
    asked = ("plan", "net.tflite", "--map", "--kernels", "reference")
    text = tool(*asked).out
    assert "  greedy            8192  TFLM's own placing" in text and "   1: " + "=" * 80 + " (4k)" in text
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    drawn = "\n".join(Text.from_ansi(line).plain for line in tool(*asked).out.splitlines())
    assert "8,192  █" in drawn and "   1: " + "=" * 104 + " (4k)" in drawn
    fits = Text.from_ansi(tool("fit", "net.tflite").out).plain
    assert "nrf9160dk/nrf9160/ns  flash  █" in fits
    assert tool(*asked, "--json").json["document"] == "plan"

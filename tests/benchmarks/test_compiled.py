# SPDX-License-Identifier: Apache-2.0
"""The table of the interpreter beside compiled code: kept rows, ratios and goals, without a build."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.compiled import COLD, Rows, Verdict, Way, lines
from tflm_zephyr.errors import ToolError

INTERPRETED = Way(arena=82_384, flash=300_000, ram=90_000, instructions=1000, build_s=100.0, equal=True)
COMPILED = Way(arena=36_880, flash=210_000, ram=40_000, instructions=1005, build_s=20.0, equal=True)


def test_rows_are_kept_and_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    Rows.read(path, "Zephyr 4.1.0").add("board model compiled", COMPILED)
    assert Rows.read(path, "Zephyr 4.1.0").ways == {"board model compiled": COMPILED}


def test_rows_of_other_sources_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    Rows.read(path, "Zephyr 4.1.0").add("board model compiled", COMPILED)
    with pytest.raises(ToolError, match="Name another file"):
        Rows.read(path, "Zephyr 4.2.0")


@pytest.mark.parametrize("text", ["", "[]", '{"rows": {"a": {"arena": "no"}}}'])
def test_a_file_of_something_else_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text(text)
    with pytest.raises(ToolError, match="no rows of this benchmark"):
        Rows.read(path, "Zephyr 4.1.0")


def test_goals_are_counted_and_missed_ones_named() -> None:
    verdict = Verdict()
    shown = lines("person_detect", COLD, INTERPRETED, COMPILED, verdict)
    assert len(shown) == 3
    assert "of stock's 82,320 0.448 (goal 0.46: met)" in shown[2]
    assert (verdict.met, verdict.missed) == (6, [])
    lines("person_detect", COLD, INTERPRETED, replace(COMPILED, instructions=1100), verdict)
    assert (verdict.met, verdict.missed) == (11, [f"person_detect on {COLD}: instructions 1.1000, goal 1.01"])


def test_goals_of_one_board_are_not_anothers() -> None:
    small = replace(COMPILED, arena=32, flash=290_000, instructions=None, build_s=None)
    here, there = Verdict(), Verdict()
    lines("hello_world", COLD, INTERPRETED, small, here)
    lines("hello_world", "mps2/an386", INTERPRETED, small, there)
    assert here.missed == [f"hello_world on {COLD}: flash 0.9667, goal 0.65"]
    assert there.missed == []

# SPDX-License-Identifier: Apache-2.0
"""benchmarks/evaluate.py shows the gain of several jobs."""

from __future__ import annotations

import pytest

from benchmarks import evaluate
from tests.helpers.command_line import tool
from tests.helpers.slow_sessions import Bench, bench

__all__ = ["bench", "tool"]


def test_the_gain_is_shown(bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(evaluate, "open_session", bench.open)
    assert evaluate.main(["demo", "--data", "d.npz", "--jobs", "1,3", "--rounds", "1"]) == 0
    said = capsys.readouterr().out
    assert "24 samples of d.npz" in said and "results equal" in said and len(bench.sessions) == 4
    # The gain is that inside a round: in the last the whole machine was slow.
    assert evaluate.table({1: [10.0, 9.0, 40.0], 2: [5.0, 4.0, 30.0]}, 100)[1:] == [
        "   1    10.00       9.00-40.00       10.0   1.00",
        "   2     5.00       4.00-30.00       20.0   2.00",
    ]


@pytest.mark.parametrize("argv", [["--jobs", "0"], ["--jobs", "1,x"], ["--rounds", "0"]])
def test_numbers_are_whole_and_above_0(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        evaluate.main(["demo", *argv])
    assert "invalid" in capsys.readouterr().err

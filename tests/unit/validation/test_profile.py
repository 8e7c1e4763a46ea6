# SPDX-License-Identifier: Apache-2.0
"""Ticks by operator: the table, the gate, the trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.session import FakeSession, hello_of
from tests.helpers.command_line import Tool
from tests.helpers.model_builder import chain
from tflm_zephyr.cli.commands import targets
from tflm_zephyr.device.session.base import OperatorInfo, Profile
from tflm_zephyr.errors import DeviceError, ToolError
from tflm_zephyr.model.reader import parse_model
from tflm_zephyr.validation import profile

TICKS = ((100, 20, 3), (104, 20, 2), (101, 22, 2))
MODEL = parse_model(chain(3, 16))


def measured(ticks: tuple[tuple[int, ...], ...] = TICKS, **more: Any) -> profile.MeasuredProfile:
    hello = hello_of(MODEL, **more)
    return profile.measured(hello, Profile(("RELU",) * 3, ticks, hello.device.hz))


def test_ticks_are_instructions_where_they_repeat() -> None:
    found = measured()
    assert (found.unit, found.resolution, found.runs) == ("instructions", 40, 3)
    assert [(c.least, c.median, c.most) for c in found.operators] == [
        (4000, 4040, 4160),
        (800, 800, 880),
        (80, 80, 120),
    ]
    assert (found.total.least, found.total.median, found.total.most) == (4920, 5000, 5040)
    other = measured(instructions_per_tick=50, hz=20_000_000)
    assert other.operators[0].median == 5050


def test_a_board_counts_ticks() -> None:
    found = measured(instructions_per_tick=None, hz=64_000_000)
    assert (found.unit, found.resolution, found.operators[0].median) == ("ticks", 1, 101)


def test_operators_inside_others_count_once() -> None:
    operators = (OperatorInfo(0, "WHILE", 0, 0), OperatorInfo(1, "LESS", 1, 0), OperatorInfo(2, "ADD", 2, 0))
    found = measured(operators=operators)
    assert found.total.median == 101 * 40 and len(found.operators) == 3


def test_where_nothing_counts() -> None:
    with pytest.raises(DeviceError, match="nothing counts ticks there"):
        measured(where="host", hz=0)
    with pytest.raises(DeviceError, match="other operators than the model has"):
        measured(((1, 2),))
    with pytest.raises(DeviceError, match="other operators than the model has"):
        measured(())


def slower(before: tuple[int, ...], after: tuple[int, ...], share: float = 0.02) -> list[object]:
    changes = profile.compare_profiles(measured((after,)), measured((before,)), "base", share)
    return [change.number for change in changes if change.slower]


def test_the_gate() -> None:
    assert slower((1000, 500, 2), (1000, 500, 2)) == []
    assert slower((1000, 500, 2), (1020, 500, 2)) == []  # just 2 %
    assert slower((1000, 500, 2), (1021, 500, 2)) == [0]
    assert slower((1000, 500, 2), (1000, 500, 3)) == []  # a step of the clock is chance
    assert slower((1000, 500, 2), (1000, 500, 4)) == [2]
    assert slower((1000, 500, 2), (900, 700, 2)) == [1, None]
    assert slower((1000, 500, 2), (1000, 505, 2), 0.0) == [1, None]
    assert slower((1000, 500, 0), (1000, 500, 5)) == [2]
    assert slower((1000, 500, 2), (500, 400, 1)) == []


@pytest.mark.parametrize("change", [{"board": "x"}, {"hz": 5}, {"instructions_per_tick": None}])
def test_profiles_of_another_kind_are_not_compared(change: dict[str, Any]) -> None:
    with pytest.raises(ToolError, match=r"^base: is a profile with "):
        profile.compare_profiles(measured(), measured(**change), "base", 0.02)


def test_profiles_of_other_operators_are_not_compared() -> None:
    hello = hello_of(MODEL)
    other = profile.measured(hello, Profile(("RELU", "RELU6", "RELU"), TICKS, hello.device.hz))
    with pytest.raises(ToolError, match=r"other operators \(3: RELU, RELU6, RELU\)"):
        profile.compare_profiles(measured(), other, "base", 0.02)


@pytest.mark.parametrize("deterministic", [True, False])
def test_the_trace_nests_operators_in_runs(deterministic: bool) -> None:
    hello = hello_of(MODEL, hz=20_000_000, instructions_per_tick=50 if deterministic else None)
    raw = json.loads(profile.trace(hello, Profile(("A", "B", "C"), TICKS, hello.device.hz)))
    events = raw["traceEvents"]
    assert [event["name"] for event in events if event["ph"] == "X"] == ["run 0", "A", "B", "C", "run 1", "A", "B", "C",
                                                                         "run 2", "A", "B", "C"]  # fmt: skip
    runs = [event for event in events if event.get("cat") == "run"]
    for run in runs:
        inside = [e for e in events if e.get("cat") == "operator" and run["ts"] <= e["ts"] < run["ts"] + run["dur"]]
        assert len(inside) == 3 and sum(e["dur"] for e in inside) == pytest.approx(run["dur"])
    first = next(event for event in events if event["name"] == "A")
    assert first["dur"] == 5.0  # 100 ticks: 5,000 instructions, each shown as a nanosecond; or 5 µs
    assert first["args"] == {"operator": 0, "instructions": 5000} if deterministic else {"operator": 0, "ticks": 100}
    assert ("1 ns stands for 1 instruction" in events[0]["args"]["name"]) is deterministic


def test_a_profile_reads_back_and_others_do_not(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps({**profile.as_json(measured()), "changes": []}))
    assert profile.load_profile(path) == measured()
    good = profile.as_json(measured())
    bad: list[Any] = [[], {}, {**good, "version": 2}, {**good, "operators": 3}, {**good, "more": 1}, 7, None]
    bad.append({**good, "total": {"name": "t", "least": 1, "median": "2", "most": 3}})
    bad.append({**good, "total": {"name": 5, "least": 1, "median": 2, "most": 3}})
    bad += [{**good, name: 5} for name in ("model", "sha256", "board", "kernels", "unit")]
    bad += [{**good, name: value} for name in ("hz", "resolution", "runs") for value in ("1", 0, True, 1.5, None)]
    for raw in bad:
        path.write_text(json.dumps(raw))
        with pytest.raises(ToolError, match=r"p\.json: is no profile \("):
            profile.load_profile(path)
    path.write_text("{")
    with pytest.raises(ToolError, match="is no profile"):
        profile.load_profile(path)
    with pytest.raises(ToolError, match="no such file"):
        profile.load_profile(tmp_path / "none.json")


@pytest.fixture
def device(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> list[FakeSession]:
    Path("net.tflite").write_bytes(MODEL.data)
    made = [FakeSession(MODEL.data, ticks=TICKS)]
    monkeypatch.setattr(targets, "open_session", lambda target, **more: made[-1])
    return made


ASKED = ("profile", "--port", "p", "--tflite", "net.tflite", "--runs", "3")


def test_the_table(tool: Tool, device: list[FakeSession]) -> None:
    done = tool(*ASKED, "-o", "base.json", "--trace", "t.json")
    assert done.code == 0, done
    assert done.out.splitlines()[1:6] == [
        "  instructions, 3 runs",
        "     operator         min  median    max    share",
        "  0  RELU           4,000   4,040  4,160   80.8 %",
        "  1  RELU             800     800    880   16.0 %",
        "  2  RELU              80      80    120    1.6 %",
    ]
    assert done.out.splitlines()[6] == "     all operators  4,920   5,000  5,040  100.0 %"
    assert "µs" not in done.out
    assert len(json.loads(Path("t.json").read_text())["traceEvents"]) == 14
    device.append(FakeSession(MODEL.data, ticks=TICKS, instructions_per_tick=None, hz=1_000_000))
    assert "median µs" in tool(*ASKED).out and "101.0" in tool(*ASKED).out


def test_the_gate_on_the_command_line(tool: Tool, device: list[FakeSession]) -> None:
    assert tool(*ASKED, "-o", "base.json").code == 0
    same = tool(*ASKED, "--baseline", "base.json", "--max-regression", "2%")
    assert same.code == 0 and "Nothing is slower than the baseline by more than 2 %." in same.out
    device.append(FakeSession(MODEL.data, ticks=((100, 33, 2),)))
    worse = tool(*ASKED, "--baseline", "base.json")
    assert worse.code == 1 and worse.err == ""
    assert (
        "SLOWER than the baseline by more than 2 %: operator 1 (RELU) by 65.0 %, all operators by 8.0 %." in worse.out
    )
    assert tool(*ASKED, "--baseline", "base.json", "--max-regression", "0.7").code == 0
    base = json.loads(Path("base.json").read_text())
    Path("other.json").write_text(json.dumps({**base, "model": "other"}))
    assert "note: the baseline's model is other, not net" in tool(*ASKED, "--baseline", "other.json").out
    base["operators"][0]["median"] = 10**400
    Path("huge.json").write_text(json.dumps(base))
    assert (
        "is no profile (operators[0].median wants a whole number from 0 to 18446744073709551615, not 1000"
        in tool(*ASKED, "--baseline", "huge.json").one_line()
    )
    plain = tool(*ASKED, "--baseline", "base.json", "--json")
    assert plain.code == 1 and plain.json["changes"][1] == {
        "operator": 1, "name": "RELU", "before": 800, "after": 1320, "slower": True
    }  # fmt: skip


def test_what_is_wrong_is_one_line(tool: Tool, device: list[FakeSession]) -> None:
    assert "needs a profile to compare with" in tool(*ASKED, "--max-regression", "2%").one_line()
    assert "none.json: no such file" in tool(*ASKED, "--baseline", "none.json").one_line()
    assert "the .tflite file is needed here" in tool("profile", "--port", "p").one_line()
    device.append(FakeSession(MODEL.data, where="host"))
    assert "nothing counts ticks there" in tool(*ASKED).one_line()
    assert tool(*ASKED, "--max-regression", "fast").code == 2
    assert "4 means 400 %: write 4% or 400%" in tool(*ASKED, "--max-regression", "4").err
    assert "needs a profile to compare with" in tool(*ASKED, "--max-regression", "400%").one_line()
    assert device[-1].closed

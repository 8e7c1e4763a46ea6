# SPDX-License-Identifier: Apache-2.0
"""Data sets through one session and several: the same result, whoever ran what, and nothing lost on the way."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.command_line import Tool
from tests.helpers.slow_sessions import COUNT, Bench, Slow, answer, bench
from tests.helpers.small_models import dense
from tflm_zephyr.cli.commands import targets
from tflm_zephyr.cli.progress import progress
from tflm_zephyr.device.console.result import Arena
from tflm_zephyr.device.transport.target import DeviceTarget
from tflm_zephyr.errors import DeviceError, ModelFailedError, ToolError
from tflm_zephyr.validation.evaluation import running as evaluation_run
from tflm_zephyr.validation.evaluation import state
from tflm_zephyr.validation.evaluation.pool import Pool, SampleDone, SessionLost
from tflm_zephyr.validation.evaluation.running import RunEvents, run_all, tick_statistics
from tflm_zephyr.validation.evaluation.state import SampleResult

__all__ = ["bench"]

INPUTS = [(bytes([k, 0, 0, 0]),) for k in range(COUNT)]


def run(bench: Bench, jobs: int, kept: Path | None = None, build: str = "", **more: Any) -> tuple[SampleResult, ...]:
    with Pool([bench.open] * jobs) as pool:
        return run_all(pool, pool.hello(), INPUTS, kept, build=build, events=RunEvents(**more))


WANT = tuple(SampleResult(answer(given)[0], 5) for given in INPUTS)


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_the_result_is_the_same_with_any_number_of_sessions(jobs: int) -> None:
    bench = Bench()
    assert run(bench, jobs) == WANT
    assert len(bench.sessions) == jobs and all(session.closed for session in bench.sessions)
    assert sum(session.done.count("invoke") for session in bench.sessions) == COUNT
    for session in bench.sessions:
        assert session.done[::2] == ["reset"] * (len(session.done) // 2)


def test_one_of_several_that_is_lost_hands_its_sample_back() -> None:
    lost: list[ToolError] = []
    bench = Bench({"fails_after": 3}, {})
    assert run(bench, 2, lost=lost.append) == WANT
    assert len(lost) == 1 and "the port is gone" in str(lost[0])


def test_when_none_is_left_the_rest_is_done_the_next_time(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    with pytest.raises(DeviceError, match=r"port is gone\. 10 of 24 samples are done: .*--resume .*kept\.json"):
        run(Bench({"fails_after": 4}, {"fails_after": 6}), 2, kept)
    started: list[int] = []
    bench = Bench()
    assert run(bench, 1, kept, start=started.append) == WANT
    assert started == [10] and bench.sessions[0].done.count("invoke") == 14
    whole = kept.read_bytes()
    again = Bench()
    assert run(again, 2, kept) == WANT and kept.read_bytes() == whole
    assert all(session.done == [] for session in again.sessions)
    run(Bench(), 3, tmp_path / "other.json")
    assert (tmp_path / "other.json").read_bytes() == whole
    with pytest.raises(DeviceError, match="with --resume FILE they are kept"):
        run(Bench({"fails_after": 1}), 1)


def test_an_interrupt_keeps_what_is_done_and_closes_all(tmp_path: Path) -> None:
    bench, kept, count = Bench(), tmp_path / "kept.json", 0

    def interrupt() -> None:
        nonlocal count
        count += 1
        if count == 5:
            raise KeyboardInterrupt

    said: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        run(bench, 2, kept, sample=interrupt, interrupt=said.append)
    assert said == [f"5 of 24 samples are done: run it again with --resume {kept} to go on"]
    assert len(json.loads(kept.read_text())["results"]) == 5
    assert all(session.closed for session in bench.sessions)
    assert run(Bench(), 2, kept) == WANT


def test_it_is_kept_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation_run, "_SAVE_EVERY_S", 0.0)
    counts: list[int] = []
    kept = tmp_path / "kept.json"

    def look() -> None:
        counts.append(len(json.loads(kept.read_text())["results"]) if kept.exists() else 0)

    run(Bench(), 1, kept, sample=look)
    assert counts == list(range(COUNT))


def test_a_sample_the_model_fails_on_is_not_passed_on(tmp_path: Path) -> None:
    class Failing(Slow):
        def invoke(self, inputs: Sequence[bytes]):  # type: ignore[no-untyped-def]
            if inputs[0][0] == 4:
                failed.append(1)
                raise ModelFailedError("Invoke failed", where=self.hello.link)
            return super().invoke(inputs)

    failed: list[int] = []
    said = r"^sample 4, QEMU mps2-an385: Invoke failed\. .* samples are done"
    with pytest.raises(ModelFailedError, match=said), Pool([Failing] * 3) as pool:
        run_all(pool, pool.hello(), INPUTS, tmp_path / "kept.json")
    assert failed == [1]


@pytest.mark.parametrize(("jobs", "ended"), [(1, 1), (2, 2), (4, 2)])
def test_a_sample_that_ends_two_devices_gets_no_third(jobs: int, ended: int) -> None:
    class Crashing(Slow):
        def invoke(self, inputs: Sequence[bytes]):  # type: ignore[no-untyped-def]
            if inputs == INPUTS[5]:
                crashes.append(self)
                raise DeviceError("the app crashed", where=self.hello.link)
            return super().invoke(inputs)

    crashes: list[Crashing] = []
    with Pool([Crashing] * jobs) as pool, pytest.raises(DeviceError, match=r"sample 5, .*: the app crashed"):
        run_all(pool, pool.hello(), INPUTS, None)
    assert len(crashes) == ended


def test_sessions_that_do_not_open_or_are_not_alike() -> None:
    bench = Bench({}, {"error": DeviceError("no QEMU")})
    with pytest.raises(DeviceError, match="no QEMU"):
        run(bench, 2)
    assert all(session.closed for session in bench.sessions)
    with pytest.raises(DeviceError, match=r"has hz (2, QEMU mps2-an385 has 25000000|25000000, other has 2)\."):
        run(Bench({}, {"hz": 2, "link": "other"}), 2)


def test_a_bug_is_no_lost_device() -> None:
    with pytest.raises(ZeroDivisionError):
        run(Bench({"error": ZeroDivisionError()}), 1)


def test_what_comes_is_each_sample_once() -> None:
    bench = Bench({"fails_after": 0}, {})
    with Pool([bench.open] * 2) as pool:
        pool.hello()
        said = list(pool.run([(k, INPUTS[k]) for k in range(6)]))
    assert sorted(item.index for item in said if isinstance(item, SampleDone)) == list(range(6))
    assert sum(isinstance(item, SessionLost) for item in said) <= 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda raw: raw.update(key="x"), "of another model, build, board or data set"),
        (lambda raw: raw.update(count=3), "of another model, build, board or data set"),
        (lambda raw: raw["results"].update({"99": ["00", 1]}), "do not fit the model"),
        (lambda raw: raw["results"].update({"1": ["00", 1]}), "do not fit the model"),
        (lambda raw: raw["results"].update({"1": ["zz", 1]}), "holds no results"),
        (lambda raw: raw["results"].update({"1": 5}), "holds no results"),
        (
            lambda raw: raw["results"].update({"1": ["00" * 8, float("inf")]}),
            r"holds no results to go on from .results\[.1.\]\[1\] wants a whole number, not inf",
        ),
        (
            lambda raw: raw["results"].update({"1": ["00" * 8, -5]}),
            r"results\[.1.\]\[1\] wants a whole number from 0 to 18446744073709551615, not -5",
        ),
        (
            lambda raw: raw["results"].update({"1": ["00" * 8, 1.7]}),
            r"results\[.1.\]\[1\] wants a whole number, not 1.7",
        ),
        (lambda raw: raw.pop("version"), "holds no results"),
        (lambda raw: raw.clear(), "holds no results"),
    ],
)
def test_kept_results_of_something_else_are_refused(tmp_path: Path, change: Any, said: str) -> None:
    kept = tmp_path / "kept.json"
    state.save_state(kept, "k", 2, {0: SampleResult(bytes(8), 1)})
    assert state.load_state(kept, "k", 2, 8) == {0: SampleResult(bytes(8), 1)}
    raw = json.loads(kept.read_text())
    change(raw)
    kept.write_text(json.dumps(raw))
    with pytest.raises(ToolError, match=said):
        state.load_state(kept, "k", 2, 8)
    kept.write_text("not json")
    with pytest.raises(ToolError, match="holds no results"):
        state.load_state(kept, "k", 2, 8)


@pytest.mark.parametrize(
    "other",
    [
        {"tflm": "1" * 40},
        {"zephyr": "4.2.0"},
        {"app": "other"},
        {"instructions_per_tick": None},
        {"arena": Arena(4096, 2000, 1000, 1000, "given")},
    ],
)
def test_kept_results_of_another_firmware_are_refused(tmp_path: Path, other: dict[str, Any]) -> None:
    kept = tmp_path / "kept.json"
    run(Bench(), 1, kept)
    assert run(Bench({"link": "another port"}), 1, kept) == WANT
    with pytest.raises(ToolError, match="of another model, build, board or data set"):
        run(Bench(other), 1, kept)


def test_kept_results_of_another_build_are_refused(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    run(Bench(), 1, kept, build="one")
    with pytest.raises(ToolError, match="of another model, build, board or data set"):
        run(Bench(), 1, kept, build="two")


def test_the_99th_percentile_is_by_nearest_rank() -> None:
    assert tick_statistics(range(1, 101)).p99 == 99 and tick_statistics(range(1, 101)).mean == 50.5
    assert tick_statistics([7]).p99 == 7 and tick_statistics([1, 9]).p99 == 9 and tick_statistics([3, 1]).largest == 3


def test_a_bar_is_for_terminals(capfd: pytest.CaptureFixture[str]) -> None:
    with progress(4, "net", "sample") as bar:
        bar.skip(2)
        bar.update()
    assert capfd.readouterr() == ("", "")


def test_a_bar_shows_rate_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with progress(400, "net", "sample") as bar:
        bar.skip(200)
        time.sleep(0.2)
        bar.update()
    assert "net:  50%" in terminal.getvalue() and "200/400" in terminal.getvalue() and "sample/s" in terminal.getvalue()


def test_the_command_line_counts_and_draws(tool: Tool, bench: Bench) -> None:
    done = tool("evaluate", "d.npz", "--app", "demo", "-j", "2")
    assert done.code == 0, done
    lines = done.out.splitlines()
    assert lines[1] == "  d.npz: 23 of 24 right, accuracy 95.83 %"
    assert lines[3].split() == list("01234567") and lines[9].split() == ["5", "0", "0", "0", "1", "0", "3", "0", "0"]
    assert lines[-1] == "  a run takes 200 instructions on average, 99 % of runs 200 instructions at most"
    one = tool("evaluate", "d.npz", "--app", "demo", "--json").json
    assert one | {"command": []} == tool("evaluate", "d.npz", "--app", "demo", "--json", "-j", "3").json | {
        "command": []
    }
    assert one["predictions"] == [k % 8 for k in range(COUNT)]
    (case,) = one["worst"]
    assert (case["sample"], case["truth"], case["predicted"], case["score"] > 0) == (3, 5, 3, True)
    assert case["input"]["kind"] == "values" and case["input"]["elements"] == 4 and one["float"] is None


def test_which_of_several_outputs_is_judged_is_said(tool: Tool, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ("evaluate", "d.npz", "--app", "demo")
    assert "is evaluated" not in tool(*asked).out
    one = tool(*asked, "--json").json

    class Two(Slow):
        def __init__(self, **more: Any) -> None:
            super().__init__(**more)
            self._hello = replace(self.hello, outputs=self.hello.outputs * 2)

    monkeypatch.setattr(targets, "open_session", lambda target, **more: Two())
    assert "  note: only output 0 of 2, y, is evaluated" in tool(*asked).out
    two = tool(*asked, "--json").json
    assert two["output"] == "y" and two == one


def test_results_of_a_rebuilt_elf_are_not_resumed(tool: Tool, bench: Bench, fixed_reference: None) -> None:
    Path("net.tflite").write_bytes(dense())
    assert tool("generate", "net.tflite", "-o", "demo", "--host-link", "--board", "mps2/an385").code == 0
    elf = Path("demo", "build", "mps2_an385", "zephyr", "zephyr.elf")
    elf.parent.mkdir(parents=True)
    elf.write_bytes(b"one")
    asked = ("evaluate", "d.npz", "--app", "demo", "--resume", "kept.json")
    assert tool(*asked).code == 0 and tool(*asked, "-j", "2").code == 0
    elf.write_bytes(b"two")
    assert "kept.json: holds results of another model, build" in tool(*asked).one_line()


def test_boards_at_several_ports(tool: Tool, bench: Bench) -> None:
    assert tool("evaluate", "d.npz", "--port", "a", "--port", "b").code == 0
    assert len(bench.sessions) == 2


def test_boards_by_their_serial_numbers(tool: Tool, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[DeviceTarget] = []
    monkeypatch.setattr(targets, "open_session", lambda target, **more: found.append(target) or bench.open())
    assert tool("evaluate", "d.npz", "--dev-id", "7", "--dev-id", "42").code == 0
    assert sorted((target.port, target.usb_serial) for target in found) == [("auto", "42"), ("auto", "7")]
    assert "--dev-id: a port is named already" in tool("evaluate", "d.npz", "--port", "a", "--dev-id", "7").one_line()
    assert "one port or recording serves one job" in tool("evaluate", "d.npz", "--dev-id", "7", "-j", "2").one_line()


def test_values_instead_of_classes(tool: Tool, bench: Bench) -> None:
    with np.load("d.npz") as arrays:
        np.savez("r.npz", x=arrays["x"], y=np.zeros((COUNT, 8), np.float32))
    done = tool("evaluate", "r.npz", "--app", "demo")
    assert "r.npz: 24 samples, mean absolute error 0.5625, largest 4.5" in done.out


def folders(**files: str) -> None:
    for name, values in files.items():
        Path("data", name).mkdir(parents=True)
        Path("data", name, "a.csv").write_text(values)


def test_folders_are_classes(tool: Tool, bench: Bench) -> None:
    folders(**{"0": "0 0 0 0", "2": "2 0 0 0\n10 0 0 0", "7": "0 0 0 0"})
    asked = ("evaluate", "data", "--app", "demo", "--raw", "--json")
    found = tool(*asked).json
    assert found["labels"] == list("01234567") and found["predictions"] == [0, 2, 2, 0]
    assert found["correct"] == 3 and found["confusion"][7][0] == 1
    Path("labels.txt").write_text("7\n1\n2\n3\n4\n5\n6\n0\n")
    found = tool(*asked, "--labels", "labels.txt").json
    assert found["correct"] == 3 and found["confusion"][7][0] == 1 and found["labels"][7] == "0"
    Path("data", "7", "b.csv").write_text("1 2 3")
    assert "data/7/b.csv, line 1: holds 3 numbers, the model takes 4" in tool(*asked).one_line()
    Path("data", "7", "b.csv").unlink()
    Path("data", "cat").mkdir()
    assert "has the folder cat, which is no label" in tool(*asked, "--labels", "labels.txt").one_line()
    assert "has 4 folders, the model has 8 classes" in tool(*asked).one_line()


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["none.npz", "--app", "a"], "none.npz: No such file"),
        (["bare.npz", "--app", "a"], "bare.npz: has no array y"),
        (["high.npz", "--app", "a"], "y runs from 0 to 8, the model has 8 classes"),
        (["d.npz", "--port", "a", "-j", "2"], "one port or recording serves one job"),
        (["d.npz", "--port", "a", "--port", "b", "-j", "3"], "2 ports are as many jobs"),
        (["d.npz", "--port", "a", "--resume", "d.npz"], "d.npz: holds no results to go on from"),
        (["empty", "--app", "a"], "empty: holds no folders with files"),
        (["d.npz", "--port", "a", "--resume", "empty"], "empty: cannot be read (Is a directory). Name another file"),
        (["d.npz", "--host", "m.tflite", "--record", "r"], "--record is for a link, and no bytes go over one there"),
    ],
)
def test_what_is_wrong_is_one_line(tool: Tool, bench: Bench, argv: list[str], said: str) -> None:
    Path("empty").mkdir()
    with np.load("d.npz") as arrays:
        np.savez("bare.npz", x=arrays["x"])
        np.savez("high.npz", x=arrays["x"], y=np.arange(COUNT) % 9)
    assert said in tool("evaluate", *argv).one_line()
    assert all(session.closed and "invoke" not in session.done for session in bench.sessions)

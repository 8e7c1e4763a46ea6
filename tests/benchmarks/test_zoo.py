# SPDX-License-Identifier: Apache-2.0
"""benchmarks/zoo.py has a row for each way of each model, and fails where something is wrong."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import zoo
from tests.helpers.small_models import dense, unary
from tflm_zephyr.codegen import AppRequest, Generated, generate
from tflm_zephyr.errors import BuildError
from tflm_zephyr.host import HostRun, available, run_many
from tflm_zephyr.tflm import tflm_of

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the program on a folder with a model that TFLM runs and one that it refuses: exit code and output."""
    (tmp_path / "dense.tflite").write_bytes(dense())
    (tmp_path / "hybrid.tflite").write_bytes(unary("RELU", "float32", out="int8"))

    def program(*argv: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["zoo.py", str(tmp_path), "-b", "mps2/an385", *argv])
        code = zoo.main()
        return code, capsys.readouterr().out

    return program


def rows(text: str, model: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith(f"| {model} |")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_each_way_has_a_row_and_a_refusal_one_in_all(run: Run) -> None:
    code, text = run()
    assert code == 0
    assert [row[1] for row in rows(text, "dense")] == list(zoo.WAYS)
    assert all(row[-1].startswith("generated") and row[2] and row[3] for row in rows(text, "dense"))
    (refusal,) = rows(text, "hybrid")
    assert refusal[1] == "all" and "RELU" in refusal[-1] and ".tflite" not in refusal[-1]
    assert "2 models, 1 refused in every way, 0 faults" in text


def test_the_summary_has_a_line_for_each_model(run: Run) -> None:
    code, text = run("--summary", "--models", "dense")
    (row,) = rows(text, "dense")
    assert code == 0 and row[-1] == "generated"
    assert len(row) == len(rows(text, "model")[0]) == 6
    assert rows(run("--summary", "--models", "dense", "--ways", "rows")[1], "model") == [["model", "rows", "result"]]


def test_a_bug_is_a_fault(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: AppRequest) -> Generated:
        raise IndexError("out of range")

    monkeypatch.setattr(zoo, "generate_within", broken)
    code, text = run("--models", "dense", "--ways", "compiled", "speed")
    assert code == 1
    assert rows(text, "dense")[0][-1] == "FAULT: IndexError: out of range"
    assert "dense on mps2/an385, compiled: FAULT: IndexError" in text


def test_what_never_ends_is_a_fault(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(_: AppRequest) -> Generated:
        while True:
            pass

    monkeypatch.setattr(zoo, "generate_within", endless)
    code, text = run("--models", "dense", "--ways", "compiled", "--limit", "0.5")
    assert code == 1 and rows(text, "dense")[0][-1] == "FAULT: longer than 0.5 s"


def entry(way: str, **values: int) -> zoo.Entry:
    return zoo.Entry(Path("net.tflite"), "mps2/an385", way, **values)  # type: ignore[arg-type]


def test_a_way_better_than_the_optimum_is_a_fault() -> None:
    entries = [entry("compiled", ram=90, flash=20, cycles=5), entry("ram", ram=100), entry("flash", flash=20)]
    zoo._compare(entries)
    assert [one.result for one in entries] == ["generated", "FAULT: compiled has 90", "generated"]


def test_what_is_generated_and_does_not_run_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: zoo.Zoo, __: zoo.Entry) -> None:
        raise BuildError("undeclared", where="net.cpp")

    monkeypatch.setattr(zoo.Zoo, "_ran", fails)
    park, one = zoo.Zoo(tflm_of(None), tmp_path, "zephyr", 60, None), entry("compiled")
    park._guarded(one, park._ran)
    assert one.fault and not one.refused and one.result == "FAULT: net.cpp: undeclared"


def test_other_outputs_are_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter with the app's plan beside TFLM's own, which runs on other inputs here."""
    if not available("tflm"):
        pytest.skip("needs TFLM on the host")
    (tmp_path / "dense.tflite").write_bytes(dense())
    config = zoo.PLAIN["interpreter"](zoo._config(tmp_path / "dense.tflite", "mps2/an385"))
    made = generate(AppRequest(config, tmp_path / "app", tflm_of(None), golden=False))
    assert zoo._interpreted(made) == zoo.EQUAL
    count = itertools.count()

    def changed(data: bytes, runs: list[list[bytes]]) -> HostRun:
        return run_many(data, [[bytes(len(one)) for one in runs[0]]] if next(count) else runs)

    monkeypatch.setattr(zoo, "run_many", changed)
    assert zoo._interpreted(made) == "FAULT: outputs differ"

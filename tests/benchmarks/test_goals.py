# SPDX-License-Identifier: Apache-2.0
"""The benchmarks against Zephyr's own sample and module: the files that they read and change, without a build."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import arena, link
from benchmarks.build import HITS, counted, with_new_weights
from benchmarks.common import DIGITS, HELLO_WORLD, against, environment, equals_reference, model_in_source
from benchmarks.footprint import instructions
from benchmarks.plan import planned
from benchmarks.plan_models import Layers, branches, chain, model_of
from tests.helpers.small_models import unary
from tflm_zephyr.device.console.result import Check, CheckVerdict, RunResult, SelfTestRun
from tflm_zephyr.errors import BuildError, DeviceError, ModelError
from tflm_zephyr.model.reader import parse_model


def test_model_is_read_from_a_c_array() -> None:
    text = (
        "/* made by xxd, 3 bytes { 0x99 } */\n#include <x.h>\n"
        "alignas(8) const unsigned char g_model[] = {\n\t0x1c, 0X0, 255,\n};\nconst int g_model_len = 3;\n"
    )
    assert model_in_source(text.replace("0X0", "0x0")) == bytes([0x1C, 0, 255])


@pytest.mark.parametrize("text", ["", "extern const unsigned char g_model[];", "char g_model[] = {300};"])
def test_source_without_a_model_is_said(text: str) -> None:
    with pytest.raises(BuildError, match="g_model"):
        model_in_source(text)


@pytest.mark.parametrize("path", [HELLO_WORLD, DIGITS], ids=["hello_world", "digits"])
def test_new_weights_leave_all_else(path: Path) -> None:
    data = path.read_bytes()
    changed = with_new_weights(data, 1)
    old, new = parse_model(data), parse_model(changed)
    assert len(changed) == len(data) and repr(new.subgraphs) == repr(old.subgraphs)
    pairs = [(a, b) for (_, a), (_, b) in zip(old.tensors(), new.tensors(), strict=True) if a.data != b.data]
    assert len(pairs) == 1
    before, after = pairs[0]
    assert before.data is not None and after.data is not None
    assert sorted(before.data) == sorted(after.data)
    assert with_new_weights(data, 2) not in (changed, data)


def test_no_weights_to_change_is_said() -> None:
    with pytest.raises(ModelError, match="no constant"):
        with_new_weights(unary("RELU"), 1)


def test_counters_of_ccache() -> None:
    stats = "direct_cache_hit\t3\npreprocessed_cache_hit\t4\ncache_miss\t5\nstats_updated_timestamp\t17\n"
    assert (counted(stats, HITS), counted(stats, ("cache_miss",)), counted(stats, ("other",))) == (7, 5, 0)


def test_goal_is_met_to_the_bound() -> None:
    assert against(0.58, 0.58) == "0.580 (goal 0.58: ok)"
    assert against(0.5804, 0.58).endswith("missed)")
    assert against(0.5, None) == "0.500"


def test_environment_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFLM_BENCH_A", "old")
    monkeypatch.delenv("TFLM_BENCH_B", raising=False)
    with environment(TFLM_BENCH_A=None, TFLM_BENCH_B="new"):
        assert "TFLM_BENCH_A" not in os.environ and os.environ["TFLM_BENCH_B"] == "new"
    assert os.environ["TFLM_BENCH_A"] == "old" and "TFLM_BENCH_B" not in os.environ


def _result(*runs: SelfTestRun, status: CheckVerdict = "pass") -> RunResult:
    return RunResult("app", "mps2/an385", "m", "", "cmsis_nn", "", "", None, runs, status, "qemu")


def test_instructions_are_nanoseconds_of_the_machine() -> None:
    run = SelfTestRun(0, (), (), ticks=3, hz=25_000_000)
    assert instructions(_result(run, run), 20_000_000) == 300
    with pytest.raises(DeviceError, match="no ticks"):
        instructions(_result(SelfTestRun(0, ())), 20_000_000)


def test_equal_means_every_byte() -> None:
    exact, close = Check(0, "pass", exact=True), Check(0, "pass", exact=False)
    assert equals_reference(_result(SelfTestRun(0, (), (exact, exact))))
    assert not equals_reference(_result(SelfTestRun(0, (), (exact, close))))
    assert not equals_reference(_result(SelfTestRun(0, ())))
    assert not equals_reference(_result(SelfTestRun(0, (), (exact,)), status="none"))


@pytest.mark.parametrize(
    ("smallest", "predicted", "code"), [(900, 1000, 0), (1100, 1100, 1), (900, 896, 1), (900, 1300, 1)]
)
def test_a_missed_goal_is_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, smallest: int, predicted: int, code: int
) -> None:
    """Stock needs 1000: above it, a prediction below the smallest arena, and one far above it are misses."""
    need = SimpleNamespace(arena=SimpleNamespace(bytes=predicted))
    made = SimpleNamespace(spec=SimpleNamespace(models=[need, SimpleNamespace(arena=SimpleNamespace(bytes=1000))]))
    made.prepared = [None, None]
    sizes = [
        SimpleNamespace(arena=SimpleNamespace(arena_bytes=size), measured=SimpleNamespace(odd=0))
        for size in (smallest, 1000)
    ]
    row = arena.Row("net", made, 0, *sizes)  # type: ignore[arg-type]

    def main_of(_: ArgumentParser, body: Callable[[Namespace, Any], None]) -> int:
        body(Namespace(kernels=["reference"], models=[]), SimpleNamespace(folder=None))
        return 0

    monkeypatch.setattr(arena, "main_of", main_of)
    monkeypatch.setattr(arena, "model_files", lambda folder, wanted: {})
    monkeypatch.setattr(arena, "measured_rows", lambda bench, files, library: [row])
    monkeypatch.setattr(arena, "shown", lambda row, library: "")
    assert arena.main() == code


@pytest.mark.parametrize(("shape", "other"), [(chain, False), (branches, True)])
def test_the_models_that_are_planned_have_overlaps_and_orders(
    tmp_path: Path, shape: Callable[[Layers, Random, int], None], other: bool
) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(model_of(shape, 100))
    _, found = planned(path)
    assert found["in_place_bytes"] < found["packed_bytes"] and (found["order"] is not None) == other


def test_rates_are_compared_inside_a_round() -> None:
    # In the second round all was slow; the third's echo alone met other work.
    found = [link.Round(100.0, 90.0, 95.0), link.Round(10.0, 9.0, 9.4), link.Round(50.0, 80.0, 95.0)]
    text, ratio = link.line("pty", found)
    assert ratio == 0.95
    assert text.split() == ["pty", "50", "80", "95", "0.900", "0.950", "0.94-1.90"]

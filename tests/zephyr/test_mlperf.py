# SPDX-License-Identifier: Apache-2.0
"""MLPerf Tiny's official runner drives a generated app in QEMU.

The runner is no part of this project: MLPERF_TINY names a checkout of github.com/mlcommons/tiny.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.zephyr.conftest import ROOT, Tool
from tflm_zephyr import process
from tflm_zephyr.board import load_board
from tflm_zephyr.host import run_many
from tflm_zephyr.model import load_model
from tflm_zephyr.run.qemu import qemu_argv

pytestmark = [pytest.mark.zephyr, pytest.mark.usefixtures("workspace")]

BOARD = "mps2/an385"
FILES = 12


@pytest.fixture(scope="module")
def runner() -> Path:
    if "MLPERF_TINY" not in os.environ:
        pytest.skip("needs MLPerf Tiny's runner: MLPERF_TINY names no checkout of it")
    return Path(os.environ["MLPERF_TINY"]) / "benchmark" / "runner"


@contextmanager
def on_a_pty(elf: Path) -> Iterator[str]:
    """QEMU with the first serial port on a pseudo-terminal, whose name is given."""
    qemu = load_board(BOARD).qemu
    assert qemu is not None
    argv = ["pty,id=con" if word.startswith("stdio,") else word for word in qemu_argv(qemu, elf)]
    with process.spawn(argv, merge_stderr=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            found = re.search(rb"redirected to (\S+)", line)
            if found:
                yield found[1].decode()
                return
        raise AssertionError("QEMU names no pseudo-terminal")


@pytest.fixture(scope="module")
def elf(tool: Tool, apps: Path, shared: Path) -> Path:
    """The benchmark's keyword spotting, by its own name."""
    folder = apps / "mlperf_kws"
    model = shared / "models" / "kws_ref_model.tflite"
    (apps / "mlperf.yaml").write_text(
        f"boards: [{BOARD}]\nhost_link: true\nmodels:\n  - model: {model}\n    name: kws01\n"
    )
    tool("generate", "--app", apps / "mlperf.yaml", "-o", folder)
    tool("build", folder, "--board", BOARD, "-D", "CONFIG_TFLM_APP_HOST_LINK_MLPERF=y")
    return folder / "build" / "mps2_an385" / "zephyr" / "zephyr.elf"


@pytest.fixture(scope="module")
def wanted(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[list[float]]]:
    """A data set of seeded stand-ins, and LiteRT's outputs for them."""
    model = load_model(shared / "models" / "kws_ref_model.tflite")
    main = model.main
    folder, rng = tmp_path_factory.mktemp("kws01"), random.Random(1)
    samples = [rng.randbytes(main.tensors[main.inputs[0]].size_bytes) for _ in range(FILES)]
    for index, sample in enumerate(samples):
        (folder / f"tst_{index:06d}.bin").write_bytes(sample)
    runs = run_many((shared / "models" / "kws_ref_model.tflite").read_bytes(), [[s] for s in samples], engine="litert")
    quantization = main.tensors[main.outputs[0]].quantization
    assert quantization is not None
    scale, zero = quantization.scales[0], quantization.zero_points[0]
    levels = [[byte - 256 * (byte > 127) for byte in run[0]] for run in runs.runs]
    outputs = [[(level - zero) * scale for level in row] for row in levels]
    # Every other file's class is the one that LiteRT finds.
    classes = [
        row.index(max(row)) if index % 2 == 0 else (row.index(max(row)) + 1) % 12 for index, row in enumerate(outputs)
    ]
    lines = [f"tst_{index:06d}.bin,12,{found}\n" for index, found in enumerate(classes)]
    (folder / "y_labels.csv").write_text("".join(lines))
    return folder, outputs


def run(runner: Path, elf: Path, data: Path, folder: Path, mode: str) -> dict[str, Any]:
    tests = {"a": "tests_accuracy.yaml", "p": "tests_performance.yaml"}[mode]
    with on_a_pty(elf) as port:
        done = subprocess.run(
            [sys.executable, ROOT / "tests" / "fakes" / "mlperf_runner.py", runner, port, data, runner / tests, mode],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    results: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return results


def accuracy(results: list[dict[str, Any]]) -> float:
    right = [item["infer"]["results"].index(max(item["infer"]["results"])) == int(item["class"]) for item in results]
    return sum(right) / len(right)


def test_an_accuracy_run_has_litert_s_accuracy(
    runner: Path, elf: Path, wanted: tuple[Path, list[list[float]]], tmp_path: Path
) -> None:
    data, outputs = wanted
    found = run(runner, elf, data, tmp_path, "a")
    assert (found["model"], found["profile"]) == ("kws01", "ULPMark for tinyML Firmware V0.0.1")
    assert found["name"].startswith(BOARD)
    assert len(found["results"]) == FILES
    for item, row in zip(found["results"], outputs, strict=True):
        assert item["infer"]["results"] == pytest.approx(row, abs=0.00051)
    assert accuracy(found["results"]) == 0.5


def test_a_performance_run_counts_its_time(
    runner: Path, elf: Path, wanted: tuple[Path, list[list[float]]], tmp_path: Path
) -> None:
    data, outputs = wanted
    found = run(runner, elf, data, tmp_path, "p")
    windows = [item for item in found["results"] if "infer" in item]
    assert len(windows) == 5
    for item, row in zip(windows, outputs, strict=False):
        assert item["infer"]["results"] == pytest.approx(row, abs=0.00051)
        assert item["infer"]["iterations"] == 70
        assert item["infer"]["throughput"] > 0
    # Instructions take the same time each time.
    times = [item["infer"]["elapsed_time"] for item in windows]
    assert max(times) - min(times) < 0.02 * max(times)

# SPDX-License-Identifier: Apache-2.0
"""MLPerf Tiny's official runner drives a generated app in QEMU.

The runner is no part of this project: MLPERF_TINY names a checkout of github.com/mlcommons/tiny.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.zephyr_apps import Tool
from tflm_zephyr import process
from tflm_zephyr.boards.board import load_board
from tflm_zephyr.device.transport.qemu_command import qemu_argv
from tflm_zephyr.host.run import run_many
from tflm_zephyr.model.reader import load_model
from tflm_zephyr.model.types import Tensor

pytestmark = [pytest.mark.zephyr, pytest.mark.usefixtures("workspace")]

BOARD = "mps2/an385"
FILES = 12
MODELS = {"kws01": "kws_ref_model.tflite", "ic01": "pretrainedResnet_quant.tflite", "ad01": "ad01_int8.tflite"}


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


@dataclass(frozen=True)
class Case:
    """One of the benchmark's models: samples as its data sets have them, and what the reference makes of those."""

    elf: Path
    data: Path
    results: list[list[float]]


def fed(name: str, sample: bytes, tensor: Tensor) -> bytes:
    """A sample as the model's input takes it."""
    if name == "kws01":
        return sample
    if name == "ic01":  # pixels
        return bytes(byte ^ 0x80 for byte in sample)
    assert tensor.quantization is not None
    steps = np.frombuffer(sample, np.float32) / np.float32(tensor.quantization.scales[0])
    levels = np.trunc(steps + np.copysign(np.float32(0.5), steps)) + tensor.quantization.zero_points[0]
    return np.clip(levels, -128, 127).astype(np.int8).tobytes()


def result(name: str, sample: bytes, output: np.ndarray) -> list[float]:
    """The app's answer to a sample whose real output is `output`."""
    if name == "ad01":
        return [float(np.mean((output - np.frombuffer(sample, np.float32)) ** 2))]
    return [float(value) for value in output]


@pytest.fixture(scope="module")
def cases(tool: Tool, apps: Path, shared: Path) -> Callable[[str], Case]:
    """Makes and builds an app by the benchmark's name for its model, with a data set of seeded stand-ins."""

    @cache
    def made(name: str) -> Case:
        folder, data, path = apps / f"mlperf_{name}", apps / f"data_{name}", shared / "models" / MODELS[name]
        (apps / f"{name}.yaml").write_text(
            f"boards: [{BOARD}]\nhost_link: true\nmodels:\n  - model: {path}\n    name: {name}\n"
        )
        tool("generate", "--app", apps / f"{name}.yaml", "-o", folder)
        tool("build", folder, "--board", BOARD, "-D", "CONFIG_TFLM_APP_HOST_LINK_MLPERF=y")
        data.mkdir()
        main, rng = load_model(path).main, np.random.default_rng(1)
        tensor, quantization = main.tensors[main.inputs[0]], main.tensors[main.outputs[0]].quantization
        assert quantization is not None
        samples = [
            rng.normal(0, 10, tensor.elements).astype(np.float32).tobytes()
            if name == "ad01"
            else rng.bytes(tensor.elements)
            for _ in range(FILES)
        ]
        # LiteRT rounds int8 FULLY_CONNECTED, of which ad01 is made, once where TFLM rounds twice.
        engine = "tflm" if name == "ad01" else "litert"
        runs = run_many(path.read_bytes(), [[fed(name, sample, tensor)] for sample in samples], engine=engine).runs
        levels = [np.frombuffer(run[0], np.int8).astype(float) for run in runs]
        reals = [(level - quantization.zero_points[0]) * quantization.scales[0] for level in levels]
        # Every other file's class is the one that LiteRT finds.
        classes = [(int(row.argmax()) + k % 2) % len(row) for k, row in enumerate(reals)]
        lines = []
        for number, (sample, label) in enumerate(zip(samples, classes, strict=True)):
            (data / f"tst_{number:06d}.bin").write_bytes(sample)
            window = f",{len(sample)},{len(sample)}" if name == "ad01" else ""  # one in a file
            lines.append(f"tst_{number:06d}.bin,{len(reals[0])},{label}{window}\n")
        (data / "y_labels.csv").write_text("".join(lines))
        results = [result(name, sample, real) for sample, real in zip(samples, reals, strict=True)]
        return Case(folder / "build" / "mps2_an385" / "zephyr" / "zephyr.elf", data, results)

    return made


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


@pytest.mark.parametrize("name", ["kws01", "ic01", "ad01"])
def test_an_accuracy_run_has_the_reference_s_results(
    runner: Path, cases: Callable[[str], Case], tmp_path: Path, name: str
) -> None:
    case = cases(name)
    found = run(runner, case.elf, case.data, tmp_path, "a")
    assert (found["model"], found["profile"]) == (name, "ULPMark for tinyML Firmware V0.0.1")
    assert found["name"].startswith(BOARD)
    assert len(found["results"]) == FILES
    for item, row in zip(found["results"], case.results, strict=True):
        assert item["infer"]["results"] == pytest.approx(row, abs=0.00051, rel=1e-5 if name == "ad01" else 0)
    if name != "ad01":
        assert accuracy(found["results"]) == 0.5


def test_a_performance_run_counts_its_time(runner: Path, cases: Callable[[str], Case], tmp_path: Path) -> None:
    case = cases("kws01")
    found = run(runner, case.elf, case.data, tmp_path, "p")
    windows = [item for item in found["results"] if "infer" in item]
    assert len(windows) == 5
    for item, row in zip(windows, case.results, strict=False):
        assert item["infer"]["results"] == pytest.approx(row, abs=0.00051)
        assert item["infer"]["iterations"] == 70
        assert item["infer"]["throughput"] > 0
    # Instructions take the same time each time.
    times = [item["infer"]["elapsed_time"] for item in windows]
    assert max(times) - min(times) < 0.02 * max(times)

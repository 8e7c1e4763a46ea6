# SPDX-License-Identifier: Apache-2.0
"""The size profile on real Zephyr: stacks that suffice, rebuilds of what changed, and what --debug brings back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.zephyr_apps import Tool
from tflm_zephyr.boards.main_stack import MARGIN
from tflm_zephyr.build.west import LOG_NAME
from tflm_zephyr.model.reader import load_model

pytestmark = [pytest.mark.zephyr, pytest.mark.usefixtures("workspace")]

BOARD = "mps2/an385"
DIGITS = ROOT / "samples" / "digits" / "app.yaml"


def run_with_stacks(tool: Tool, app: Path, board: str) -> dict[str, int]:
    folder = app / "build" / "stacks"
    tool("build", app, "--board", board, "--build-dir", folder, "-D", "CONFIG_INIT_STACKS=y")
    (result,) = tool("run", app, "--board", board, "--build-dir", folder, as_json=True)["results"]
    assert result["status"] == "pass"
    stacks: dict[str, int] = result["stacks"]
    return stacks


def check(stacks: dict[str, int]) -> None:
    """The margin is left whole, of the interrupts' stack more than half."""
    assert 300 < stacks["main_used_bytes"] * (1 + MARGIN) <= stacks["main_bytes"]
    assert 0 < stacks["isr_used_bytes"] * 2 <= stacks["isr_bytes"]


@pytest.mark.parametrize("kernels", ["reference", "cmsis_nn"])
@pytest.mark.parametrize("board", [BOARD, "mps2/an521/cpu0"])
def test_stacks_suffice(tool: Tool, apps: Path, board: str, kernels: str) -> None:
    app = apps / f"stacks_{kernels}"
    tool("generate", "--app", DIGITS, "-o", app, "--kernels", kernels)
    check(run_with_stacks(tool, app, board))


@pytest.mark.parametrize("kernels", ["reference", "cmsis_nn"])
@pytest.mark.parametrize(
    "model", ["person_detect", "kws_ref_model", "mnist_lstm_int8", "audio_preprocessor_int8", "hello_world_float"]
)
def test_stacks_suffice_for_stock_models(tool: Tool, apps: Path, shared: Path, model: str, kernels: str) -> None:
    app = apps / f"stacks_{model}_{kernels}"
    tool("generate", shared / "models" / f"{model}.tflite", "-o", app, "-b", BOARD, "--kernels", kernels)
    check(run_with_stacks(tool, app, BOARD))


def test_new_weights_compile_no_code_of_tflms(tool: Tool, apps: Path, tmp_path: Path) -> None:
    model = tmp_path / "net.tflite"
    data = bytearray((ROOT / "samples" / "digits" / "digits.tflite").read_bytes())
    model.write_bytes(data)
    app = apps / "weights"
    tool("generate", model, "-o", app, "-b", BOARD)
    tool("build", app, "--board", BOARD)
    weights = max(
        (
            tensor.data
            for _, tensor in load_model(model).tensors()
            if tensor.data is not None and tensor.size_bytes > 64
        ),
        key=len,
    )
    at = bytes(data).index(weights)
    data[at] ^= 1
    model.write_bytes(data)
    tool("generate", "-o", app, model)
    tool("build", app, "--board", BOARD)
    log = (app / "build" / "mps2_an385" / LOG_NAME).read_text()
    compiled = {
        Path(name).name for name in re.findall(r"Building \w+ object \S*?/([\w./-]+\.(?:cpp|cc|c|S))\.obj", log)
    }
    assert {"net_data.S", "net_golden.cpp"} <= compiled
    assert compiled - {"net_data.S", "net_golden.cpp"} <= {"isr_tables.c", "empty_file.c", "configs.c"}
    (result,) = tool("run", app, "--board", BOARD, as_json=True)["results"]
    assert result["status"] == "pass"
    assert result["sha256"] == load_model(model).sha256[: len(result["sha256"])]


def test_debug_brings_tflms_messages_back(tool: Tool, apps: Path) -> None:
    said = {}
    for profile in ([], ["--debug"]):
        app = apps / f"small{''.join(profile)}"
        tool("generate", "--app", DIGITS, "-o", app, "-b", BOARD, "--arena", "4096", *profile)
        tool("build", app, "--board", BOARD)
        said[bool(profile)] = tool("run", app, "--board", BOARD, code=1)
    assert all("AllocateTensors failed" in text and text.count("\n") == 1 for text in said.values())
    assert "Before that it printed" in said[True] and "Failed to" in said[True]
    assert "Before that it printed" not in said[False]


def test_debug_app_runs(tool: Tool, apps: Path) -> None:
    app = apps / "debug"
    tool("generate", "--app", DIGITS, "-o", app, "-b", BOARD, "--debug", "--model-data", "array")
    check(run_with_stacks(tool, app, BOARD))


def test_an_abort_is_one_line(tool: Tool, apps: Path) -> None:
    app = apps / "abort"
    tool("generate", "--app", DIGITS, "-o", app, "-b", BOARD)
    main = app / "src" / "main.cpp"
    main.write_text(
        "#include <cstdlib>\n" + main.read_text().replace("int main()\n{\n", "int main()\n{\n\tstd::abort();\n")
    )
    tool("build", app, "--board", BOARD)
    said = tool("run", app, "--board", BOARD, "--timeout", "20", code=1)
    assert said.count("\n") == 1 and "aborted" in said

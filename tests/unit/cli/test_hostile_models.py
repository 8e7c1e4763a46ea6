# SPDX-License-Identifier: Apache-2.0
"""Damaged models on the command line: each command ends in one line, or does its work where TFLM runs the model."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.helpers.checkout import SHARED
from tests.helpers.command_line import Tool
from tests.helpers.model_builder import ModelBuilder

_HOSTILE = sorted((SHARED / "hostile-models").glob("*.tflite")) if SHARED.is_dir() else []
_FAST = ("--rows", "--fast-kernels", "--kernels", "cmsis_nn")
_COMMANDS = {
    "plan": ("plan",),
    "plan --rows": ("plan", *_FAST),
    "inspect": ("inspect",),
    "fit": ("fit",),
    "generate": ("generate", "-o", "app"),
    "generate compiled": ("generate", "-o", "app", "--backend", "compiled"),
    "generate --rows": ("generate", "-o", "app", *_FAST),
    "library": ("library", "-o", "out", "--core", "cortex-m33"),
    "library --rows": ("library", "-o", "out", "--core", "cortex-m33", *_FAST),
    "report": ("report", "-o", "page.html"),
}
_TFLM_RUNS = {"r_struct"}
_LIMIT_S = 5.0  # of this process; the slowest takes 2 s, and 40 s and more without the wall


def with_longer_bias(more: int = 4) -> bytes:
    """FULLY_CONNECTED whose bias has a buffer that is longer than its tensor."""
    model = ModelBuilder()
    main = model.subgraph("main")
    source = main.tensor((1, 32), "int8", "source", scale=0.5)
    weights = main.tensor((16, 32), "int8", "weights", scale=0.25, data="random")
    bias = main.tensor((16,), "int32", "bias", scale=0.125, data=bytes(64 + more))
    result = main.tensor((1, 16), "int8", "result", scale=4.0)
    main.op("FULLY_CONNECTED", [source, weights, bias], [result], options={})
    main.inputs, main.outputs = [source], [result]
    return model.finish()


@pytest.mark.parametrize("command", _COMMANDS)
@pytest.mark.parametrize("path", _HOSTILE, ids=lambda path: path.stem)
def test_a_hostile_model_ends_in_one_line(tool: Tool, path: Path, command: str) -> None:
    name, *options = _COMMANDS[command]
    began = time.process_time()
    done = tool(name, path, *options)
    assert time.process_time() - began < _LIMIT_S
    if path.stem in _TFLM_RUNS or (path.stem == "r_rewrite" and command in ("plan", "plan --rows", "inspect")):
        assert done.code == 0, done.err
    else:
        assert path.name in done.one_line()
        assert not Path("app").exists() and not Path("out").exists() and not Path("page.html").exists()


@pytest.mark.parametrize("command", _COMMANDS)
def test_a_bias_buffer_longer_than_its_tensor_works(tool: Tool, tmp_path: Path, command: str) -> None:
    """TFLM and LiteRT read as much of it as the tensor has."""
    (tmp_path / "long.tflite").write_bytes(with_longer_bias())
    name, *options = _COMMANDS[command]
    done = tool(name, "long.tflite", *options)
    assert done.code == 0, done.err


def test_a_longer_bias_changes_no_byte_of_compiled_code(tool: Tool, tmp_path: Path) -> None:
    trees = []
    for more in (0, 4):
        (tmp_path / "long.tflite").write_bytes(with_longer_bias(more))
        out = tmp_path / f"out{more}"
        assert tool("library", "long.tflite", "-o", out, "--core", "cortex-m33", *_FAST).code == 0
        trees.append({path.name: path.read_text().splitlines() for path in out.rglob("*.cpp")})
    assert list(trees[0]) == list(trees[1]) and sum(map(len, trees[0].values())) > 50
    pairs = (pair for name, lines in trees[0].items() for pair in zip(lines, trees[1][name], strict=True))
    assert sum(one != other for one, other in pairs) <= 2  # the model's SHA-256

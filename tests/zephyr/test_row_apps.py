# SPDX-License-Identifier: Apache-2.0
"""Apps whose layers run row by row, on real Zephyr in QEMU: outputs are the reference's, a planted fault is caught."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.helpers.architectures import mobilenet
from tests.helpers.zephyr_apps import Tool

pytestmark = [pytest.mark.zephyr, pytest.mark.slow, pytest.mark.usefixtures("workspace")]

BOARDS = ("mps2/an385", "mps2/an386", "mps2/an521/cpu0")
ROW_BUFFER = re.compile(r"(\{arena \+ \d+, \d+, )(\d+)(, 0, 0\},)")


@pytest.fixture(scope="module")
def app(tool: Tool, apps: Path) -> Path:
    """A small MobileNet in an app for all boards, with most of its layers row by row."""
    model = apps / "rows.tflite"
    model.write_bytes(mobilenet(32, 0.5, colours=1))
    folder = apps / "rows"
    flags = [flag for board in BOARDS for flag in ("--board", board)]
    flags += ["--kernels", "cmsis_nn", "--backend", "compiled", "--rows", "--slower", "50", "--runs", "3"]
    tool("generate", model, "-o", folder, *flags)
    return folder


@pytest.mark.parametrize("board", BOARDS)
def test_outputs_are_those_of_the_reference(board: str, app: Path, tool: Tool) -> None:
    tool("build", app, "--board", board)
    (result,) = tool("run", app, "--board", board, as_json=True)["results"]
    assert result["status"] == "pass"


def test_a_row_buffer_one_row_too_small_fails_the_self_test(app: Path, tool: Tool) -> None:
    path = app / "tflm" / "src" / "models" / "rows_layers.cpp"
    before = path.read_text()
    buffers = [match for match in ROW_BUFFER.finditer(before) if int(match[2]) == 3]
    assert buffers, "no buffer of three rows"
    first = buffers[0]
    path.write_text(before[: first.start(2)] + "2" + before[first.end(2) :])
    try:
        tool("build", app, "--board", BOARDS[0])
        (result,) = tool("run", app, "--board", BOARDS[0], code=1, as_json=True)["results"]
        assert result["status"] == "fail"
    finally:
        path.write_text(before)


def test_a_host_sees_the_layers_that_end_segments(apps: Path, tool: Tool) -> None:
    model = apps / "linked.tflite"
    model.write_bytes(mobilenet(32, 0.5, colours=1))
    folder = apps / "linked"
    flags = ("--board", BOARDS[0], "--kernels", "cmsis_nn", "--backend", "compiled", "--rows", "--slower", "50")
    tool("generate", model, "-o", folder, *flags, "--host-link")
    tool("build", folder, "--board", BOARDS[0])
    found = tool("verify", "--app", folder, "--board", BOARDS[0], "--random", "3", as_json=True)
    assert found["equal"] == found["samples"] == 3
    path = folder / "tflm" / "src" / "models" / "linked_layers.cpp"
    text = path.read_text()
    path.write_text(text.replace("kParams = {64,", "kParams = {63,", 1))
    tool("build", folder, "--board", BOARDS[0])
    found = tool("verify", "--app", folder, "--board", BOARDS[0], "--random", "3", code=1, as_json=True)
    assert found["failure"]["operator"]["index"] > 0

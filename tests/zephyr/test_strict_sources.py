# SPDX-License-Identifier: Apache-2.0
"""The sources of a generated app, built by Zephyr, under warnings that Zephyr itself does not turn on."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.helpers.architectures import mobilenet
from tests.helpers.zephyr_apps import Tool, generate_app

pytestmark = [pytest.mark.zephyr, pytest.mark.slow, pytest.mark.usefixtures("workspace")]

BOARD = "mps2/an386"
FLAGS = ("-Wall", "-Wextra", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Wpedantic", "-Wcast-align=strict")


def strict(entry: dict[str, str], own: Path) -> list[str]:
    """A source's command of the build, which compiles nothing; headers that are not of the app warn of nothing."""
    words = shlex.split(entry["command"])
    at = next(k for k, word in enumerate(words) if "g++" in word)
    kept = []
    for word in words[at:]:
        if word.startswith("-I") and not Path(word[2:]).is_relative_to(own):
            kept += ["-isystem", word[2:]]
        elif not word.startswith("-W"):
            kept.append(word)
    return [*kept, *FLAGS, "-Werror", "-fsyntax-only"]


def test_an_app_by_rows_with_fast_kernels_and_host_link(apps: Path, tool: Tool) -> None:
    model = apps / "strict.tflite"
    model.write_bytes(mobilenet(32, 0.5, colours=1))
    flags = ("--board", BOARD, "--rows", "--slower", "50%", "--fast-kernels", "--host-link", "--runs", "1")
    app = generate_app(tool, apps, "strict", model, *flags)
    tool("build", app, "--board", BOARD)
    (commands,) = app.glob("build/*/compile_commands.json")
    own = (app / "tflm" / "src").resolve()
    entries = [entry for entry in json.loads(commands.read_text()) if Path(entry["file"]).is_relative_to(own)]
    sources = {Path(entry["file"]).name for entry in entries if entry["file"].endswith(".cpp")}
    assert {"strict_layers.cpp", "strict.cpp", "self_test.cpp", "report.cpp", "device.cpp", "server.cpp"} <= sources
    assert (own / "fast_kernels.hpp").is_file()
    compiled = [entry for entry in entries if entry["file"].endswith(".cpp")]
    runs = [subprocess.run(strict(e, own), cwd=e["directory"], capture_output=True, text=True) for e in compiled]
    assert not any(run.returncode for run in runs), "".join(run.stderr for run in runs)

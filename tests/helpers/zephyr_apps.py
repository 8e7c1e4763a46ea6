# SPDX-License-Identifier: Apache-2.0
"""Apps generated, built and run with real Zephyr."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Tool = Callable[..., Any]


def generate_app(tool: Tool, apps: Path, name: str, *argv: str | Path) -> Path:
    app = apps / name
    tool("generate", *argv, "-o", app)
    return app


def _golden_outputs(app: Path, ident: str) -> list[list[str]]:
    runs = json.loads((app / "tflm" / "golden" / f"{ident}.json").read_text())["runs"]
    return [run["outputs"] for run in runs]


def build_and_run(tool: Tool, app: Path, board: str) -> list[dict[str, Any]]:
    tool("build", app, "--board", board)
    results: list[dict[str, Any]] = tool("run", app, "--board", board, as_json=True)["results"]
    return results


def check_results(results: list[dict[str, Any]], app: Path, board: str, tflm_revision: str) -> None:
    assert results
    for result in results:
        assert result["status"] == "pass"
        assert result["where"] == "qemu"
        assert result["board"] == board
        assert result["tflm"] == tflm_revision
        got = [[output["data"] for output in run["outputs"]] for run in result["runs"]]
        assert got == _golden_outputs(app, result["model"])
        assert all(run["ticks"] > 0 for run in result["runs"])
        arena = result["arena"]
        assert arena["head_bytes"] + arena["tail_bytes"] == arena["used_bytes"] <= arena["size_bytes"]

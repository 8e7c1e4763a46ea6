# SPDX-License-Identifier: Apache-2.0
"""Compiled apps in QEMU: every shared model and sample in one app, by direct code and TFLM's own kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.control_models import branching, counting, looping
from tests.zephyr.conftest import ROOT, Tool

pytestmark = [pytest.mark.zephyr, pytest.mark.usefixtures("workspace")]

SAMPLES = sorted((ROOT / "samples").glob("*/*.tflite"))


@pytest.mark.parametrize(
    ("board", "kernels"), [("mps2/an385", "cmsis_nn"), ("mps2/an385", "reference"), ("mps2/an386", "cmsis_nn")]
)
def test_all_models_give_the_references_outputs(
    board: str, kernels: str, tool: Tool, shared_models: list[Path], tmp_path: Path
) -> None:
    made = {"branching": branching(), "looping": looping(), "counting": counting()}
    for name, data in made.items():
        (tmp_path / f"{name}.tflite").write_bytes(data)
    models = [*shared_models, *SAMPLES, *(tmp_path / f"{name}.tflite" for name in made)]
    app = tmp_path / "app"
    tool("generate", *models, "-o", app, "--board", board, "--kernels", kernels, "--backend", "compiled")
    tool("build", app, "--board", board)
    results = tool("run", app, "--board", board, as_json=True)["results"]
    assert len(results) == len(models)
    for result in results:
        assert result["status"] == "pass", result["model"]
        for run in result["runs"]:
            types = {output["index"]: output["type"] for output in run["outputs"]}
            assert all(check["exact"] or types[check["index"]] == "float32" for check in run["checks"]), result["model"]

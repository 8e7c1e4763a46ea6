# SPDX-License-Identifier: Apache-2.0
"""`plan` on the command line: cores, preallocated tensors, several models."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builder import chain
from tests.unit.conftest import Tool
from tflm_zephyr.errors import AppError
from tflm_zephyr.kernels import every_core, on_core


def test_kinds_of_cores() -> None:
    kinds = [(one.core.dsp, one.core.mve) for one in every_core("cmsis_nn")]
    assert sorted(kinds) == [(False, False), (True, False), (True, True)]
    assert len(every_core("reference")) == 1
    assert on_core("cmsis_nn", "cortex-m55").core.mve
    with pytest.raises(AppError, match="no core 'cortex-a9'"):
        on_core("cmsis_nn", "cortex-a9")


def test_cores(tool: Tool, shared: Path) -> None:
    model = shared / "models" / "person_detect.tflite"
    heads = {
        core: tool("plan", model, "--kernels", "cmsis_nn", "--core", core, "--json").json["head_bytes"]
        for core in ("cortex-m3", "cortex-m4", "cortex-m55")
    }
    every = tool("plan", model, "--kernels", "cmsis_nn", "--json").json["head_bytes"]
    assert heads["cortex-m3"] == heads["cortex-m4"] == heads["cortex-m55"] == every
    assert "on cortex-m3" in tool("plan", model, "--kernels", "cmsis_nn", "--core", "cortex-m3").out
    assert "no core 'x'" in tool("plan", model, "--core", "x").one_line()


def test_preallocated_tensors(tool: Tool, model_file: Path) -> None:
    both = tool("plan", model_file, "--preallocate", "input", "--preallocate", "3", "--overlap", "off", "--json").json
    assert both["offsets"] is None and both["head_bytes"] == 128 and both["preallocated_saves_bytes"] == 0
    most = [word for tensor in range(3) for word in ("--preallocate", tensor)]
    shown = tool("plan", model_file, *most, "--overlap", "off").out
    assert "preallocated        64  less, as 3 tensors in the app's own memory" in shown
    said = tool("plan", model_file, "--preallocate", "camera").one_line()
    assert "no tensor named 'camera'. Its inputs and outputs are tensor 0 'input', tensor 3 'relu2'" in said


def test_several_models(tool: Tool, model_file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.tflite"
    other.write_bytes(chain(2, 4096))
    found = tool("plan", model_file, other, "--json").json
    apart = [model["arena_bytes"] for model in found["models"]]
    assert max(apart) < found["shared_arena_bytes"] < sum(apart)
    assert f"One arena for 2 models: {found['shared_arena_bytes']}" in tool("plan", model_file, other).out
    assert "--output is for one model" in tool("plan", model_file, other, "-o", "x.tflite").one_line()
    assert "--arena goes with --plan-file" in tool("plan", model_file, "--arena", "4k").one_line()


@pytest.mark.parametrize(
    "option",
    [
        ("--plan-file", "none.json"),
        ("--arena", "4k"),
        ("--preserve-all",),
        ("--preserve-inputs",),
        ("--variables",),
        ("--map",),
        ("--overlap", "auto"),
        ("--order", "model"),
        ("--core", "cortex-m4"),
        ("--preallocate", "x"),
    ],
)
def test_options_that_a_csv_has_no_use_for(tool: Tool, tmp_path: Path, option: tuple[str, ...]) -> None:
    problem = tmp_path / "p.csv"
    problem.write_text("id,lower,upper,size\na,0,2,16\nb,1,3,16\n")
    assert tool("plan", problem).code == 0
    assert f"{option[0]} is for models" in tool("plan", problem, *option).one_line()

# SPDX-License-Identifier: Apache-2.0
"""Plans in which outputs overlap inputs, with CMSIS-NN on an emulated Cortex-M3; and one that is a little too tight."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.host.networks import network
from tests.zephyr.conftest import Tool
from tflm_zephyr.errors import PlanError
from tflm_zephyr.kernels import KernelLibrary, get
from tflm_zephyr.memory import given_plan, plan_head
from tflm_zephyr.model import Model, load_model, parse_model
from tflm_zephyr.model_write import with_offline_plan

pytestmark = [pytest.mark.zephyr, pytest.mark.usefixtures("workspace")]

BOARD = "mps2/an385"
CMSIS_NN = get("cmsis_nn", transpose_conv=True)  # of a Cortex-M3, which has no DSP


def too_tight(model: Model, kernels: KernelLibrary) -> bytes:
    """`model` with its plan, but one of its widest overlaps 16 bytes wider than allowed; refused by the checker."""
    rows = model.offline_plan
    assert rows is not None
    head = plan_head(model, kernels, overlap=[kernels])
    tensors = head.graph.tensors
    pairs = [(lead, *(tensors[buffer].tensor for buffer in pair)) for pair, lead in head.problem.leads.items()]
    as_allowed = [(lead, *pair) for lead, *pair in pairs if lead and rows[pair[0]] - rows[pair[1]] == lead]
    offsets = list(rows)
    offsets[max(as_allowed)[1]] -= 16
    data = with_offline_plan(model, offsets)
    with pytest.raises(PlanError, match=r"overlap: .* writes over byte"):
        given_plan(parse_model(data), kernels)
    return data


def test_resnet_over_its_input_and_a_little_too_far(tool: Tool, apps: Path, shared: Path) -> None:
    model = shared / "models" / "pretrainedResnet_quant.tflite"
    app = apps / "resnet_overlap"
    made = tool("generate", model, "-o", app, "-b", BOARD, "--kernels", "cmsis_nn", "--runs", 3, as_json=True)
    head = made["models"][0]["head"]
    assert head["overlapping"] > 0 and head["head_bytes"] < 0.7 * head["packed_bytes"]
    tool("build", app, "-b", BOARD)
    (good,) = tool("run", app, "-b", BOARD, "--timeout", 600, as_json=True)
    assert good["status"] == "pass" and good["arena"]["head_bytes"] == head["head_bytes"]
    (file,) = (app / "src" / "models").glob("*.tflite")
    file.write_bytes(too_tight(load_model(file), CMSIS_NN))
    tool("build", app, "-b", BOARD)
    (bad,) = tool("run", app, "-b", BOARD, "--timeout", 600, as_json=True, code=1)
    assert bad["status"] == "fail" and bad["arena"]["head_bytes"] == head["head_bytes"]


@pytest.mark.parametrize("board", ["mps2/an385", "mps2/an386"])
def test_random_networks_over_their_inputs(tool: Tool, apps: Path, board: str) -> None:
    """Convolutions, pools and branches of all shapes with CMSIS-NN, without and with DSP: one plan for both cores."""
    files = []
    for seed in range(20):
        path = apps / f"net{seed}.tflite"
        path.write_bytes(network(seed))
        files.append(path)
    app = apps / "networks"
    boards = ("-b", "mps2/an385", "-b", "mps2/an386")
    made = tool("generate", *files, "-o", app, *boards, "--kernels", "cmsis_nn", "--runs", 2, as_json=True)
    assert sum(model["head"]["overlapping"] > 0 for model in made["models"]) >= 8
    tool("build", app, "-b", board)
    results = tool("run", app, "-b", board, "--timeout", 600, as_json=True)
    assert [result["status"] for result in results] == ["pass"] * 20
    assert {result["kernels"] for result in results} == {"cmsis_nn"}

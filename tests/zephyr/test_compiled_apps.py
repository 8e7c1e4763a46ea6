# SPDX-License-Identifier: Apache-2.0
"""Compiled apps in QEMU: shared models, samples and random networks in one app; outputs are those of TFLM here."""

from __future__ import annotations

import re
from itertools import count, islice
from pathlib import Path

import pytest

from tests.helpers.chained_networks import chained_network
from tests.helpers.checkout import ROOT
from tests.helpers.control_models import branching, counting, looping
from tests.helpers.stack_depth import Depths, disassemble, named
from tests.helpers.zephyr_apps import Tool
from tflm_zephyr.boards import load_board
from tflm_zephyr.build import Workspace
from tflm_zephyr.kernels import miscomputed
from tflm_zephyr.model import parse_model
from tflm_zephyr.tflm import tflm_of

pytestmark = pytest.mark.zephyr

SAMPLES = sorted((ROOT / "samples").glob("*/*.tflite"))
LARGEST = ("person_detect", "pretrainedResnet_quant", "kws_ref_model")
"""Models that fill the 512 KiB of flash of a board with Helium; the others and the networks make two more apps."""
HELIUM = "mps3/corstone300/an547"
KINDS = ("int8", "int8", "int16", "float32")
CASES = {
    "an385": ("mps2/an385", "cmsis_nn", ""),
    "an385-reference": ("mps2/an385", "reference", ""),
    "an386": ("mps2/an386", "cmsis_nn", ""),
    "an521": ("mps2/an521/cpu0", "cmsis_nn", ""),
    "an547-largest": (HELIUM, "cmsis_nn", "largest"),
    "an547-others": (HELIUM, "cmsis_nn", "others"),
    "an547-networks": (HELIUM, "cmsis_nn", "networks"),
}


STATED = re.compile(r"A layer takes at most (\d+) bytes of stack")


def right(data: bytes, workspace: Workspace, board: str) -> bool:
    """Whether the board's CMSIS-NN kernels compute the model."""
    revision = tflm_of(None, workspace.tflm_revision).revision
    return not miscomputed(parse_model(data), revision, (load_board(board).core,))


def made(folder: Path, workspace: Workspace, board: str) -> list[Path]:
    """Models with subgraphs and variables, and twelve random networks."""
    models = {"branching": branching(), "looping": looping(), "counting": counting()}
    networks = ((f"network{seed}", chained_network(1000 + seed, KINDS[seed % len(KINDS)])) for seed in count())
    models |= dict(islice(((name, data) for name, data in networks if right(data, workspace, board)), 12))
    for name, data in models.items():
        (folder / f"{name}.tflite").write_bytes(data)
    return [folder / f"{name}.tflite" for name in models]


@pytest.mark.parametrize("case", CASES)
def test_all_models_give_the_references_outputs(
    case: str, tool: Tool, workspace: Workspace, shared_models: list[Path], tmp_path: Path
) -> None:
    board, kernels, part = CASES[case]
    networks = made(tmp_path, workspace, board)
    shared_models = [path for path in shared_models if right(path.read_bytes(), workspace, board)]
    models = {
        "": [*shared_models, *SAMPLES, *networks],
        "largest": [path for path in shared_models if path.stem in LARGEST],
        "others": [path for path in (*shared_models, *SAMPLES) if path.stem not in LARGEST],
        "networks": networks,
    }[part]
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
    assert stacks_hold(app) == (board != HELIUM)


def stacks_hold(app: Path) -> bool:
    """Check by disassembly that no layer takes more stack than its file says; whether any file says it."""
    (elf,) = app.glob("build/*/zephyr/zephyr.elf")
    image, stated = disassemble(elf, "arm-none-eabi-objdump"), False
    depths = Depths(image, 0)
    for path in (app / "tflm" / "src" / "models").glob("*_layers.cpp"):
        ident = path.name.removesuffix("_layers.cpp")
        found = STATED.search(path.read_text())
        for address in named(image, rf"^_ZN6models{len(ident)}{ident}12_GLOBAL__N_1\d+Layer\d") if found else ():
            assert found is not None
            assert depths.of(address) <= int(found[1]), image[address].name
            stated = True
    return stated

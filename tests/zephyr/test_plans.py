# SPDX-License-Identifier: Apache-2.0
"""Plans in which outputs overlap inputs, with CMSIS-NN on an emulated Cortex-M3; and some a little too wide."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.helpers.architectures import flat_convolutions
from tests.helpers.checkout import ROOT
from tests.helpers.heads import plan_head
from tests.helpers.networks import network
from tests.helpers.zephyr_apps import Tool
from tflm_zephyr.arena.given_offsets import given_plan
from tflm_zephyr.arena.head import HeadPlan
from tflm_zephyr.boards.board import QemuSpec
from tflm_zephyr.build.workspace import find_workspace
from tflm_zephyr.device.console.gather import gather_results
from tflm_zephyr.device.transport.qemu import QemuLink
from tflm_zephyr.errors import PlanError
from tflm_zephyr.kernels.libraries import kernel_library
from tflm_zephyr.kernels.library import KernelLibrary
from tflm_zephyr.kernels.uses import miscomputed
from tflm_zephyr.model.reader import load_model
from tflm_zephyr.model.types import Model
from tflm_zephyr.model.writer import with_offline_plan

pytestmark = [pytest.mark.zephyr, pytest.mark.usefixtures("workspace")]

BOARD = "mps2/an385"


@cache
def revision() -> str:
    """The commit of the workspace's TFLM."""
    return find_workspace().tflm_revision


@cache
def cmsis_nn() -> KernelLibrary:
    """CMSIS-NN's kernels of a Cortex-M3, which has no DSP extension."""
    return kernel_library("cmsis_nn", transpose_conv=True, revision=revision())


def pairs_of(head: HeadPlan) -> dict[tuple[int, int], int]:
    """By input and output, indices of tensors, how many bytes above the output the input may start: what is allowed."""
    tensors = head.graph.tensors
    return {
        (tensors[overlap.input].tensor, tensors[overlap.output].tensor): overlap.distance or 0
        for overlap in head.problem.pairs
    }


def lead(distance: int) -> int:
    """The nearest that is aligned."""
    return -(-distance // 16) * 16


def as_far_as_allowed(model: Model, head: HeadPlan, less: Mapping[tuple[int, int], int]) -> list[int]:
    """Offsets of a chain of operators in which every output lies over its input as far as the kernels allow.

    Such pairs in a row form a diagonal; diagonals lie in the lower and the upper part of the head in turn, so that
    neighbours do not touch. `less`: bytes by which a pair is nearer than allowed.
    """
    sizes = {planned.tensor: size for planned, size in zip(head.graph.tensors, head.problem.sizes, strict=False)}
    pairs, diagonals = pairs_of(head), list[dict[int, int]]()
    for operator in model.main.operators:
        pair = operator.inputs[0], operator.outputs[0]
        if pair not in pairs or not diagonals or pair[0] not in diagonals[-1]:
            diagonals += [{pair[0]: 0}] if pair in pairs else []
        if pair in pairs:
            diagonals[-1][pair[1]] = diagonals[-1][pair[0]] - lead(pairs[pair]) + less.get(pair, 0)
    diagonals = [{t: at - min(one.values()) for t, at in one.items()} for one in diagonals]
    border = max(at + sizes[t] for one in diagonals[::2] for t, at in one.items())
    offsets = [-1] * model.tensor_count
    for number, one in enumerate(diagonals):
        for tensor, at in one.items():
            offsets[tensor] = at + border * (number % 2)
    return offsets


def nearest(pairs: Mapping[tuple[int, int], int]) -> tuple[int, int]:
    """The pair of the largest distance among those that alignment makes no larger."""
    return max(pairs, key=lambda pair: (pairs[pair] > 0 == pairs[pair] % 16, pairs[pair]))


def wide(model: Model) -> bytes:
    """`model` with overlaps as wide as allowed; where its own plan has some already, with these."""
    head = plan_head(model, cmsis_nn(), in_place=[cmsis_nn()])
    if head.in_place_count or not head.problem.pairs:
        return model.data
    return with_offline_plan(model, as_far_as_allowed(model, head, {}))


def too_wide(model: Model) -> bytes:
    """As `wide`, but one overlap 16 bytes wider than allowed.

    Where no overlap is allowed, one operator writes over the last 16 bytes of what it reads.
    """
    head = plan_head(model, cmsis_nn(), in_place=[cmsis_nn()])
    pairs = pairs_of(head)
    if not pairs:
        source, result = model.main.operators[1].inputs[0], model.main.operators[1].outputs[0]
        offsets = [-1] * model.tensor_count
        offsets[source], offsets[result] = 0, -(-model.main.tensors[source].size_bytes // 16) * 16 - 16
        return with_offline_plan(model, offsets)
    if not head.in_place_count:
        return with_offline_plan(model, as_far_as_allowed(model, head, {nearest(pairs): 16}))
    assert model.offline_plan is not None
    offsets = list(model.offline_plan)
    touching = {pair: far for pair, far in pairs.items() if offsets[pair[0]] - offsets[pair[1]] == lead(far)}
    offsets[nearest(touching)[0]] -= 16
    return with_offline_plan(model, offsets)


def test_overlaps_as_wide_as_allowed_and_a_little_wider(tool: Tool, apps: Path, shared: Path) -> None:
    """Five models in one app: as they are planned, with every overlap as wide as it may be, and one a little wider."""
    samples = [ROOT / "samples" / name / f"{name}.tflite" for name in ("hello_world", "digits")]
    names = ("kws_ref_model", "person_detect", "pretrainedResnet_quant")
    models = [*samples, *(shared / "models" / f"{name}.tflite" for name in names)]
    app = apps / "overlaps"
    options = ("-b", BOARD, "--kernels", "cmsis_nn", "--runs", 3, "--arena", "128k")
    made = tool("generate", *models, "-o", app, *options, as_json=True)["models"]
    resnet = made[-1]["head"]
    assert resnet["in_place_count"] > 0 and resnet["head_bytes"] < 0.7 * resnet["packed_bytes"]
    files = [app / "tflm" / "src" / "models" / f"{model['name']}.tflite" for model in made]
    planned = [load_model(file) for file in files]

    def heads() -> dict[str, int]:
        tool("build", app, "-b", BOARD)
        code = 0 if all(map(allowed, files)) else 1
        results = tool("run", app, "-b", BOARD, "--timeout", 900, as_json=True, code=code)["results"]
        assert [result["status"] for result in results] == ["fail" if code else "pass"] * len(files)
        return {result["model"]: result["arena"]["head_bytes"] for result in results}

    assert heads() == {model["name"]: model["head"]["head_bytes"] for model in made}
    for file, model in zip(files, planned, strict=True):
        file.write_bytes(wide(model))
    plans = [given_plan(load_model(file), cmsis_nn()) for file in files]
    found = heads()
    assert all(plan is None or plan.size_bytes == found[file.stem] for file, plan in zip(files, plans, strict=True))
    assert sum(plan is not None for plan in plans) == len(files) - 1  # hello_world's may not overlap at all
    for file, model in zip(files, planned, strict=True):
        file.write_bytes(too_wide(model))
        assert not allowed(file)
    heads()


HELIUM = "mps3/corstone300/an547"  # not described in boards/
QEMU_HELIUM = QemuSpec("mps3-an547", "cortex-m55")


def results(elf: Path, models: int) -> list[tuple[str, str]]:
    """Kernels and status of each model in QEMU, on a Cortex-M55."""
    found = gather_results(QemuLink(QEMU_HELIUM, elf), models=models, timeout_s=120, silence_s=60)
    return [(result.kernels, result.status) for result in found]


def test_a_plan_is_refused_where_it_does_not_hold(tool: Tool, apps: Path) -> None:
    """CMSIS-NN with Helium copies more pixels of a 1 x n convolution before it writes than without."""
    model = apps / "flat.tflite"
    model.write_bytes(flat_convolutions())
    flat = ("generate", model, "--kernels", "cmsis_nn", "--runs", 3, "--force", "-o")
    app, other = apps / "flat", apps / "flat_m55"
    (made,) = tool(*flat, app, "-b", "mps2/an521/cpu0", as_json=True)["models"]
    assert made["head"]["in_place_count"] == 3
    tool("build", app, "-b", "mps2/an521/cpu0")
    assert tool("run", app, "-b", "mps2/an521/cpu0", as_json=True)["results"][0]["status"] == "pass"
    tool("build", app, "-b", "mps2/an385")  # no Helium either
    assert tool("run", app, "-b", "mps2/an385", as_json=True)["results"][0]["status"] == "pass"
    said = tool("build", app, "-b", HELIUM, code=1)
    assert f"as the kernels cmsis_nn allow it; for {HELIUM} they are cmsis_nn+helium" in said
    assert "--no-in-place (in_place: false)" in said
    (made,) = tool(*flat, other, "-b", HELIUM, as_json=True)["models"]
    assert made["head"]["in_place_count"] == 0
    tool("build", other, "-b", HELIUM)
    elf = other / "build" / "mps3_corstone300_an547" / "zephyr" / "zephyr.elf"
    assert results(elf, 1) == [("cmsis_nn", "pass")]
    # The negative control: what would come of the plan that was refused.
    copy = Path("tflm", "src", "models", "flat.tflite")
    (other / copy).write_bytes((app / copy).read_bytes())
    tool("build", other, "-b", HELIUM)
    assert results(elf, 1) == [("cmsis_nn", "fail")]


def test_a_reference_plan_is_refused_by_zephyrs_cmsis_nn(tool: Tool, apps: Path) -> None:
    model, app = apps / "flat_module.tflite", apps / "flat_module"
    model.write_bytes(flat_convolutions())
    tool("generate", model, "--kernels", "reference", "--tflm", "module", "-b", BOARD, "-o", app)
    said = tool("build", app, "-D", "CONFIG_TENSORFLOW_LITE_MICRO_CMSIS_NN_KERNELS=y", code=1)
    assert f"as the kernels reference allow it; for {BOARD} they are cmsis_nn." in said


def allowed(file: Path) -> bool:
    """Whether the checker has nothing against the model's plan."""
    try:
        given_plan(load_model(file), cmsis_nn())
    except PlanError as error:
        assert "overlap" in str(error)
        return False
    return True


@pytest.mark.parametrize("board", ["mps2/an385", "mps2/an386"])
def test_random_networks_over_their_inputs(tool: Tool, apps: Path, board: str) -> None:
    """Convolutions, pools and branches of all shapes with CMSIS-NN, without and with DSP: one plan for both cores."""
    files = []
    for seed in range(24):
        path = apps / f"net{seed}.tflite"
        path.write_bytes(network(seed))
        if not miscomputed(load_model(path), revision()):  # pools of several batches are refused
            files.append(path)
    app = apps / "networks"
    boards = ("-b", "mps2/an385", "-b", "mps2/an386")
    made = tool("generate", *files, "-o", app, *boards, "--kernels", "cmsis_nn", "--runs", 2, as_json=True)
    assert sum(model["head"]["in_place_count"] > 0 for model in made["models"]) >= 8
    tool("build", app, "-b", board)
    results = tool("run", app, "-b", board, "--timeout", 600, as_json=True)["results"]
    assert [result["status"] for result in results] == ["pass"] * len(files) and len(files) > 16
    assert {result["kernels"] for result in results} == {"cmsis_nn"}

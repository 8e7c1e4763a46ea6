# SPDX-License-Identifier: Apache-2.0
"""Compiled models on this machine, each layer's whole output against TFLM's, byte for byte.

The kernels are the workspace's: CMSIS-NN's portable C, and TFLM's reference headers.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy
import pytest

from tests.conftest import ROOT
from tests.helpers.compiled_host import Checkouts, build, rendered
from tests.host.networks import network
from tests.zephyr.conftest import known_tflm
from tests.zephyr.models import dense_chain, flat_convolutions, mobilenet
from tflm_zephyr.build.workspace import Workspace
from tflm_zephyr.compiler import CompiledModel
from tflm_zephyr.host import available, run_many
from tflm_zephyr.model import Tensor, without_offline_plan

pytestmark = pytest.mark.zephyr

MODELS = {
    "mobilenet": mobilenet(24),
    "dense": dense_chain((40, 17, 33, 8)),
    "flat": flat_convolutions(),
    **{f"network {seed}": network(seed) for seed in range(8)},
    **{f"float network {seed}": network(seed, "float32") for seed in range(2)},
}
SAMPLES = sorted((ROOT / "samples").glob("*/*.tflite"))


@pytest.fixture(scope="module")
def checkouts(workspace: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Checkouts:
    """The workspace's sources."""
    if shutil.which("g++") is None or not available("tflm"):
        pytest.skip("needs g++ and TFLM on the host")
    if workspace.cmsis_nn_dir is None:
        pytest.skip("needs CMSIS-NN")
    return Checkouts(known_tflm(workspace), workspace.cmsis_nn_dir, tmp_path_factory.mktemp("objects"))


def random_bytes(tensor: Tensor, rng: random.Random) -> bytes:
    if tensor.type.value == "float32":
        return numpy.array([rng.uniform(-1, 1) for _ in range(tensor.elements)], "float32").tobytes()
    return rng.randbytes(tensor.size_bytes)


def expected(program: CompiledModel, inputs: list[list[bytes]]) -> list[dict[int, bytes]]:
    """By run, every written tensor as TFLM leaves it."""
    main = program.model.main
    written = dict.fromkeys(tensor for operator in main.operators for tensor in operator.outputs)
    inner = [tensor for tensor in written if tensor not in main.outputs]
    done = run_many(without_offline_plan(program.model), inputs, tensors=inner)
    return [
        dict(zip(main.outputs, outputs, strict=True)) | dict(zip(inner, tensors, strict=True))
        for outputs, tensors in zip(done.runs, done.tensors, strict=True)
    ]


def same(tensor: Tensor, got: bytes, want: bytes) -> bool:
    """Equal bytes; floats within 1e-5 of each other, as compilers fuse operations."""
    if tensor.type.value != "float32":
        return got == want
    pair = (numpy.frombuffer(data, "float32") for data in (got, want))
    return bool(numpy.allclose(*pair, rtol=1e-5, atol=1e-5))


def check(model: Path, tmp_path: Path, kernels: str, checkouts: Checkouts) -> None:
    files, program = rendered(model, tmp_path / "app", kernels)
    net = build(files, program, tmp_path / "src", checkouts)
    main, rng = program.model.main, random.Random(1)
    inputs = [[random_bytes(main.tensors[tensor], rng) for tensor in main.inputs] for _ in range(2)]
    for given, want in zip(inputs, expected(program, inputs), strict=True):
        net.arena[:] = rng.randrange(256)  # bytes that nobody wrote have any value
        for tensor, got in net.outputs_of_layers(given):
            assert same(main.tensors[tensor], got, want[tensor]), f"{main.tensors[tensor].label} differs"


@pytest.mark.parametrize("kernels", ["cmsis_nn", "reference"])
@pytest.mark.parametrize("name", MODELS)
def test_layers_are_those_of_tflm(name: str, kernels: str, tmp_path: Path, checkouts: Checkouts) -> None:
    (tmp_path / "net.tflite").write_bytes(MODELS[name])
    check(tmp_path / "net.tflite", tmp_path, kernels, checkouts)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_layers_of_samples_are_those_of_tflm(path: Path, tmp_path: Path, checkouts: Checkouts) -> None:
    check(path, tmp_path, "cmsis_nn", checkouts)

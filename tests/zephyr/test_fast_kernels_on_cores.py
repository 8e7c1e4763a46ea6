# SPDX-License-Identifier: Apache-2.0
"""Random layers with our own kernels as machine code of Cortex-M3, M4 and M33 in QEMU: outputs are CMSIS-NN's.

That both are TFLM's is for the tests on the host; here the blocks of assembler run, in odd shapes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.common import Bench
from benchmarks.kernels import CORES, Machine
from tests.helpers.random_layers import KINDS, random_layers
from tflm_zephyr.build.toolchain import detect_toolchain
from tflm_zephyr.build.workspace import Workspace

pytestmark = [pytest.mark.zephyr, pytest.mark.slow]

LAYERS = 25


@pytest.fixture(scope="module")
def bench(workspace: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    if workspace.cmsis_nn_dir is None:
        pytest.skip("needs CMSIS-NN")
    return Bench(workspace, detect_toolchain(), tmp_path_factory.mktemp("cores"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("core", CORES)
def test_outputs_are_those_of_cmsis_nn(core: str, kind: str, bench: Bench, seed: int = 0) -> None:
    model: Path = bench.folder / f"{kind}{seed}.tflite"
    model.write_bytes(random_layers(kind, seed, LAYERS))
    machine = Machine(bench, core)
    found = []
    for fast in (True, False):
        program, elf = machine.built(model, fast=fast, every=True)
        assert all(layer.fast == fast for layer in program.layers)
        found.append(machine.run(elf).splitlines())
    titles = [layer.title for layer in program.layers]
    assert len(found[0]) == LAYERS
    other = [title for title, one, two in zip(titles, *found, strict=True) if one != two]
    assert not other

# SPDX-License-Identifier: Apache-2.0
"""Random layers with our own kernels as machine code of Cortex-M0, M3, M4 and M33 in QEMU: outputs are TFLM's.

pytest --random-layers 1000 runs a thousand of each kind; the layers are always the same.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks.bare_app import run
from benchmarks.common import Bench
from benchmarks.kernels import CORES, Machine
from tests.helpers.layer_table import LayerTable, layer_table
from tests.helpers.random_layers import KINDS, seeds
from tflm_zephyr.build.toolchain import detect_toolchain
from tflm_zephyr.build.workspace import Workspace
from tflm_zephyr.host import available

pytestmark = [
    pytest.mark.zephyr,
    pytest.mark.slow,
    pytest.mark.skipif(not available("tflm"), reason="needs TFLM on the host"),
]

LAYERS = 100
SMALL, SMALL_ARENA = 12, 12_000


@pytest.fixture(scope="module")
def bench(workspace: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(workspace, detect_toolchain(), tmp_path_factory.mktemp("cores"))


def table_of(machine: Machine, kind: str, some: range) -> LayerTable:
    return layer_table(kind, some, machine.core.board, machine.folder / f"{kind}{some[0]}")


def check(machine: Machine, table: LayerTable) -> None:
    """Outputs of these layers against TFLM's."""
    assert table.differences(machine.run(linked(machine, table.folder)).splitlines()) == []
    shutil.rmtree(table.folder)


def linked(machine: Machine, folder: Path) -> Path:
    script, elf = folder / "link.ld", folder / "layers.elf"
    script.write_text(machine.linker_script())
    flags = [*machine.core.flags, "-mthumb", "-fno-exceptions", "-fno-rtti", "-w", "-nostartfiles", f"-I{folder}"]
    libraries = [f"-T{script}", "--specs=nano.specs", "--specs=nosys.specs", "-o", str(elf)]
    run(["arm-none-eabi-g++", "-std=c++17", "-O2", *flags, str(folder / "main.cpp"), *libraries], folder)
    return elf


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("core", CORES)
def test_outputs_are_those_of_tflm(core: str, kind: str, bench: Bench, pytestconfig: pytest.Config) -> None:
    for some in seeds(pytestconfig, LAYERS):
        machine = Machine(bench, core)
        check(machine, table_of(machine, kind, some))


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_on_a_core_without_unaligned_loads(kind: str, bench: Bench) -> None:
    """Cortex-M0, which faults on them; layers that do not fit into the RAM of its machine are left out."""
    machine, ran = Machine(bench, "m0"), 0
    for seed in range(SMALL):
        table = table_of(machine, kind, range(seed, seed + 1))
        if table.programs[0].arena_bytes <= SMALL_ARENA:
            check(machine, table)
            ran += 1
    assert ran > SMALL // 2

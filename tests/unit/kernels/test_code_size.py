# SPDX-License-Identifier: Apache-2.0
"""The shipped table of kernels, and what is read out of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tflm_zephyr.errors import AppError
from tflm_zephyr.kernels import code_size
from tflm_zephyr.kernels.code_size import FPU, Bytes, KernelRow, KernelTable, dump_tables, kernel_need, load_table
from tflm_zephyr.kernels.core import CORES
from tflm_zephyr.resources import package_data
from tflm_zephyr.tflm.op_resolver import shipped_operator_table
from tflm_zephyr.tflm.pins import KERNEL_SIZES_FILE, KNOWN_PINS, data_folder, sized_revision

SIZED = [revision for revision in KNOWN_PINS if sized_revision(revision) == revision]

MADE = KernelTable(
    core="cortex-m3",
    library_name="reference",
    revision="abc",
    pieces=(Bytes(100, 0), Bytes(30, 8), Bytes(7, 0)),
    library={"libgcc.a(_div.o).text": Bytes(50, 0), "libm.a(exp.o).text": Bytes(400, 4)},
    rows={
        "Register_A": KernelRow((0, 1), ("libgcc.a(_div.o).text",), 120),
        "Register_B": KernelRow((1, 2), ("libgcc.a(_div.o).text", "libm.a(exp.o).text"), 60),
    },
    services_bytes=40,
    to_kernels_bytes=90,
    own_bytes=600,
)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """MADE, and the same with one more byte for a core with an FPU, instead of the shipped table."""
    with_fpu = KernelTable(**{**vars(MADE), "core": f"cortex-m33{FPU}", "pieces": (Bytes(101, 0), *MADE.pieces[1:])})
    text = dump_tables([with_fpu, MADE])
    monkeypatch.setattr(code_size, "package_data", lambda name: text)
    code_size.all_tables.cache_clear()
    yield
    code_size.all_tables.cache_clear()


@pytest.mark.usefixtures("made")
def test_a_table_reads_back() -> None:
    assert vars(load_table("reference", "cortex-m3")) == vars(MADE)


@pytest.mark.usefixtures("made")
def test_what_kernels_share_counts_once() -> None:
    one = kernel_need(["Register_A"], "reference", "cortex-m3")
    assert (one.flash_bytes, one.ram_bytes, one.stack_bytes) == (100 + 30 + 50, 8 + 36, 120)
    both = kernel_need(["Register_B", "Register_A", "Register_A"], "reference", "cortex-m3")
    assert (both.flash_bytes, both.ram_bytes, both.stack_bytes) == (100 + 30 + 7 + 50 + 400, 8 + 4 + 2 * 36, 120)
    assert both.unknown == ()


@pytest.mark.usefixtures("made")
def test_what_the_app_brings_does_not_count() -> None:
    linked = {"libm.a(exp.o).text", "libc.a(memcpy.o).text"}
    need = kernel_need(["Register_B"], "reference", "cortex-m3", linked=linked)
    assert (need.flash_bytes, need.ram_bytes) == (30 + 7 + 50, 8 + 36)


@pytest.mark.usefixtures("made")
def test_kernels_not_measured_are_named() -> None:
    need = kernel_need(["Register_Z", "Register_B", "Register_Y"], "reference", "cortex-m3")
    assert need.unknown == ("Register_Y", "Register_Z")
    assert (need.ram_bytes, need.stack_bytes) == (8 + 4 + 3 * 36, 60)
    assert kernel_need([], "reference", "cortex-m3").flash_bytes == 0


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(
    ("core", "measured"),
    [("cortex-m0", "cortex-m3"), ("cortex-m33", "cortex-m3"), ("cortex-m4+fp", "cortex-m33+fp")],
)
def test_the_nearest_core_stands_in_and_is_named(core: str, measured: str) -> None:
    need = kernel_need(["Register_A"], "reference", core)
    assert need.measured_core == measured
    assert need.flash_bytes == (181 if measured.endswith(FPU) else 180)


def test_kernels_that_run_subgraphs_stack_below_the_others() -> None:
    def stack(*names: str) -> int:
        return kernel_need([f"Register_{name}" for name in names], "reference", "cortex-m3").stack_bytes

    assert stack("ABS", "ADD") == max(stack("ABS"), stack("ADD"))
    assert stack("IF", "WHILE", "ABS", "ADD") == stack("IF") + stack("WHILE") + stack("ADD")


def test_a_core_or_library_that_is_none() -> None:
    with pytest.raises(AppError, match="no core 'cortex-a9'"):
        load_table("reference", "cortex-a9")
    with pytest.raises(AppError, match="no kernel library 'xtensa'"):
        load_table("xtensa", "cortex-m3")


@pytest.mark.parametrize("revision", SIZED)
@pytest.mark.parametrize("library", ["reference", "cmsis_nn"])
@pytest.mark.parametrize("core", ["cortex-m3", f"cortex-m33{FPU}"])
def test_the_shipped_table_has_every_operator(library: str, core: str, revision: str) -> None:
    table = load_table(library, core, revision)
    assert table.core == core
    assert table.revision == revision
    registers = {call.register for call in shipped_operator_table(revision).calls.values()}
    assert registers <= table.rows.keys()
    typed = {"Register_CONV_2D_INT8", "Register_FULLY_CONNECTED_INT8", "Register_SOFTMAX_INT8_INT16"}
    assert typed <= table.rows.keys()
    for name in registers - {"Register_ETHOSU"}:
        need = kernel_need([name], library, core, revision=revision)
        assert 40 < need.flash_bytes < 200_000, name
        assert 0 <= need.ram_bytes < 4096, name
        assert 0 < need.stack_bytes < 16_384, name
    assert table.own_bytes > table.to_kernels_bytes > 0 < table.services_bytes


def test_shipped_numbers_hang_together() -> None:
    conv = kernel_need(["Register_CONV_2D"], "cmsis_nn", "cortex-m3").flash_bytes
    typed = kernel_need(["Register_CONV_2D_INT8"], "cmsis_nn", "cortex-m3").flash_bytes
    assert typed < conv
    pair = kernel_need(["Register_CONV_2D", "Register_DEPTHWISE_CONV_2D"], "cmsis_nn", "cortex-m3").flash_bytes
    alone = kernel_need(["Register_DEPTHWISE_CONV_2D"], "cmsis_nn", "cortex-m3").flash_bytes
    assert max(conv, alone) < pair < conv + alone


@pytest.mark.parametrize("revision", SIZED)
def test_the_shipped_table_is_small_and_names_no_machine(revision: str) -> None:
    text = package_data(f"{data_folder(revision)}/{KERNEL_SIZES_FILE}")
    assert len(text) < 400_000
    assert not re.search(r"/(home|root|tmp|usr|work)\b", text)
    cores = {table.core for table in code_size.all_tables(revision)}
    assert all(core.removesuffix(FPU) in CORES for core in cores)

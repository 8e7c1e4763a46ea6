# SPDX-License-Identifier: Apache-2.0
"""Every operator of TFLM's resolver links alone into a real app, and the shipped table of sizes is what comes of it.

Compiles all kernels of both libraries with an app's own flags: some minutes on two cores.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.bare_app import bare_app
from benchmarks.compiling import Compiler
from benchmarks.kernel_links import Adding, Linker
from benchmarks.operator_links import LIBRARIES, Measured, measure
from tests.helpers.workspaces import known_tflm
from tflm_zephyr.build.workspace import Workspace
from tflm_zephyr.kernels.code_size import KernelTable, load_table
from tflm_zephyr.tflm.op_resolver import shipped_operator_table as shipped_operators
from tflm_zephyr.tflm.sources import SourceTable, shipped_source_table

pytestmark = [pytest.mark.zephyr, pytest.mark.slow]

BOARD = "mps2/an385"


@pytest.fixture(scope="module")
def known(workspace: Workspace) -> None:
    known_tflm(workspace)
    if workspace.cmsis_nn_dir is None:
        pytest.skip("the workspace has no cmsis-nn")


@pytest.fixture(scope="module")
def linked(known: None, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Measured]:
    """Every operator of each library."""
    found: dict[str, Measured] = {}
    for library in LIBRARIES:
        shared = found[LIBRARIES[0]].compiler if found else None
        found[library] = measure(BOARD, library, tmp_path_factory.mktemp(library), shared=shared)
    return found


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_operator_links_alone(workspace: Workspace, linked: Mapping[str, Measured], library: str) -> None:
    links = linked[library].links
    assert {link.adding.register: link.lacking or link.failure for link in links if not link.links} == {}
    assert {call.register for call in shipped_operators(workspace.tflm_revision).calls.values()} <= {
        link.adding.register for link in links
    }


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_shipped_table_is_what_comes_of_it(linked: Mapping[str, Measured], library: str) -> None:
    now = linked[library]
    shipped = load_table(library, now.table.core, now.table.revision)
    assert shipped.core == now.table.core
    assert shipped.rows.keys() == now.table.rows.keys()
    for link in now.links:
        name = link.adding.register
        # What the table has of an operator is what the app grew by, but for alignment and merged strings.
        assert abs(_flash(now.table, name, now.linked) - link.flash_bytes) <= 100, name
        # Another compiler makes other sizes, but not wildly so.
        assert abs(_flash(now.table, name) - _flash(shipped, name)) <= 64 + 0.15 * _flash(shipped, name), name


def test_a_source_left_out_is_noticed(known: None, workspace: Workspace, tmp_path: Path) -> None:
    bare = bare_app(tmp_path, BOARD, "reference")
    linker = Linker(bare, "reference", tmp_path, Compiler(bare, tmp_path))
    adding = Adding("Register_PAD", "Register_PAD", "AddPad()")
    linker.compile([adding])
    assert linker.link(adding).links
    table = shipped_source_table("reference", workspace.tflm_revision)
    lost = "tensorflow/lite/micro/kernels/pad.cc"
    less = tuple(path for path in table.kernels["Register_PAD"] if path != lost)
    assert len(less) == len(table.kernels["Register_PAD"]) - 1
    linker._table = SourceTable(table.revision, table.core, {"Register_PAD": less})
    again = linker.link(adding)
    assert not again.links
    assert any("Register_PAD" in name for name in again.lacking)


def _flash(table: KernelTable, register: str, linked: frozenset[str] = frozenset()) -> int:
    row = table.rows[register]
    there = [table.library[name].flash for name in row.library if name not in linked]
    return sum(table.pieces[i].flash for i in row.pieces) + sum(there)

# SPDX-License-Identifier: Apache-2.0
"""The shipped struct sizes of a known revision against the compiler, on the TFLM of the workspace."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks.revision_tables import COMPILER, HIDDEN, PREALLOCATED, builtin_data, layouts, struct_sizes
from tests.helpers.checkout import ROOT
from tests.helpers.workspaces import known_tflm
from tflm_zephyr.build.workspace import Workspace
from tflm_zephyr.tflm.struct_sizes import cortex_m_sizes

HEADERS_32 = Path("/usr/include/x86_64-linux-gnu/gnu/stubs-32.h")
pytestmark = [pytest.mark.zephyr, pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"needs {COMPILER}")]


@pytest.mark.skipif(not HEADERS_32.exists(), reason="needs a C library for -m32: g++-multilib")
@pytest.mark.parametrize("static_memory", [False, True])
def test_every_layout(workspace: Workspace, tmp_path: Path, static_memory: bool) -> None:
    tflm = known_tflm(workspace)
    found = struct_sizes(tflm, tmp_path, static_memory=static_memory)
    shipped = cortex_m_sizes(workspace.tflm_revision, static_memory=static_memory)
    assert found.tables == shipped.tables
    assert (found.planner_record_bytes, found.own_objects) == (shipped.planner_record_bytes, shipped.own_objects)


def test_operators_with_builtin_data_are_those_of_tflm(workspace: Workspace) -> None:
    assert builtin_data(known_tflm(workspace)) == dict(cortex_m_sizes(workspace.tflm_revision).builtin_data)


def test_the_apps_allocator_is_as_large_as_its_stand_in(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The class in the app's template has the layout of the struct that is measured in its place."""
    (template,) = (ROOT / "templates").rglob("preallocated.hpp.j2")
    text = template.read_text(encoding="utf-8").replace('{{ banner("//") }}\n', "")
    (tmp_path / "preallocated.hpp").write_text(text)
    real = f'}}\n#include "{tmp_path}/preallocated.hpp"\nnamespace hidden {{ using tflm_app::{PREALLOCATED};'
    monkeypatch.setitem(HIDDEN, PREALLOCATED, real)
    found, _ = layouts(known_tflm(workspace), tmp_path, [PREALLOCATED])
    assert found[PREALLOCATED] == cortex_m_sizes(workspace.tflm_revision).of(PREALLOCATED)

# SPDX-License-Identifier: Apache-2.0
"""The shipped table of operators is what the pinned TFLM's header says."""

from __future__ import annotations

import os

import pytest

from tflm_zephyr.build.workspace import find_workspace
from tflm_zephyr.tflm.op_resolver import operator_table_for, shipped_operator_table
from tflm_zephyr.tflm.typed_registrations import shipped_typed, typed_for


@pytest.mark.zephyr
def test_shipped_table_is_the_headers() -> None:
    if not os.environ.get("ZEPHYR_BASE"):
        pytest.skip("no ZEPHYR_BASE")
    workspace = find_workspace()
    shipped = shipped_operator_table()
    if workspace.tflm_dir is None or workspace.tflm_revision != shipped.revision:
        pytest.skip("the workspace has no tflite-micro at the pinned revision")
    assert dict(operator_table_for(workspace.tflm_dir, shipped.revision).calls) == dict(shipped.calls)
    assert typed_for(workspace.tflm_dir) == shipped_typed()

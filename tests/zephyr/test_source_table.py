# SPDX-License-Identifier: Apache-2.0
"""The shipped table of sources against the workspace's tflite-micro."""

from __future__ import annotations

import pytest

from tflm_zephyr.sources import TflmTree, shipped_table
from tflm_zephyr.workspace import Workspace

pytestmark = pytest.mark.zephyr


def test_the_shipped_table_is_that_of_the_pinned_revision(workspace: Workspace) -> None:
    shipped = shipped_table()
    if workspace.tflm_dir is None or workspace.tflm_revision != shipped.revision:
        pytest.skip(f"the workspace has tflite-micro {workspace.tflm_revision or 'nowhere'}")
    assert TflmTree(workspace.tflm_dir).table(shipped.revision) == shipped
    for path in {*shipped.core, *(path for picks in shipped.kernels.values() for path in picks)}:
        assert (workspace.tflm_dir / path).is_file()

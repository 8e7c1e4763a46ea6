# SPDX-License-Identifier: Apache-2.0
"""The shipped table of sources against the workspace's tflite-micro."""

from __future__ import annotations

import pytest

from tflm_zephyr.build.workspace import Workspace
from tflm_zephyr.tflm.cmsis_nn_tree import CmsisNnTree
from tflm_zephyr.tflm.sources import TflmTree, shipped_source_table

pytestmark = pytest.mark.zephyr


@pytest.mark.parametrize("library", ["reference", "cmsis_nn"])
def test_the_shipped_table_is_that_of_the_pinned_revision(workspace: Workspace, library: str) -> None:
    shipped = shipped_source_table(library)
    if workspace.tflm_dir is None or workspace.tflm_revision != shipped.revision:
        pytest.skip(f"the workspace has tflite-micro {workspace.tflm_revision or 'nowhere'}")
    if library == "reference":
        assert TflmTree(workspace.tflm_dir).table(shipped.revision) == shipped
    else:
        if workspace.cmsis_nn_dir is None:
            pytest.skip("the workspace has no cmsis-nn")
        functions = CmsisNnTree(workspace.cmsis_nn_dir)
        assert (
            TflmTree(workspace.tflm_dir, library).table(shipped.revision, functions, workspace.cmsis_nn_revision)
            == shipped
        )
    for path in shipped.select(shipped.kernels):
        assert (workspace.tflm_dir / path).is_file()

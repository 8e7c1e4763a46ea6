# SPDX-License-Identifier: Apache-2.0
"""The shipped tables of sources against the workspace's tflite-micro and CMSIS-NN."""

from __future__ import annotations

import pytest

from tests.helpers.workspaces import known_tflm
from tflm_zephyr.build.workspace import Workspace
from tflm_zephyr.tflm.cmsis_nn_tree import CmsisNnTree
from tflm_zephyr.tflm.sources import TflmTree, shipped_source_table

pytestmark = pytest.mark.zephyr


@pytest.mark.parametrize("library", ["reference", "cmsis_nn"])
def test_the_shipped_table_is_that_of_the_checkout(workspace: Workspace, library: str) -> None:
    tflm, revision = known_tflm(workspace), workspace.tflm_revision
    shipped = shipped_source_table(library, revision)
    if library == "reference":
        assert TflmTree(tflm).table(revision) == shipped
    else:
        if workspace.cmsis_nn_dir is None:
            pytest.skip("the workspace has no cmsis-nn")
        functions = CmsisNnTree(workspace.cmsis_nn_dir)
        assert TflmTree(tflm, library).table(revision, functions, workspace.cmsis_nn_revision) == shipped
    for path in shipped.select(shipped.kernels):
        assert (tflm / path).is_file()

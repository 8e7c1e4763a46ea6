# SPDX-License-Identifier: Apache-2.0
"""The shipped tables of operators and typed registrations are those of the workspace's TFLM."""

from __future__ import annotations

import pytest

from tests.helpers.workspaces import known_tflm
from tflm_zephyr.build.workspace import Workspace
from tflm_zephyr.tflm.op_resolver import operator_table_for, shipped_operator_table
from tflm_zephyr.tflm.typed_registrations import shipped_typed, typed_for

pytestmark = pytest.mark.zephyr


def test_shipped_table_is_the_headers(workspace: Workspace) -> None:
    tflm, revision = known_tflm(workspace), workspace.tflm_revision
    shipped = shipped_operator_table(revision)
    assert shipped.revision == revision
    assert dict(operator_table_for(tflm, revision).calls) == dict(shipped.calls)
    assert typed_for(tflm) == shipped_typed(revision)

# SPDX-License-Identifier: Apache-2.0
"""A west workspace with a compiler and QEMU, or a skip that says what is missing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tflm_zephyr.build.toolchain import detect_toolchain
from tflm_zephyr.build.workspace import Workspace, find_workspace
from tflm_zephyr.errors import ToolError
from tflm_zephyr.tflm.pins import KNOWN_PINS


@pytest.fixture(scope="session")
def workspace() -> Workspace:
    """The workspace that ZEPHYR_BASE names."""
    if "ZEPHYR_BASE" not in os.environ:
        pytest.skip("needs real Zephyr: ZEPHYR_BASE is not set")
    if shutil.which("qemu-system-arm") is None:
        pytest.skip("needs qemu-system-arm")
    try:
        detect_toolchain()
    except ToolError as err:
        pytest.skip(f"needs a compiler: {err}")
    return find_workspace()


def known_tflm(workspace: Workspace) -> Path:
    """The workspace's tflite-micro, when it is at a known revision; else the test is skipped."""
    if workspace.tflm_dir is None or workspace.tflm_revision not in KNOWN_PINS:
        pytest.skip(f"the workspace has tflite-micro {workspace.tflm_revision or 'nowhere'}")
    return workspace.tflm_dir

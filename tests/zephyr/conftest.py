# SPDX-License-Identifier: Apache-2.0
"""Real Zephyr: a west workspace, a compiler and QEMU, or a skip that says what is missing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.compiled_host import Checkouts
from tflm_zephyr.build.toolchain import detect_toolchain
from tflm_zephyr.build.workspace import Workspace, find_workspace
from tflm_zephyr.errors import ToolError
from tflm_zephyr.host import available
from tflm_zephyr.tflm import tflm_of
from tflm_zephyr.tflm.pins import KNOWN_PINS

ROOT = Path(__file__).resolve().parents[2]
Tool = Callable[..., Any]


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


@pytest.fixture(scope="session")
def tool() -> Tool:
    """Runs the command line in a process of its own; with `json` its parsed output, else its stdout."""

    def run(*argv: str | Path, code: int = 0, as_json: bool = False) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "tflm_zephyr", *map(str, argv), *(["--json"] if as_json else [])],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout) if as_json else done.stdout + done.stderr

    return run


@pytest.fixture(scope="session")
def apps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where apps are generated and built; kept for the whole session, so that boards share an app."""
    return tmp_path_factory.mktemp("apps")


@pytest.fixture(scope="session")
def checkouts(workspace: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Checkouts:
    """The workspace's sources."""
    if shutil.which("g++") is None or not available("tflm"):
        pytest.skip("needs g++ and TFLM on the host")
    if workspace.cmsis_nn_dir is None:
        pytest.skip("needs CMSIS-NN")
    revision = tflm_of(None, workspace.tflm_revision)
    return Checkouts(known_tflm(workspace), workspace.cmsis_nn_dir, tmp_path_factory.mktemp("objects"), revision)

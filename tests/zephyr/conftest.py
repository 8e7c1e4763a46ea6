# SPDX-License-Identifier: Apache-2.0
"""Real Zephyr: commands in processes of their own, and the workspace's sources."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.compiled_host import Checkouts
from tests.helpers.workspaces import known_tflm, workspace
from tests.helpers.zephyr_apps import Tool
from tflm_zephyr.build.workspace import Workspace
from tflm_zephyr.host import available
from tflm_zephyr.tflm import tflm_of

__all__ = ["workspace"]


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

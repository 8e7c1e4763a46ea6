# SPDX-License-Identifier: Apache-2.0
"""An app as a program of this host, with Zephyr's native_sim and 64-bit pointers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.zephyr_apps import Tool, build_and_run, generate_app
from tflm_zephyr.build.toolchain import detect_toolchain
from tflm_zephyr.build.west import BuildRequest, build
from tflm_zephyr.build.workspace import Workspace
from tflm_zephyr.errors import BuildError

pytestmark = [pytest.mark.zephyr, pytest.mark.usefixtures("workspace")]

BOARD = "native_sim/native/64"


def test_an_arena_for_arm_is_refused_and_a_given_one_runs(tool: Tool, apps: Path, workspace: Workspace) -> None:
    app = generate_app(tool, apps, "native", ROOT / "samples" / "hello_world" / "hello_world.tflite", "-b", BOARD)
    request = BuildRequest(app, BOARD, app / "build" / "native_sim_native_64")
    with pytest.raises(BuildError, match=r"hello_world was estimated for 32-bit Arm\. Set CONFIG_TFLM_APP_HELLO_WORLD"):
        build(request, workspace, detect_toolchain(arch="posix"))
    (app / "boards").mkdir(exist_ok=True)
    (app / "boards" / "native_sim_native_64.conf").write_text("CONFIG_TFLM_APP_HELLO_WORLD_ARENA_SIZE=4096\n")
    (result,) = build_and_run(tool, app, BOARD)
    assert (result["status"], result["where"]) == ("pass", "native_sim")
    assert 1072 < result["arena"]["used_bytes"] <= result["arena"]["size_bytes"] == 4096


@pytest.mark.skipif(shutil.which("babeltrace2") is None, reason="needs babeltrace2")
def test_inferences_are_in_zephyrs_trace(tool: Tool, apps: Path, tmp_path: Path) -> None:
    """In the Common Trace Format: native_sim writes it, babeltrace reads it with the metadata of Zephyr."""
    app = generate_app(tool, apps, "traced", ROOT / "samples" / "hello_world" / "hello_world.tflite", "-b", BOARD)
    (app / "boards").mkdir(exist_ok=True)
    (app / "boards" / "native_sim_native_64.conf").write_text(
        "CONFIG_TFLM_APP_HELLO_WORLD_ARENA_SIZE=4096\nCONFIG_TRACING=y\nCONFIG_TRACING_CTF=y\n"
        "CONFIG_TRACING_SYNC=y\nCONFIG_TRACING_BACKEND_POSIX=y\n"
    )
    tool("build", app, "--board", BOARD)
    program = app / "build" / "native_sim_native_64" / "zephyr" / "zephyr.exe"
    subprocess.run([program, f"--trace-file={tmp_path / 'channel0_0'}", "--stop_at=5"], check=True, timeout=120)
    metadata = Path(os.environ["ZEPHYR_BASE"]) / "subsys" / "tracing" / "ctf" / "tsdl" / "metadata"
    shutil.copy(metadata, tmp_path)
    read = subprocess.run(["babeltrace2", tmp_path], capture_output=True, text=True, check=True)
    events = re.findall(r'named_event: \{ name = "hello_world", arg0 = (\d), arg1 = 0 \}', read.stdout)
    assert events and events == ["1", "0"] * (len(events) // 2)

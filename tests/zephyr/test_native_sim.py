# SPDX-License-Identifier: Apache-2.0
"""An app as a program of this host, by Zephyr's native_sim."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.zephyr_apps import Tool, build_and_run, generate_app
from tflm_zephyr.arena import SLACK_BYTES

pytestmark = [pytest.mark.zephyr, pytest.mark.usefixtures("workspace")]

BOARD = "native_sim/native/64"


@pytest.mark.parametrize("board", ["native_sim", BOARD])
def test_an_app_needs_nothing_from_the_user(tool: Tool, apps: Path, tmp_path: Path, board: str) -> None:
    """Even one that was generated for another board: its arena is as large as this host's structs want it."""
    if board == "native_sim" and not _links_32_bits(tmp_path):
        pytest.skip("needs g++ with libraries for -m32: g++-multilib")
    app = apps / "native"
    if not app.is_dir():
        sample = ROOT / "samples" / "digits" / "app.yaml"
        argv = ["--app", sample, "-b", "nrf52840dk/nrf52840", "--kernels", "reference"]
        generate_app(tool, apps, app.name, *argv)
    (result,) = build_and_run(tool, app, board)
    assert (result["status"], result["where"]) == ("pass", "native_sim")
    arena = tool("generate", "-o", app, as_json=True)["models"][0]["arena"]["by_target"]
    size, used = arena["ilp32" if board == "native_sim" else "lp64"], result["arena"]["used_bytes"]
    assert size == result["arena"]["size_bytes"]
    assert used <= size - SLACK_BYTES and (board == BOARD or size - SLACK_BYTES < used + 16)


def _links_32_bits(folder: Path) -> bool:
    (folder / "main.cpp").write_text("#include <new>\nint main() { return 0; }\n")
    argv = ["g++", "-m32", folder / "main.cpp", "-o", folder / "main"]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(shutil.which("babeltrace2") is None, reason="needs babeltrace2")
def test_inferences_are_in_zephyrs_trace(tool: Tool, apps: Path, tmp_path: Path) -> None:
    """In the Common Trace Format: native_sim writes it, babeltrace reads it with the metadata of Zephyr."""
    app = generate_app(tool, apps, "traced", ROOT / "samples" / "hello_world" / "hello_world.tflite", "-b", BOARD)
    (app / "boards").mkdir(exist_ok=True)
    (app / "boards" / "native_sim_native_64.conf").write_text(
        "CONFIG_TRACING=y\nCONFIG_TRACING_CTF=y\nCONFIG_TRACING_SYNC=y\nCONFIG_TRACING_BACKEND_POSIX=y\n"
    )
    tool("build", app, "--board", BOARD)
    program = app / "build" / "native_sim_native_64" / "zephyr" / "zephyr.exe"
    subprocess.run([program, f"--trace-file={tmp_path / 'channel0_0'}", "--stop_at=5"], check=True, timeout=120)
    metadata = Path(os.environ["ZEPHYR_BASE"]) / "subsys" / "tracing" / "ctf" / "tsdl" / "metadata"
    shutil.copy(metadata, tmp_path)
    read = subprocess.run(["babeltrace2", tmp_path], capture_output=True, text=True, check=True)
    events = re.findall(r'named_event: \{ name = "hello_world", arg0 = (\d), arg1 = 0 \}', read.stdout)
    assert events and events == ["1", "0"] * (len(events) // 2)

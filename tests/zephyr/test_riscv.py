# SPDX-License-Identifier: Apache-2.0
"""Apps for a core that is not Arm's, in QEMU: interpreted and compiled, equal to the reference."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.riscv_toolchain import riscv_environment
from tests.helpers.zephyr_apps import Tool, build_and_run, check_results, generate_app
from tflm_zephyr.arena import SLACK_BYTES
from tflm_zephyr.build.workspace import Workspace

pytestmark = [pytest.mark.zephyr, pytest.mark.usefixtures("workspace", "riscv")]

BOARD = "qemu_riscv32"
DIGITS = ROOT / "samples" / "digits"


@pytest.fixture
def riscv(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("qemu-system-riscv32") is None:
        pytest.skip("needs qemu-system-riscv32")
    found = riscv_environment(tmp_path_factory.mktemp("riscv"))
    if found is None:
        pytest.skip("needs a Zephyr SDK with RISC-V, or gcc and picolibc for riscv64-unknown-elf and arm-none-eabi-g++")
    for name, value in found.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("backend", ["interpreter", "compiled"])
def test_an_app(tool: Tool, apps: Path, workspace: Workspace, backend: str) -> None:
    argv = [DIGITS / "digits.tflite", "--inputs", DIGITS / "test.npz", "--runs", "5", "--backend", backend]
    app = generate_app(tool, apps, f"riscv_{backend}", *argv, "-b", BOARD)
    results = build_and_run(tool, app, BOARD)
    check_results(results, app, f"{BOARD}/qemu_virt_riscv32", workspace.tflm_revision)
    (result,) = results
    assert len(result["runs"]) == 5 and result["kernels"] == "reference"
    if backend == "compiled":
        linked = generate_app(tool, apps, "riscv_link", *argv, "-b", BOARD, "--host-link")
        tool("build", linked, "--board", BOARD)
        assert "10 of 10 equal byte for byte" in tool("verify", "--app", linked, "--board", BOARD)
    else:
        made = tool("generate", "-o", app, as_json=True)["models"][0]["arena"]
        assert made["bytes"] == made["by_target"]["ilp32"] == result["arena"]["size_bytes"]
        assert made["bytes"] - SLACK_BYTES - 16 < result["arena"]["used_bytes"] <= made["bytes"] - SLACK_BYTES

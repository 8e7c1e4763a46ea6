# SPDX-License-Identifier: Apache-2.0
"""The QEMU command line."""

from __future__ import annotations

from pathlib import Path

from tflm_zephyr.boards.board import QemuSpec, load_board
from tflm_zephyr.device.transport.qemu_command import qemu_argv

SPEC = QemuSpec("mps2-an385", "cortex-m3")


def test_argv_exactly() -> None:
    assert qemu_argv(SPEC, Path("b/zephyr.elf")) == (
        *("qemu-system-arm", "-machine", "mps2-an385", "-cpu", "cortex-m3"),
        *("-nographic", "-vga", "none", "-net", "none", "-monitor", "none"),
        *("-chardev", "stdio,id=con,signal=off", "-serial", "chardev:con"),
        *("-semihosting-config", "enable=on,target=native"),
        *("-icount", "shift=0", "-kernel", "b/zephyr.elf"),
    )


def test_extra_arguments_and_no_icount() -> None:
    spec = load_board("mps2/an521/cpu0").qemu
    assert spec is not None
    argv = qemu_argv(spec, Path("x"), icount=False, binary="/q")
    assert argv[0] == "/q"
    assert "-icount" not in argv
    assert argv[5:9] == ("-global", "sse-200.CPU0_DSP=on", "-global", "sse-200.CPU0_FPU=on")

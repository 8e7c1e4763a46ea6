# SPDX-License-Identifier: Apache-2.0
"""The command line that runs a Zephyr ELF in QEMU. Pure: values in, argv out."""

from __future__ import annotations

from pathlib import Path

from tflm_zephyr.boards import QemuSpec


def qemu_argv(spec: QemuSpec, elf: Path, *, icount: bool = True, binary: str | None = None) -> tuple[str, ...]:
    """QEMU's argv: the first serial port on stdin and stdout, no window, no network, no monitor.

    With `icount`, one instruction is one nanosecond of emulated time: ticks repeat exactly from run to run.
    Semihosting is on, so an app can end QEMU with an exit code of its own (SYS_EXIT_EXTENDED).
    """
    return (
        binary or spec.binary,
        *("-machine", spec.machine, "-cpu", spec.cpu, *spec.extra),
        *("-nographic", "-vga", "none", "-net", "none", "-monitor", "none"),
        *("-chardev", "stdio,id=con,signal=off", "-serial", "chardev:con"),
        *("-semihosting-config", "enable=on,target=native"),
        *(("-icount", "shift=0") if icount else ()),
        *("-kernel", str(elf)),
    )

# SPDX-License-Identifier: Apache-2.0
"""The command line that runs a Zephyr ELF in qemu-system-arm. Pure: values in, argv out."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tflm_zephyr.boards import QemuSpec

# exec()s its arguments as a process that the kernel kills when the parent ends, however that ends: argv[1] is
# the parent's id, and a parent that is gone already has left this process to another. Linux only; elsewhere
# the program just runs. The parent is the thread that starts it.
_LEASH = """
import ctypes, os, signal, sys
try:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
except (AttributeError, OSError):
    pass
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execvp(sys.argv[2], sys.argv[2:])
"""


def qemu_argv(spec: QemuSpec, elf: Path, *, icount: bool = True, binary: str | None = None) -> tuple[str, ...]:
    """The first serial port on stdin and stdout, no window, no network, no monitor.

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


def leashed(argv: Sequence[str]) -> tuple[str, ...]:
    """`argv` as a process that does not outlive this one, even when this one is killed by SIGKILL."""
    return (sys.executable, "-I", "-S", "-c", _LEASH, str(os.getpid()), *argv)

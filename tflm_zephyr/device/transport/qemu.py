# SPDX-License-Identifier: Apache-2.0
"""An app in QEMU as a link: its first serial port on a pipe; QEMU ends with the link, whatever happens."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tflm_zephyr.boards import Board, QemuSpec
from tflm_zephyr.device.transport.child import ChildLink
from tflm_zephyr.device.transport.link import Capabilities
from tflm_zephyr.device.transport.qemu_command import qemu_argv
from tflm_zephyr.device.transport.target import DeviceTarget, Transport
from tflm_zephyr.errors import DeviceError

_NANOSECONDS = 1_000_000_000
_CAPABILITIES = Capabilities(starts_app=True, several=True)


class QemuLink(ChildLink):
    """`elf` in QEMU. Open it in the thread that reads it; QEMU ends with that thread."""

    where = "qemu"
    capabilities = _CAPABILITIES

    def __init__(self, spec: QemuSpec, elf: Path, *, icount: bool = True) -> None:
        """For `icount` see qemu_argv. Nothing is started yet."""
        super().__init__(f"QEMU {spec.machine}", "QEMU")
        self._spec, self._elf, self._icount = spec, elf, icount
        # With -icount shift=0 an instruction is a nanosecond; the clock is the machine's, whatever Zephyr takes it for.
        self.instructions_per_tick = _NANOSECONDS // spec.clock_hz if icount and spec.clock_hz else None

    def argv(self) -> tuple[str, ...]:
        """See ChildLink. Raises DeviceError when there is no ELF or no QEMU."""
        if not self._elf.is_file():
            raise DeviceError("no such ELF file", where=str(self._elf), hint="Build the app first")
        return qemu_argv(self._spec, self._elf, icount=self._icount, binary=find_qemu(self._spec))

    def reason(self, lines: list[str]) -> str:
        """See ChildLink. After a fatal error QEMU prints all registers; QEMU's own messages start with its name."""
        printed = [line for line in lines if "warning:" not in line]
        own = [line for line in printed if line.startswith("qemu")]
        return next(iter(own or printed[-1:]), "")


def find_qemu(spec: QemuSpec) -> str:
    """The path of QEMU: from QEMU_BIN_PATH, as Zephyr's build takes it, or PATH. Raises DeviceError."""
    folders = os.environ.get("QEMU_BIN_PATH")
    found = (shutil.which(spec.binary, path=folders) if folders else None) or shutil.which(spec.binary)
    if found is None:
        raise DeviceError(
            "QEMU is not installed",
            where=spec.binary,
            hint=f"Debian and Ubuntu: apt install {spec.package}; or set QEMU_BIN_PATH to its folder",
        )
    return found


def _serves(target: DeviceTarget, board: Board | None) -> bool:
    return board is not None and board.qemu is not None and not target.port


def _link(target: DeviceTarget, board: Board | None, program: Path | None) -> QemuLink:
    assert board is not None and board.qemu is not None and program is not None  # as _serves has it
    return QemuLink(board.qemu, program, icount=target.icount)


TRANSPORT = Transport("qemu", _CAPABILITIES, _serves, _link, program="zephyr.elf")

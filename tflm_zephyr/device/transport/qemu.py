# SPDX-License-Identifier: Apache-2.0
"""An app in QEMU as a link: its first serial port on a pipe; QEMU ends with the link, whatever happens."""

from __future__ import annotations

import os
import select
import shutil
import time
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from tflm_zephyr import process
from tflm_zephyr.boards import QemuSpec
from tflm_zephyr.device.transport.link import LinkEndedError, Where
from tflm_zephyr.device.transport.qemu_command import leashed, qemu_argv
from tflm_zephyr.errors import DeviceError

_CHUNK = 1 << 16
_KEPT_STDERR = 4096
_EXIT_S = 2.0


class QemuLink:
    """`elf` in QEMU. Opened in the thread that reads it: QEMU does not outlive that thread."""

    where: Where = "qemu"

    def __init__(self, spec: QemuSpec, elf: Path, *, icount: bool = True) -> None:
        """See qemu_argv for `icount`. Starts nothing."""
        self.name = f"QEMU {spec.machine}"
        self._spec, self._elf, self._icount = spec, elf, icount
        self._stack = ExitStack()
        self._stderr = b""

    def open(self) -> None:
        """Start QEMU. Raises DeviceError when there is no ELF or no QEMU."""
        if not self._elf.is_file():
            raise DeviceError("no such ELF file", where=str(self._elf), hint="Build the app first")
        argv = leashed(qemu_argv(self._spec, self._elf, icount=self._icount, binary=find_qemu(self._spec.binary)))
        self._stderr = b""
        self._child = self._stack.enter_context(process.spawn(argv, stdin=process.PIPE))

    def close(self) -> None:
        """Kill QEMU if it still runs."""
        self._stack.close()

    def read(self, timeout_s: float) -> bytes:
        """See Link.read."""
        out, err = _stream(self._child.stdout), _stream(self._child.stderr)
        streams = [out, err]
        while True:
            ready, _, _ = select.select(streams, [], [], timeout_s)
            if err in ready:
                said = os.read(err.fileno(), _CHUNK)
                self._stderr = (self._stderr + said)[-_KEPT_STDERR:]
                if not said:
                    streams.remove(err)
            if out in ready:
                data = os.read(out.fileno(), _CHUNK)
                if not data:
                    raise LinkEndedError(self._epitaph(err if err in streams else None))
                return data
            if not ready:
                return b""

    def write(self, data: bytes) -> None:
        """See Link.write."""
        fd, rest = _stream(self._child.stdin).fileno(), memoryview(data)
        try:
            while rest:
                rest = rest[os.write(fd, rest) :]
        except OSError as err:
            raise LinkEndedError(self._epitaph(None)) from err

    def _epitaph(self, err: IO[bytes] | None) -> str:
        """Why QEMU ended: its exit code and what it had to say, warnings apart."""
        deadline = time.monotonic() + _EXIT_S
        while self._child.poll() is None:
            if time.monotonic() >= deadline:
                return "QEMU closed its output"
            time.sleep(0.01)
        if err is not None:
            self._stderr += err.read()
        code = self._child.returncode
        lines = self._stderr.decode("utf-8", "replace").splitlines()
        said = [line.strip() for line in lines if line.strip() and "warning:" not in line]
        # After a fatal error QEMU prints all registers; its own words start with its name.
        said = [line for line in said if line.startswith("qemu")] or said[-1:]
        return f"QEMU ended with exit code {code}" + (f": {said[0]}" if said else "")


def find_qemu(binary: str) -> str:
    """The path of QEMU: from QEMU_BIN_PATH, as Zephyr's build takes it, or PATH. Raises DeviceError."""
    folders = os.environ.get("QEMU_BIN_PATH")
    found = (shutil.which(binary, path=folders) if folders else None) or shutil.which(binary)
    if found is None:
        raise DeviceError(
            "QEMU is not installed",
            where=binary,
            hint="Debian and Ubuntu: apt install qemu-system-arm; or set QEMU_BIN_PATH to its folder",
        )
    return found


def _stream(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream

# SPDX-License-Identifier: Apache-2.0
"""Zephyr's native_sim as a transport: the app is a program of this host, its console standard input and output.

A build for native_sim has zephyr/zephyr.exe (Zephyr: boards/native/native_sim/doc). Its first UART goes to standard
input and output with CONFIG_UART_NATIVE_PTY_0_ON_STDINOUT=y (or CONFIG_NATIVE_UART_0_ON_STDINOUT=y). Simulated time
stands still while the code runs, so ticks measure nothing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tflm_zephyr.boards import Board
from tflm_zephyr.device.transport.child import ChildLink
from tflm_zephyr.device.transport.link import Capabilities
from tflm_zephyr.device.transport.target import DeviceTarget, Transport
from tflm_zephyr.errors import DeviceError

_BOARDS = ("native_sim", "native_posix")
_CAPABILITIES = Capabilities(starts_app=True, several=True, counts_ticks=False)


class NativeLink(ChildLink):
    """`program`, a native_sim executable, as a child. Opened in the thread that reads it."""

    where = "native_sim"
    capabilities = _CAPABILITIES

    def __init__(self, program: Path) -> None:
        """`program`: the executable. Nothing is started yet."""
        super().__init__(f"native_sim {program.name}", "the app")
        self._path = program

    def argv(self) -> Sequence[str]:
        """See ChildLink. Raises DeviceError when the program is not there or may not be run."""
        if not self._path.is_file():
            raise DeviceError("no such program", where=str(self._path), hint="Build the app for native_sim first")
        if not os.access(self._path, os.X_OK):
            raise DeviceError("may not be run", where=str(self._path), hint="Build the app for native_sim again")
        return [str(self._path.resolve())]

    def reason(self, lines: list[str]) -> str:
        """See ChildLink: the last line is the error that ended the program."""
        return lines[-1] if lines else ""


def _serves(target: DeviceTarget, board: Board | None) -> bool:
    return board is not None and board.name.partition("/")[0] in _BOARDS and not target.port


def _link(target: DeviceTarget, board: Board | None, program: Path | None) -> NativeLink:
    assert program is not None  # as this transport runs one
    return NativeLink(program)


TRANSPORT = Transport("native_sim", _CAPABILITIES, _serves, _link, program="zephyr.exe")

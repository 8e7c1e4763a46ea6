# SPDX-License-Identifier: Apache-2.0
"""A scripted device on a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import threading
import time
import tty
from collections.abc import Callable, Sequence
from types import TracebackType

Step = bytes | float | Callable[[], None]


class PtyDevice:
    """Plays its steps once someone opened `port`: bytes are sent, numbers are pauses in seconds.

    With `unplug`, the port vanishes after the last step. Steps start by `start()`, or at once.
    """

    def __init__(self, steps: Sequence[Step], *, unplug: bool = False, wait: bool = False) -> None:
        self._steps, self._unplug = steps, unplug
        self._master, self._slave = pty.openpty()
        tty.setraw(self._slave)
        os.set_blocking(self._master, False)
        self.port = os.ttyname(self._slave)
        self._go = threading.Event()
        self._stop = threading.Event()
        if not wait:
            self._go.set()
        self._thread = threading.Thread(target=self._play, daemon=True)

    def start(self) -> None:
        """Let a device made with `wait` begin."""
        self._go.set()

    def received(self, count: int, seconds: float = 5.0) -> bytes:
        """The next `count` bytes that the host sends, or fewer after `seconds`."""
        data, ends = b"", time.monotonic() + seconds
        while len(data) < count and time.monotonic() < ends:
            try:
                data += os.read(self._master, count - len(data))
            except BlockingIOError:
                time.sleep(0.001)
        return data

    def __enter__(self) -> PtyDevice:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._go.set()
        self._thread.join()
        self._close()

    def _play(self) -> None:
        self._go.wait()
        # Opening a pty flushes nothing, but pyserial empties the input when it opens a port.
        self._stop.wait(0.05)
        for step in self._steps:
            if self._stop.is_set():
                return
            if isinstance(step, bytes):
                self._send(step)
            elif callable(step):
                step()
            else:
                self._stop.wait(step)
        if self._unplug:
            time.sleep(0.05)
            self._close()

    def _send(self, data: bytes) -> None:
        while data and not self._stop.is_set():
            try:
                data = data[os.write(self._master, data) :]
            except BlockingIOError:
                self._stop.wait(0.001)

    def _close(self) -> None:
        for name in ("_slave", "_master"):
            fd = getattr(self, name)
            if fd >= 0:
                setattr(self, name, -1)
                os.close(fd)

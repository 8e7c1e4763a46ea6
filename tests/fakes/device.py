# SPDX-License-Identifier: Apache-2.0
"""A scripted device on a pseudo-terminal."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence

from tests.fakes.in_thread import InThread, raw_pty

Step = bytes | float | Callable[[], None]


class PtyDevice(InThread):
    """Plays its steps once someone opened `port`: bytes are sent, numbers are pauses in seconds.

    With `unplug`, the port vanishes after the last step. Steps start by `start()`, or at once.
    """

    def __init__(self, steps: Sequence[Step], *, unplug: bool = False, wait: bool = False) -> None:
        super().__init__()
        self._steps, self._unplug = steps, unplug
        self._master, self._slave = raw_pty(blocking=False)
        self.port = os.ttyname(self._slave)
        self._go = threading.Event()
        if not wait:
            self._go.set()

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

    def end(self) -> None:
        """See InThread."""
        self._close()

    def work(self) -> None:
        """See InThread."""
        while not self._go.wait(0.05):
            if self.stop.is_set():
                return
        # Opening a pty flushes nothing, but pyserial empties the input when it opens a port.
        self.stop.wait(0.05)
        for step in self._steps:
            if self.stop.is_set():
                return
            if isinstance(step, bytes):
                self._send(step)
            elif callable(step):
                step()
            else:
                self.stop.wait(step)
        if self._unplug:
            time.sleep(0.05)
            self._close()

    def _send(self, data: bytes) -> None:
        while data and not self.stop.is_set():
            try:
                data = data[os.write(self._master, data) :]
            except BlockingIOError:
                self.stop.wait(0.001)

    def _close(self) -> None:
        for name in ("_slave", "_master"):
            fd = getattr(self, name)
            if fd >= 0:
                setattr(self, name, -1)
                os.close(fd)

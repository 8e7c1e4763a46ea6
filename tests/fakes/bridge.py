# SPDX-License-Identifier: Apache-2.0
"""An app in QEMU behind a pseudo-terminal, as a board behind its serial port."""

from __future__ import annotations

import os
import pty
import select
import threading
import tty
from types import TracebackType

from tflm_zephyr.run.link import Link, LinkEndedError, Opened


class PtyBridge:
    """Carries bytes between `link` and `port` until its block ends. The link is opened in the thread that uses it."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._master, self._slave = pty.openpty()
        tty.setraw(self._slave)
        self.port = os.ttyname(self._slave)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self.ended = ""

    def __enter__(self) -> PtyBridge:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        os.close(self._slave)
        os.close(self._master)

    def _carry(self) -> None:
        try:
            with Opened(self._link) as link:
                while not self._stop.is_set():
                    data = link.read(0.002)
                    while data:
                        data = data[os.write(self._master, data) :]
                    if select.select([self._master], [], [], 0)[0]:
                        link.write(os.read(self._master, 4096))
        except LinkEndedError as end:
            self.ended = str(end)

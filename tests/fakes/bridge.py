# SPDX-License-Identifier: Apache-2.0
"""An app in QEMU behind a pseudo-terminal, as a board behind its serial port."""

from __future__ import annotations

import os
import select

from tests.fakes.in_thread import InThread, raw_pty
from tflm_zephyr.device.transport.link import Link, LinkEndedError, Opened


class PtyBridge(InThread):
    """Carries bytes between `link` and `port` until its block ends. The link is opened in the thread that uses it."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self._link = link
        self._master, self._slave = raw_pty()
        self.port = os.ttyname(self._slave)
        self.ended = ""

    def end(self) -> None:
        """See InThread."""
        os.close(self._slave)
        os.close(self._master)

    def work(self) -> None:
        """See InThread."""
        try:
            with Opened(self._link) as link:
                while not self.stop.is_set():
                    data = link.read(0.002)
                    while data:
                        data = data[os.write(self._master, data) :]
                    if select.select([self._master], [], [], 0)[0]:
                        link.write(os.read(self._master, 4096))
        except LinkEndedError as end:
            self.ended = str(end)

# SPDX-License-Identifier: Apache-2.0
"""Links: what carries bytes between this host and an app. One protocol over serial ports and QEMU."""

from __future__ import annotations

from types import TracebackType
from typing import Literal, Protocol

Where = Literal["qemu", "serial", "host"]


class LinkEndedError(Exception):
    """Nothing more will come: QEMU ended, the cable was pulled. Its text says why, in one line."""


class LinkBlockedError(LinkEndedError):
    """What is there takes no bytes any more."""


class Link(Protocol):
    """A byte stream to and from one app. Nothing is opened or started before `open`.

    `name` is for messages (a port, a program); `where` goes into results.
    """

    name: str
    where: Where

    def open(self) -> None:
        """Open the port or start the emulator. Raises DeviceError."""

    def close(self) -> None:
        """Release everything; does nothing when not open."""

    def read(self, timeout_s: float) -> bytes:
        """What has come, as soon as something has; b"" when nothing came in `timeout_s`.

        Raises LinkEndedError.
        """
        ...

    def write(self, data: bytes) -> None:
        """Send all of `data`. Raises LinkEndedError; LinkBlockedError when it is not taken in time."""


class Opened:
    """`with Opened(link):` opens a link and always closes it."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def __enter__(self) -> Link:
        try:
            self._link.open()
        except BaseException:
            self._link.close()
            raise
        return self._link

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._link.close()

# SPDX-License-Identifier: Apache-2.0
"""Links, which carry bytes between this host and an app, and the capabilities that a transport declares."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Protocol


class LinkEndedError(Exception):
    """The link has ended: QEMU exited, the cable was pulled. The text gives the reason in one line."""


class LinkBlockedError(LinkEndedError):
    """The other side takes no bytes any more."""


@dataclass(frozen=True)
class Capabilities:
    """A transport's properties. Callers ask these, never a transport's name or a link's class.

    - `carries_bytes`: a Link leads to the app. Without it, TFLM on this host runs the model.
    - `starts_app`: opening the link starts the app from its beginning, closing it ends the app.
    - `reopens`: a link that ended can be opened again, and the app behind it has gone on (a cable that is put back).
    - `several`: any number of links to the same target can be open at once.
    - `can_flash`: west can flash the app while the link is open.
    - `counts_ticks`: ticks measure the work that an invocation takes.
    """

    carries_bytes: bool = True
    starts_app: bool = False
    reopens: bool = False
    several: bool = False
    can_flash: bool = False
    counts_ticks: bool = True


class Link(Protocol):
    """A byte stream to and from one app. Nothing is opened or started before `open`.

    `name` is for messages (a port, a program); `where`, the transport's name, goes into results.
    `instructions_per_tick` is None unless ticks count instructions.
    """

    @property
    def name(self) -> str: ...

    @property
    def where(self) -> str: ...

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def instructions_per_tick(self) -> int | None: ...

    def open(self) -> None:
        """Open the port or start the emulator. Raises DeviceError."""

    def close(self) -> None:
        """Release everything; does nothing when not open."""

    def read(self, timeout_s: float) -> bytes:
        """The bytes that have come, as soon as there are any; b"" when nothing came in `timeout_s`.

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

# SPDX-License-Identifier: Apache-2.0
"""What stand-ins for devices share: a thread for the time of a `with` block, and pseudo-terminals."""

from __future__ import annotations

import os
import pty
import threading
import tty
from abc import ABC, abstractmethod
from types import TracebackType
from typing import TypeVar

_Self = TypeVar("_Self", bound="InThread")


class InThread(ABC):
    """Does its `work` in a thread of its own until its block ends; `work` looks at `stop` now and then."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self._thread = threading.Thread(target=self.work, daemon=True)

    def begin(self) -> None:  # noqa: B027  (a hook that may stay empty)
        """Before the thread starts."""

    @abstractmethod
    def work(self) -> None:
        """In the thread."""

    def end(self) -> None:  # noqa: B027
        """After the thread has ended: what is to be closed."""

    def __enter__(self: _Self) -> _Self:
        self.begin()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop.set()
        self._thread.join()
        self.end()


def raw_pty(*, blocking: bool = True) -> tuple[int, int]:
    """The two ends of a pseudo-terminal that changes no byte: master and slave; `blocking`: the master's."""
    master, slave = pty.openpty()
    tty.setraw(slave)
    os.set_blocking(master, blocking)
    return master, slave

# SPDX-License-Identifier: Apache-2.0
"""A child process as a link: the app's console is its standard input and output; it ends with the link."""

from __future__ import annotations

import os
import select
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from typing import IO

from tflm_zephyr import process
from tflm_zephyr.device.transport.link import LinkEndedError

_CHUNK = 1 << 16
_KEPT_STDERR = 4096
_EXIT_S = 2.0


class ChildLink(ABC):
    """A Link to a program that this process starts. Open it in the thread that reads it; it ends with that thread."""

    instructions_per_tick: int | None = None

    def __init__(self, name: str, program: str) -> None:
        """`name`: see Link. `program`: the child's name in messages. Nothing is started yet."""
        self.name = name
        self._program = program
        self._stack = ExitStack()
        self._stderr = b""

    @abstractmethod
    def argv(self) -> Sequence[str]:
        """The command line. Raises DeviceError when there is nothing to start."""

    @abstractmethod
    def reason(self, lines: list[str]) -> str:
        """The line that says why the child ended, of the last non-empty lines on standard error."""

    def open(self) -> None:
        """Start the child. Raises DeviceError."""
        argv = self.argv()
        self._stderr = b""
        self._child = self._stack.enter_context(process.spawn(argv, stdin=process.PIPE))

    def close(self) -> None:
        """Kill the child if it still runs."""
        self._stack.close()

    def read(self, timeout_s: float) -> bytes:
        """See Link.read."""
        out, err = _stream(self._child.stdout), _stream(self._child.stderr)
        streams = [out, err]
        while True:
            ready, _, _ = select.select(streams, [], [], timeout_s)
            if err in ready:
                text = os.read(err.fileno(), _CHUNK)
                self._stderr = (self._stderr + text)[-_KEPT_STDERR:]
                if not text:
                    streams.remove(err)
            if out in ready:
                data = os.read(out.fileno(), _CHUNK)
                if not data:
                    raise LinkEndedError(self._why_ended(err if err in streams else None))
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
            raise LinkEndedError(self._why_ended(None)) from err

    def _why_ended(self, err: IO[bytes] | None) -> str:
        """The child's exit code, and the reason that it gave on standard error."""
        deadline = time.monotonic() + _EXIT_S
        while self._child.poll() is None:
            if time.monotonic() >= deadline:
                return f"{self._program} closed its output"
            time.sleep(0.01)
        if err is not None:
            self._stderr += err.read()
        lines = [line.strip() for line in self._stderr.decode("utf-8", "replace").splitlines() if line.strip()]
        reason = self.reason(lines)
        return f"{self._program} ended with exit code {self._child.returncode}" + (f": {reason}" if reason else "")


def _stream(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream

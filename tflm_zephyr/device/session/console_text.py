# SPDX-License-Identifier: Apache-2.0
"""The app's text between frames: passed on line by line, kept for errors, watched for crashes."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable

from tflm_zephyr.device.console.records import is_crash
from tflm_zephyr.device.console.status import sentence
from tflm_zephyr.device.session.readable import NOISE, readable
from tflm_zephyr.errors import DeviceError

_MAX_LINE_BYTES = 4096
_KEPT_LINES, _KEPT_CHARS = 3, 120
_CRASH_TAIL_S = 0.3  # what else a crashing app says
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # Zephyr's log has it
_ERROR = re.compile(r"TFLM:error code=(\d{1,9}) at=(\w+)")
_SELF_TEST = re.compile(r"TFLM:(begin|end|output|ticks) ")


class Heard:
    """What came beside the protocol."""

    def __init__(self, name: str, on_text: Callable[[str], None] | None = None) -> None:
        """`name` is the link's, for errors; `on_text` gets each line without its end."""
        self._name, self._on_text = name, on_text
        self._line = b""
        self._last: deque[str] = deque(maxlen=_KEPT_LINES)
        self._crash = ""
        self._crash_at: float | None = None
        self._self_test = False
        self.any = False
        self.frames = False

    def text(self, data: bytes) -> None:
        """Bytes between frames."""
        *lines, self._line = (self._line + data).split(b"\n")
        if len(self._line) > _MAX_LINE_BYTES:
            lines.append(self._line)
            self._line = b""
        for line in lines:
            self._take(_COLOUR.sub("", line.decode("utf-8", "replace")).rstrip("\r"))

    def _take(self, line: str) -> None:
        shown = readable(line)
        if not shown.strip() or len(NOISE.findall(line)) > len(shown) // 8:
            return  # what is left of a frame, or of another baud rate
        self._last.append(shown.strip()[:_KEPT_CHARS])
        if self._on_text is not None:
            self._on_text(shown)
        self._self_test = self._self_test or _SELF_TEST.match(line) is not None
        error = _ERROR.match(line)
        if error is not None and not self._crash:
            self._crash = sentence(int(error[1]), error[2])
        elif not self._crash and is_crash(line):
            self._crash = shown.strip()[:_KEPT_CHARS]

    def flush(self) -> None:
        """A line that has no end yet is told as it is: nothing more will come."""
        if self._line:
            self.text(b"\n")

    def check_crash(self, now: float) -> None:
        """DeviceError a moment after the first line of a crash."""
        if self._crash and self._crash_at is None:
            self._crash_at = now
        if self._crash_at is not None and now - self._crash_at >= _CRASH_TAIL_S:
            crash, self._crash, self._crash_at = self._crash, "", None
            raise DeviceError(f"the app crashed: {crash}", where=self._name, hint=self._tail())

    @property
    def crashing(self) -> bool:
        """Whether the first line of a crash was heard."""
        return bool(self._crash)

    def silent(self, seconds: float, *, begun: bool) -> DeviceError:
        """Why no answer came within `seconds`; `begun`: a session was there already."""
        if begun:
            return DeviceError(f"no answer within {seconds:g} s", where=self._name, hint=self._tail())
        if self._self_test:
            return DeviceError(
                "the app there runs its self-test and has no host link",
                where=self._name,
                hint="Generate it with host_link: true in its app file, build and flash it",
            )
        if not self.any:
            return DeviceError(
                f"nothing heard within {seconds:g} s",
                where=self._name,
                hint="Is an app with host_link: true flashed, and are this its port and baud rate?",
            )
        what = f"no answer to the link's hello within {seconds:g} s"
        hint = self._tail() or "What came is no text: is this the app's baud rate?"
        return DeviceError(what, where=self._name, hint=hint)

    def ended(self, why: str) -> DeviceError:
        """The link is gone for good."""
        self.flush()
        if self._crash:
            return DeviceError(f"the app crashed: {self._crash}", where=self._name, hint=self._tail())
        return DeviceError(why or "the link ended", where=self._name, hint=self._tail())

    def _tail(self) -> str:
        return f"Last heard: {' | '.join(self._last)}" if self._last else ""

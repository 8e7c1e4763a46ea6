# SPDX-License-Identifier: Apache-2.0
"""An app's console: bytes -> lines of text, watched for a crash. The last lines are kept for error messages."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterator

from tflm_zephyr.device.console.records import PREFIX
from tflm_zephyr.device.readable import NOISE, readable
from tflm_zephyr.device.transport.link import Link, LinkEndedError
from tflm_zephyr.errors import DeviceError

POLL_S = 0.1  # between two looks at the clock
CRASH_TAIL_S = 0.5  # how long to read on after the first line of a crash
MAX_LINE_BYTES = 4096  # noise without newlines is cut there
KEPT_LINES, KEPT_CHARS = 5, 120
_NOISY_SHARE = 8  # a line with more than one stretch of noise per this many characters is no text

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # Zephyr's log has it
_CRASH = re.compile(r"FATAL ERROR|ASSERTION FAIL|\*{5} [A-Z ]+ \*{5}|(HARD|MPU|BUS|USAGE|SECURE) FAULT|Halting system")


def is_crash(line: str) -> bool:
    """Whether Zephyr prints this line when a fault or an assertion ends the app."""
    return PREFIX not in line and _CRASH.search(line) is not None


class ConsoleReader:
    """Cuts an app's output into lines, keeps the last for error messages, and detects the first line of a crash."""

    def __init__(
        self, name: str, on_line: Callable[[str], None] | None = None, *, between_frames: bool = False
    ) -> None:
        """`name`: the link's name, for errors. `on_line`: gets each line, made safe for a terminal.

        `between_frames`: lines that are mostly noise are the rest of damaged frames, and are ignored.
        """
        self._name, self._on_line, self._between_frames = name, on_line, between_frames
        self._unfinished = b""
        self._last: deque[str] = deque(maxlen=KEPT_LINES)
        self._crash_at = 0.0
        self.crash = ""  # its first line
        self.received = False  # anything but blanks

    def lines(self, data: bytes) -> Iterator[str]:
        """Each line that `data` completes, without its end and without colours."""
        self.received = self.received or bool(data.strip())
        *ended, self._unfinished = (self._unfinished + data).split(b"\n")
        if len(self._unfinished) > MAX_LINE_BYTES:
            ended.append(self._unfinished)
            self._unfinished = b""
        for raw in ended:
            line = _COLOUR.sub("", raw.decode("utf-8", "replace")).rstrip("\r")
            shown = readable(line)
            if self._between_frames and (not shown.strip() or len(NOISE.findall(line)) > len(shown) // _NOISY_SHARE):
                continue
            if shown.strip():
                self._last.append(shown.strip()[:KEPT_CHARS])
            if self._on_line is not None:
                self._on_line(shown)
            if is_crash(line):
                self.note_crash(shown)
            yield line

    def last_line(self) -> Iterator[str]:
        """The unfinished line, when no more bytes will come."""
        return self.lines(b"\n") if self._unfinished else iter(())

    def note_crash(self, text: str) -> None:
        """Record a crash that began with `text`, unless one has begun already."""
        if not self.crash:
            self.crash, self._crash_at = text.strip()[:KEPT_CHARS], time.monotonic()

    @property
    def crash_ends(self) -> float:
        """Time until which a crashing app may print more (time.monotonic); infinite without a crash."""
        return self._crash_at + CRASH_TAIL_S if self.crash else float("inf")

    def crashed(self) -> DeviceError:
        """The crash as an error; forgets it, so that the next crash is a new one."""
        crash, self.crash = self.crash, ""
        return self.error(f"the app crashed: {crash}")

    def error(self, what: str, hint: str = "") -> DeviceError:
        """`what` with the last lines, or with `hint` when there are none."""
        last = f"Last lines: {' | '.join(self._last)}" if self._last else hint
        return DeviceError(what, where=self._name, hint=last)


def read_lines(
    link: Link,
    reader: ConsoleReader,
    take: Callable[[str], bool],
    *,
    timeout_s: float,
    silence_s: float,
    late: Callable[[], DeviceError],
    first: bytes = b"",
) -> None:
    """Read the open `link` until `take`, which gets each line, returns True. `first` are bytes that came before.

    Raises DeviceError: nothing within `silence_s`, a crash, the link's end; `late()` after `timeout_s`.
    """
    start = time.monotonic()
    data = first
    while True:
        for line in reader.lines(data):
            if take(line):
                return
        now = time.monotonic()
        if not reader.received and now - start >= min(silence_s, timeout_s):
            raise _silent(link, min(silence_s, timeout_s))
        ends = min(start + timeout_s, reader.crash_ends)
        if now >= ends:
            raise reader.crashed() if reader.crash else late()
        try:
            data = link.read(min(POLL_S, ends - now))
        except LinkEndedError as err:
            if any(take(line) for line in reader.last_line()):
                return
            raise (
                reader.crashed()
                if reader.crash
                else reader.error(f"{str(err) or 'the link ended'}, before the app was done")
            ) from err


def _silent(link: Link, seconds: float) -> DeviceError:
    hint = "Is the app flashed and this the console's port and baud rate? Press the board's reset button"
    if link.capabilities.starts_app:
        hint = "Was the app built for this machine, with its console on the first serial port?"
    return DeviceError(f"nothing received within {seconds:g} s", where=link.name, hint=hint)

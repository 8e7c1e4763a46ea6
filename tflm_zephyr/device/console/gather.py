# SPDX-License-Identifier: Apache-2.0
"""Drives a link until an app has said all: RunResults, or a DeviceError that carries the last lines heard."""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable

from tflm_zephyr.device.console.records import RecordReader, is_crash
from tflm_zephyr.device.console.result import RunResult
from tflm_zephyr.device.transport.link import Link, LinkEndedError, Opened
from tflm_zephyr.errors import DeviceError

_POLL_S = 0.1
_CRASH_TAIL_S = 0.5  # how long to listen on after the first line of a crash
_MAX_LINE = 4096  # bytes; noise without newlines is cut there
_KEPT_LINES, _KEPT_CHARS = 5, 120
_BANNER = re.compile(rb"\*\*\* Booting ")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # Zephyr's log has it
_NOISE = re.compile(r"[^\x20-\x7e]+")


def gather_result(
    link: Link,
    *,
    timeout_s: float = 60.0,
    silence_s: float = 15.0,
    action: Callable[[], None] | None = None,
    on_line: Callable[[str], None] | None = None,
) -> RunResult:
    """The result of an app with one model; see gather_all."""
    return gather_results(link, models=1, timeout_s=timeout_s, silence_s=silence_s, action=action, on_line=on_line)[0]


def gather_results(
    link: Link,
    *,
    models: int,
    timeout_s: float = 60.0,
    silence_s: float = 15.0,
    action: Callable[[], None] | None = None,
    on_line: Callable[[str], None] | None = None,
) -> tuple[RunResult, ...]:
    """The results of an app's `models` models, one each, in the order in which they came.

    The link is opened first, then `action` (a flash, a reset) runs, so that nothing said after it is lost;
    what the app said before its last boot is passed over. A link opened in the middle of a run waits for the
    next. `on_line` sees every line as it comes. The link is closed whatever happens.

    Raises DeviceError: nothing heard within `silence_s`, not done within `timeout_s` (both counted from the
    action's end), a crash, an error that the app reports, a lost or damaged record, the link's end.
    """
    with Opened(link) as opened:
        early = _during(opened, action) if action is not None else b""
        listener = _Listener(opened, RecordReader(link.where, link.name), on_line)
        return listener.listen(early, models, timeout_s, silence_s)


class _Listener:
    """One stretch of listening: bytes to lines to results, and what to say when they do not come."""

    def __init__(self, link: Link, reader: RecordReader, on_line: Callable[[str], None] | None) -> None:
        self._link, self._reader, self._on_line = link, reader, on_line
        self._buffer = b""
        self._last: deque[str] = deque(maxlen=_KEPT_LINES)
        self._results: dict[str, RunResult] = {}
        self._crash = ""
        self._heard = False

    def listen(self, early: bytes, models: int, timeout_s: float, silence_s: float) -> tuple[RunResult, ...]:
        start = time.monotonic()
        self._take(early)
        ends = start + timeout_s
        while len(self._results) < models:
            now = time.monotonic()
            if not self._heard and now - start >= min(silence_s, timeout_s):
                raise self._nothing_heard(min(silence_s, timeout_s))
            if now >= ends:
                raise self._crashed() if self._crash else self._late(timeout_s)
            try:
                data = self._link.read(min(_POLL_S, ends - now))
            except LinkEndedError as err:
                self._take(b"\n")
                if len(self._results) >= models:
                    break
                raise self._crashed() if self._crash else self._ended(str(err)) from err
            had_crash = bool(self._crash)
            self._take(data)
            if self._crash and not had_crash:
                ends = min(ends, time.monotonic() + _CRASH_TAIL_S)
        return tuple(self._results.values())

    def _take(self, data: bytes) -> None:
        self._heard = self._heard or bool(data.strip())
        self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        if len(self._buffer) > _MAX_LINE:
            lines.append(self._buffer)
            self._buffer = b""
        for raw in lines:
            self._line(_COLOUR.sub("", raw.decode("ascii", "replace")).rstrip("\r"))

    def _line(self, line: str) -> None:
        readable = _NOISE.sub("?", line).strip()
        if readable:
            self._last.append(readable[:_KEPT_CHARS])
        if self._on_line is not None:
            self._on_line(line)
        if not self._crash and is_crash(line):
            self._crash = readable[:_KEPT_CHARS]
        result = self._reader.feed(line)
        if result is not None:
            self._results[result.model] = result

    def _nothing_heard(self, seconds: float) -> DeviceError:
        hint = "Is the app flashed and this the console's port and baud rate? Press the board's reset button"
        if self._link.where == "qemu":
            hint = "Was the app built for this machine, with its console on the first serial port?"
        return DeviceError(f"nothing heard within {seconds:g} s", where=self._link.name, hint=hint)

    def _crashed(self) -> DeviceError:
        return DeviceError(f"the app crashed: {self._crash}", where=self._link.name, hint=self._tail())

    def _ended(self, why: str) -> DeviceError:
        what = f"{why}, before the app was done" if why else "ended before the app was done"
        return DeviceError(what, where=self._link.name, hint=self._tail())

    def _late(self, seconds: float) -> DeviceError:
        if self._reader.restarts:
            starts = self._reader.restarts + 1
            what = f"the app started {starts} times and did not get to its end within {seconds:g} s"
        elif self._reader.running:
            what = f"the app began and did not get to its end within {seconds:g} s"
        elif self._results:
            what = f"only {', '.join(self._results)} got to its end within {seconds:g} s"
        elif self._reader.stray:
            what = f"only the middle of a run was heard within {seconds:g} s; reset the board to start another"
        else:
            what = f"no result of a tflm-zephyr app within {seconds:g} s"
        return DeviceError(what, where=self._link.name, hint=self._tail() or "Give it longer with --timeout")

    def _tail(self) -> str:
        return f"Last heard: {' | '.join(self._last)}" if self._last else ""


def _during(link: Link, action: Callable[[], None]) -> bytes:
    """Run `action` and hear what comes meanwhile, which no buffer of a port would hold.

    Returns it from the last boot banner on: what came before was said by the app that was there before.
    """
    heard: list[bytes] = []
    done = threading.Event()

    def drain() -> None:
        while not done.is_set():
            try:
                heard.append(link.read(_POLL_S))
            except LinkEndedError:
                return  # the reader after the action meets the same end and reports it

    listener = threading.Thread(target=drain, daemon=True)
    listener.start()
    try:
        action()
    finally:
        done.set()
        listener.join()
    data = b"".join(heard)
    banners = list(_BANNER.finditer(data))
    return data[banners[-1].start() :] if banners else b""

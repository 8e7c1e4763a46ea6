# SPDX-License-Identifier: Apache-2.0
"""Reads a link until an app's self-tests have ended: RunResults, or a DeviceError with the last lines."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable

from tflm_zephyr.device.console.reader import POLL_S, ConsoleReader, read_lines
from tflm_zephyr.device.console.records import RecordReader
from tflm_zephyr.device.console.result import RunResult
from tflm_zephyr.device.transport.link import Link, LinkEndedError, Opened
from tflm_zephyr.errors import DeviceError

_BANNER = re.compile(rb"\*\*\* Booting ")


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

    The link is opened first, then `action` (a flash, a reset) runs, so that nothing printed after it is
    lost; text from before the app's last boot is ignored. A link opened in the middle of a run waits for the
    next. `on_line` gets every line as it comes. The link is always closed.

    Raises DeviceError when nothing is received within `silence_s`, the results are not complete within `timeout_s`
    (both from the action's end), the app crashes or reports an error, a record is lost or damaged, or the link ends.
    """
    with Opened(link) as opened:
        early = _during(opened, action) if action is not None else b""
        reader = ConsoleReader(link.name, on_line)
        gathering = _Gathering(link, reader, models, timeout_s)
        read_lines(
            opened,
            reader,
            gathering.take,
            timeout_s=timeout_s,
            silence_s=silence_s,
            late=gathering.late,
            first=early,
        )
    return tuple(gathering.results.values())


class _Gathering:
    """Results by model as lines come in, and the error when some do not come in time."""

    def __init__(self, link: Link, reader: ConsoleReader, models: int, timeout_s: float) -> None:
        self._reader, self._models, self._timeout_s = reader, models, timeout_s
        self._records = RecordReader(link.where, link.name)
        self.results: dict[str, RunResult] = {}

    def take(self, line: str) -> bool:
        """Whether `line` completes the results."""
        result = self._records.feed(line)
        if result is not None:
            self.results[result.model] = result
        return len(self.results) >= self._models

    def late(self) -> DeviceError:
        """The error for results that did not come in time."""
        within = f"within {self._timeout_s:g} s"
        if self._records.restarts:
            what = f"the app started {self._records.restarts + 1} times and did not finish {within}"
        elif self._records.running:
            what = f"the app started and did not finish {within}"
        elif self.results:
            what = f"only {', '.join(self.results)} finished {within}"
        elif self._records.stray:
            what = f"only the middle of a run was received {within}; reset the board to start another"
        else:
            what = f"no result of a tflm-zephyr app {within}"
        return self._reader.error(what, "Give it longer with --timeout")


def _during(link: Link, action: Callable[[], None]) -> bytes:
    """The bytes that come while `action` runs, from the last boot banner on; a port's buffer would not hold them.

    Bytes before the banner are from the previous app.
    """
    received: list[bytes] = []
    done = threading.Event()

    def drain() -> None:
        while not done.is_set():
            try:
                received.append(link.read(POLL_S))
            except LinkEndedError:
                return  # the reader after the action meets the same end and reports it

    listener = threading.Thread(target=drain, daemon=True)
    listener.start()
    try:
        action()
    finally:
        done.set()
        listener.join()
    data = b"".join(received)
    banners = list(_BANNER.finditer(data))
    return data[banners[-1].start() :] if banners else b""

# SPDX-License-Identifier: Apache-2.0
"""The app's text between frames: passed on line by line, and used to explain errors."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable

from tflm_zephyr.device.console.reader import ConsoleReader
from tflm_zephyr.device.console.status import sentence
from tflm_zephyr.errors import DeviceError

_ERROR = re.compile(r"TFLM:error code=(\d{1,9}) at=(\w+)")
_ASKS = 3  # from then on a device that asks for a request again is not just silent
_SELF_TEST = re.compile(r"TFLM:(begin|end|output|ticks) ")


class ConsoleText:
    """Text beside the protocol, on one link."""

    def __init__(self, name: str, on_text: Callable[[str], None] | None = None) -> None:
        """`name`: the link's name, for errors. `on_text`: gets each line without its end."""
        self._name = name
        self._reader = ConsoleReader(name, on_text, between_frames=True)
        self._self_test = False
        self.any_bytes = False  # text or frames

    def take(self, data: bytes) -> None:
        """Take bytes between frames."""
        self._look_at(self._reader.lines(data))

    def flush(self) -> None:
        """Pass on an unfinished line, as no more bytes will come."""
        self._look_at(self._reader.last_line())

    def _look_at(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._self_test = self._self_test or _SELF_TEST.match(line) is not None
            error = _ERROR.match(line)
            if error is not None:
                self._reader.note_crash(sentence(int(error[1]), error[2]))

    def check_crash(self) -> None:
        """DeviceError a moment after the first line of a crash."""
        if time.monotonic() >= self._reader.crash_ends:
            raise self._reader.crashed()

    @property
    def crashing(self) -> bool:
        """Whether the first line of a crash has come."""
        return bool(self._reader.crash)

    def silent(self, seconds: float, *, begun: bool, asked: int = 0) -> DeviceError:
        """The error for no answer within `seconds`.

        `begun`: a session had begun. `asked`: how often the device asked for a request again in that time.
        """
        if asked >= _ASKS:
            return DeviceError(
                f"no answer within {seconds:g} s, but the device asked for the request {asked} times",
                where=self._name,
                hint="Do bytes get lost on the way to it? Lower the baud rate, or reset the board",
            )
        if begun:
            return self._reader.error(f"no answer within {seconds:g} s")
        if self._self_test:
            return DeviceError(
                "the app there runs its self-test and has no host link",
                where=self._name,
                hint="Generate it with host_link: true in its app file, build and flash it",
            )
        if not self.any_bytes:
            return DeviceError(
                f"nothing received within {seconds:g} s",
                where=self._name,
                hint="Is an app with host_link: true flashed, and are this its port and baud rate?",
            )
        return self._reader.error(
            f"no answer to the link's hello within {seconds:g} s",
            "The bytes received are no text; check the baud rate",
        )

    def ended(self, why: str) -> DeviceError:
        """The error for a link that has ended for good."""
        self.flush()
        return self._reader.crashed() if self.crashing else self._reader.error(why or "the link ended")

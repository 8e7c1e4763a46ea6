# SPDX-License-Identifier: Apache-2.0
"""A link without a device: it plays what a test gives it."""

from __future__ import annotations

import time

from tflm_zephyr.device.transport.link import Capabilities, LinkEndedError


class ScriptedLink:
    """A link that plays chunks; then it ends with `end`, or stays silent."""

    name = "script"
    where = "serial"
    capabilities = Capabilities()
    instructions_per_tick: int | None = None

    def __init__(self, *chunks: bytes, end: str = "") -> None:
        self._chunks, self._end = list(chunks), end
        self.is_open = False

    def open(self) -> None:
        self.is_open = True

    def close(self) -> None:
        self.is_open = False

    def read(self, timeout_s: float) -> bytes:
        assert self.is_open
        if self._chunks:
            return self._chunks.pop(0)
        if self._end:
            raise LinkEndedError(self._end)
        time.sleep(timeout_s)
        return b""

    def write(self, data: bytes) -> None:
        raise AssertionError(data)

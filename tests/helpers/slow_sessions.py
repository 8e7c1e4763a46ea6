# SPDX-License-Identifier: Apache-2.0
"""Sessions that overtake each other, and a data set for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.fakes.session import FakeSession
from tests.helpers.command_line import Tool
from tests.helpers.small_models import dense
from tflm_zephyr.cli.commands import targets
from tflm_zephyr.device.transport.registry import TRANSPORTS
from tflm_zephyr.device.transport.routing import route

COUNT = 24


def answer(inputs: Sequence[bytes]) -> tuple[bytes, ...]:
    """The class is the first byte modulo 8."""
    return (bytes(9 if k == inputs[0][0] % 8 else 0 for k in range(8)),)


class Slow(FakeSession):
    """Takes its time, a little more for some inputs, so that several sessions overtake each other."""

    def __init__(self, **more: Any) -> None:
        super().__init__(dense(), outputs=answer, ticks=[[5]], **more)
        self.thread = threading.current_thread()

    def invoke(self, inputs: Sequence[bytes]):  # type: ignore[no-untyped-def]
        assert threading.current_thread() is self.thread
        time.sleep(0.001 * (1 + inputs[0][0] % 3))
        return super().invoke(inputs)


class Bench:
    """An opener of sessions that remembers the sessions it opened."""

    def __init__(self, *kinds: dict[str, Any]) -> None:
        self.kinds, self.sessions, self.lock = list(kinds), [], threading.Lock()
        self.sessions: list[Slow] = []

    def open(self, *args: object, **more: object) -> Slow:
        with self.lock:
            kind = self.kinds.pop(0) if self.kinds else {}
        if "error" in kind:
            raise kind["error"]
        session = Slow(**kind)
        self.sessions.append(session)
        return session


@pytest.fixture
def bench(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Sessions for `demo`, an app of that name alone, and d.npz with a class for each sample."""
    made = Bench()
    monkeypatch.setattr(targets, "open_session", made.open)
    qemu = TRANSPORTS["qemu"].capabilities  # "demo" is no app
    monkeypatch.setattr(
        "tflm_zephyr.cli.commands.evaluate.can",
        lambda target: route(target).transport.capabilities if target.port else qemu,
    )
    x = np.zeros((COUNT, 4), np.int8)
    x[:, 0] = range(COUNT)
    y = np.arange(COUNT) % 8
    y[3] = 5
    np.savez("d.npz", x=x, y=y)
    return made

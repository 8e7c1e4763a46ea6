# SPDX-License-Identifier: Apache-2.0
"""A session with an app over a link: the protocol's requests as calls, and recovery when the device restarts."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from tflm_zephyr.device.console.result import Arena, Stacks
from tflm_zephyr.device.protocol import messages
from tflm_zephyr.device.protocol.messages import Kind, MalformedError, Mode, Request, Space
from tflm_zephyr.device.session import refusals
from tflm_zephyr.device.session.base import (
    Captured,
    Hello,
    Invocation,
    LinkStatistics,
    Memory,
    OperatorOutput,
    Profile,
    Session,
    SessionCapabilities,
)
from tflm_zephyr.device.session.channel import Channel, RefusedError, SessionLostError
from tflm_zephyr.device.session.console_text import ConsoleText
from tflm_zephyr.device.session.model_requests import ModelRequests
from tflm_zephyr.device.session.model_tables import read_hello
from tflm_zephyr.device.session.paused_run import PausedRun
from tflm_zephyr.device.transport.link import Link
from tflm_zephyr.errors import DeviceError

_TRIES = 3  # attempts at one operation
_T = TypeVar("_T")


class DeviceSession(Session):
    """See Session. The link is opened by `open` and closed by `close`."""

    def __init__(
        self,
        link: Link,
        *,
        model: str = "",
        expect: Mapping[str, str] | None = None,
        on_text: Callable[[str], None] | None = None,
        reply_timeout_s: float = 10.0,
        run_timeout_s: float = 600.0,
    ) -> None:
        """For the options see DeviceTarget."""
        self._link, self._model, self._expect = link, model, dict(expect or {})
        self._capabilities = SessionCapabilities(counts_ticks=link.capabilities.counts_ticks)
        self._reply_s, self._run_s = reply_timeout_s, run_timeout_s
        self._text = ConsoleText(link.name, on_text)
        self._channel = Channel(link, self._text)
        self._requests: ModelRequests | None = None
        self._closed = False

    def open(self) -> None:
        """Open the link and say hello. Raises DeviceError; the link is closed then."""
        self._closed = False
        try:
            self._link.open()
            self._recovering("the hello", lambda: None)
        except BaseException:
            self.close()
            raise

    @property
    def capabilities(self) -> SessionCapabilities:
        """See Session."""
        return self._capabilities

    @property
    def hello(self) -> Hello:
        """See Session."""
        return self._there.hello

    @property
    def _there(self) -> ModelRequests:
        assert self._requests is not None, "open() comes first"
        return self._requests

    def select(self, model: str) -> None:
        """See Session."""
        if model not in self.hello.models:
            raise refusals.unknown(model, self.hello.models, self._link.name)
        before = self._model, self._requests
        self._model, self._requests = model, None
        self._channel.broken = True
        try:
            self._recovering("selecting a model", lambda: None)
        except BaseException:
            self._model, self._requests = before
            self._channel.broken = True
            raise

    def invoke(self, inputs: Sequence[bytes]) -> Invocation:
        """See Session."""

        def once() -> Invocation:
            self._there.write(inputs)
            done = self._there.run_through(Mode.PLAIN)
            return Invocation(self._there.outputs(), done.ticks)

        return self._recovering("an invocation", once)

    def capture(self, inputs: Sequence[bytes]) -> Captured:
        """See Session."""

        def once() -> Captured:
            self._there.write(inputs)
            found: list[OperatorOutput] = []
            state = self._there.run(messages.run(Mode.CAPTURE))
            paused_run = PausedRun(self.hello, self._run_s)
            while state.paused:
                found += self._there.paused_at(paused_run, state)
                state = self._there.run(Request(Kind.CONTINUE))
            return Captured(tuple(found), self._there.outputs())

        return self._recovering("a captured invocation", once)

    def profile(self, inputs: Sequence[bytes], runs: int) -> Profile:
        """See Session."""
        names = tuple(operator.name for operator in self.hello.operators)
        size = 4 * len(names)

        def once() -> tuple[int, ...]:
            self._there.write(inputs)
            self._there.run_through(Mode.PROFILE)
            return struct.unpack(f"<{len(names)}I", self._there.read([(Space.TICKS, 0, 0, size)])[0])

        ticks = tuple(self._recovering("a profiled run", once) for _ in range(runs))
        return Profile(names, ticks, self.hello.device.hz)

    def tensor(self, index: int) -> bytes:
        """See Session."""
        if not 0 <= index < len(self.hello.tensors):
            raise DeviceError(f"no tensor {index}: the model has {len(self.hello.tensors)}", where=self._link.name)
        if self.hello.tensors[index].streamed:
            what = f"tensor {index} comes row by row and is nowhere as a whole"
            raise DeviceError(what, where=self._link.name, hint="Look at the output of its first layer")
        size = self.hello.tensors[index].bytes
        return self._recovering("reading a tensor", lambda: self._there.read([(Space.TENSOR, 0, index, size)])[0])

    def reset(self) -> None:
        """See Session."""
        self._there.used = False
        self._recovering("a reset", lambda: self._there.ask([Request(Kind.RESET)], self._run_s))

    def memory(self) -> Memory:
        """See Session."""
        payload = self._recovering("reading the memory's use", lambda: self._there.ask([Request(Kind.MEMORY)])[0])
        cursor = messages.Cursor(payload)
        try:
            size, head, tail, known = cursor.take("3IB")
            main, main_used, isr, isr_used = cursor.take("4I")
            taken, damaged, doubled = cursor.take("3I")
        except MalformedError as err:
            raise refusals.malformed(err, self._link.name) from err
        return Memory(
            Arena(size, head + tail, head, tail, self.hello.arena.source),
            Stacks(main, main_used, isr, isr_used) if known else None,
            LinkStatistics(taken, damaged, doubled, self._channel.resent),
        )

    def set_inputs(self, inputs: Sequence[bytes]) -> None:
        """Write the model's inputs without a run; `invoke` does it as well."""
        self._recovering("writing the inputs", lambda: self._there.write(inputs))

    def echo(self, payloads: Iterable[bytes]) -> list[bytes]:
        """The payloads that the device sends back for `payloads`, each at most DeviceHello.payload_bytes."""
        requests = [Request(Kind.ECHO, payload) for payload in payloads]
        return self._recovering("an echo", lambda: self._there.ask(requests))

    def close(self) -> None:
        """See Session."""
        self._closed = True
        self._text.flush()
        self._link.close()

    def _recovering(self, what: str, operation: Callable[[], _T]) -> _T:
        """The result of `operation`; it starts again when the session was lost, unless the model's state was lost too.

        A new session resets the model. Where that loses a state, one DeviceError says so; the next call begins with the
        initial state.
        """
        if self._closed:
            raise DeviceError("this session is closed", where=self._link.name, hint="Open another")
        taken = 0
        for _ in range(_TRIES):
            try:
                if self._channel.broken:
                    self._begin()
                    self._check_state(f"the session was interrupted before {what}")
                return operation()
            except SessionLostError as err:
                taken += err.taken
                who = "another host took the device" if err.taken else "the device restarted"
                self._check_state(f"{who} during {what}")
            except RefusedError as err:
                # A capture may wait there for ever, and then only a hello ends it.
                self._channel.broken = err.kind in (Kind.TABLE, Kind.READ)
                raise refusals.refused(err, self._link.name) from err
            except MalformedError as err:
                self._channel.broken = True
                raise refusals.malformed(err, self._link.name) from err
        raise refusals.lost(_TRIES - taken, taken, what, self._link.name)

    def _check_state(self, why: str) -> None:
        """DeviceError when the model had a state, which the reset has lost."""
        there = self._requests
        if there is None:
            return
        used, there.used = there.used, False
        if used and there.stateful:
            raise DeviceError(
                f"{why}, and the model's state is lost",
                where=self._link.name,
                hint="Begin with its first input again",
            )

    def _begin(self) -> None:
        """Begin a new session. DeviceError when another app or model answers than before, or than was expected."""
        described = read_hello(self._channel, self._model, self._link, patience_s=self._reply_s, init_s=self._run_s)
        hello = described.hello
        if self._model and hello.model != self._model:
            raise refusals.unknown(self._model, hello.models, self._link.name)
        want = self._expect.get(hello.model, "")
        before = None if self._requests is None else self._requests.hello
        if self._expect and not hello.runs(want):
            raise DeviceError(
                f"another model is there: {hello.model} with SHA-256 {hello.sha256} of app {hello.device.app}"
                + (f", not {want[:16]}" if want else f", none of {', '.join(sorted(self._expect))}"),
                where=self._link.name,
                hint="Build and flash the app again",
            )
        if before is not None and _identity(before) != _identity(hello):
            raise DeviceError(
                f"another app answers than before: {hello.device.app} with model {hello.model}",
                where=self._link.name,
                hint="Begin again",
            )
        used = self._requests is not None and self._requests.used
        self._requests = ModelRequests(self._channel, described, reply_s=self._reply_s, run_s=self._run_s, used=used)
        self._model = hello.model


def _identity(hello: Hello) -> tuple[str, str, str]:
    return hello.device.app, hello.model, hello.sha256

# SPDX-License-Identifier: Apache-2.0
"""A session with an app over a link: the protocol's requests as calls, and recovery when the device restarts."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from tflm_zephyr.device.console.result import Arena, Stacks
from tflm_zephyr.device.protocol import frames, messages
from tflm_zephyr.device.protocol.messages import Kind, MalformedError, Mode, Request, RunAnswer, Space, TableOf
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
from tflm_zephyr.device.session.channel import Channel, RefusedError, SessionLostError, checked
from tflm_zephyr.device.session.console_text import ConsoleText
from tflm_zephyr.device.session.model_tables import DescribedModel, read_hello, read_table
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
        sessions: Callable[[], int] | None = None,
    ) -> None:
        """For the options see DeviceTarget. `sessions`: numbers for new sessions."""
        self._link, self._model, self._expect = link, model, dict(expect or {})
        self._capabilities = SessionCapabilities(counts_ticks=link.capabilities.counts_ticks)
        self._reply_s, self._run_s = reply_timeout_s, run_timeout_s
        self._text = ConsoleText(link.name, on_text)
        kwargs = {} if sessions is None else {"sessions": sessions}
        self._channel = Channel(link, self._text, **kwargs)
        self._hello: Hello | None = None
        self._described: DescribedModel | None = None
        self._used = False  # the model's state may differ from its initial one
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
        assert self._hello is not None, "open() comes first"
        return self._hello

    def select(self, model: str) -> None:
        """See Session."""
        if model not in self.hello.models:
            raise refusals.unknown(model, self.hello.models, self._link.name)
        before = self._model, self._hello, self._described, self._used
        self._model, self._hello, self._described = model, None, None
        self._channel.broken = True
        self._used = False
        try:
            self._recovering("selecting a model", lambda: None)
        except BaseException:
            self._model, self._hello, self._described, self._used = before
            self._channel.broken = True
            raise

    def invoke(self, inputs: Sequence[bytes]) -> Invocation:
        """See Session."""

        def once() -> Invocation:
            self._write(inputs)
            done = self._run_through(Mode.PLAIN)
            return Invocation(self._outputs(), done.ticks)

        return self._recovering("an invocation", once)

    def capture(self, inputs: Sequence[bytes]) -> Captured:
        """See Session."""

        def once() -> Captured:
            self._write(inputs)
            found: list[OperatorOutput] = []
            state = self._run(messages.run(Mode.CAPTURE))
            paused_run = PausedRun(self.hello, self._run_s)
            while state.paused:
                found += self._paused_at(paused_run, state)
                state = self._run(Request(Kind.CONTINUE))
            return Captured(tuple(found), self._outputs())

        return self._recovering("a captured invocation", once)

    def profile(self, inputs: Sequence[bytes], runs: int) -> Profile:
        """See Session."""
        names = tuple(operator.name for operator in self.hello.operators)
        size = 4 * len(names)

        def once() -> tuple[int, ...]:
            self._write(inputs)
            self._run_through(Mode.PROFILE)
            return struct.unpack(f"<{len(names)}I", self._read([(Space.TICKS, 0, 0, size)])[0])

        return Profile(names, tuple(self._recovering("a profiled run", once) for _ in range(runs)), self.hello.hz)

    def tensor(self, index: int) -> bytes:
        """See Session."""
        if not 0 <= index < len(self.hello.tensors):
            raise DeviceError(f"no tensor {index}: the model has {len(self.hello.tensors)}", where=self._link.name)
        if self.hello.tensors[index].streamed:
            what = f"tensor {index} comes row by row and is nowhere as a whole"
            raise DeviceError(what, where=self._link.name, hint="Look at the output of its first layer")
        size = self.hello.tensors[index].bytes
        return self._recovering("reading a tensor", lambda: self._read([(Space.TENSOR, 0, index, size)])[0])

    def reset(self) -> None:
        """See Session."""
        self._used = False
        self._recovering("a reset", lambda: self._ask([Request(Kind.RESET)], self._run_s))

    def memory(self) -> Memory:
        """See Session."""
        payload = self._recovering("reading the memory's use", lambda: self._ask([Request(Kind.MEMORY)])[0])
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
        self._recovering("writing the inputs", lambda: self._write(inputs))

    def echo(self, payloads: Iterable[bytes]) -> list[bytes]:
        """The payloads that the device sends back for `payloads`, each at most Hello.limits.payload_bytes."""
        requests = [Request(Kind.ECHO, payload) for payload in payloads]
        return self._recovering("an echo", lambda: self._ask(requests))

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
        used, self._used = self._used, False
        if used and self._described is not None and self._described.stateful:
            raise DeviceError(
                f"{why}, and the model's state is lost",
                where=self._link.name,
                hint="Begin with its first input again",
            )

    def _begin(self) -> None:
        """Begin a new session. DeviceError when another app or model answers than before, or than was expected."""
        described = read_hello(
            self._channel,
            self._model,
            self._link,
            patience_s=self._reply_s,
            init_s=self._run_s,
        )
        hello = described.hello
        if self._model and hello.model != self._model:
            raise refusals.unknown(self._model, hello.models, self._link.name)
        want = self._expect.get(hello.model, "")
        before = self._hello
        if self._expect and not hello.runs(want):
            raise DeviceError(
                f"another model is there: {hello.model} with SHA-256 {hello.sha256} of app {hello.app}"
                + (f", not {want[:16]}" if want else f", none of {', '.join(sorted(self._expect))}"),
                where=self._link.name,
                hint="Build and flash the app again",
            )
        if before is not None and (before.app, before.model, before.sha256) != (hello.app, hello.model, hello.sha256):
            raise DeviceError(
                f"another app answers than before: {hello.app} with model {hello.model}",
                where=self._link.name,
                hint="Begin again",
            )
        self._described, self._hello = described, hello
        self._model = hello.model

    def _ask(self, requests: Sequence[Request], patience_s: float | None = None) -> list[bytes]:
        answers = self._channel.exchange(requests, self._reply_s if patience_s is None else patience_s)
        return [checked(answer) for answer in answers]

    def _run(self, request: Request) -> RunAnswer:
        self._used = True
        return RunAnswer.parse(self._ask([request], self._run_s)[0])

    def _run_through(self, mode: Mode) -> RunAnswer:
        done = self._run(messages.run(mode))
        if done.paused:
            raise MalformedError(f"a {mode.name.lower()} run waits after operator {done.operator}")
        return done

    def _write(self, inputs: Sequence[bytes]) -> None:
        refusals.check_inputs(inputs, self.hello)
        limits = self.hello.limits
        in_window = frames.most_body_bytes(limits.window_bytes) - messages.HEADER.size
        step = min(limits.payload_bytes, in_window) - messages.WRITE_FIELDS_BYTES
        streamed = [tensor.streamed for tensor in self.hello.inputs]
        self._ask(
            [
                messages.write(index, at, bytes(data[at : at + step]), streamed=streamed[index])
                for index, data in enumerate(inputs)
                for at in range(0, len(data), step)
            ],
            self._run_s if any(streamed) else None,
        )

    def _outputs(self) -> tuple[bytes, ...]:
        return tuple(self._read([(Space.OUTPUT, 0, i, t.bytes) for i, t in enumerate(self.hello.outputs)]))

    def _paused_at(self, paused_run: PausedRun, state: RunAnswer) -> list[OperatorOutput]:
        """The outputs of the operator that just ended."""
        try:
            operator = paused_run.after(state)
        except DeviceError:
            self._channel.broken = True  # it waits there until another hello
            raise
        entries = read_table(
            self._channel, self._reply_s, TableOf.PAUSED_AT, state.outputs, lambda _, cursor: cursor.take("iI")
        )
        there = [(tensor, size) for tensor, size in entries if tensor >= 0]
        for tensor, size in there:
            paused_run.check_output(operator, tensor, size)
        data = self._read([(Space.TENSOR, operator.subgraph, tensor, size) for tensor, size in there])
        return [
            OperatorOutput(operator.index, operator.name, operator.subgraph, tensor, found)
            for (tensor, _), found in zip(there, data, strict=True)
        ]

    def _read(self, wanted: Sequence[tuple[Space, int, int, int]]) -> list[bytes]:
        """The bytes of each (space, subgraph, index, size)."""
        step = self.hello.limits.payload_bytes
        requests: list[Request] = []
        counts: list[int] = []
        for space, subgraph, index, size in wanted:
            counts.append(math.ceil(size / step))
            for at in range(0, size, step):
                requests.append(messages.read(space, subgraph, index, at, min(step, size - at)))
        parts = self._ask(requests)
        for request, part in zip(requests, parts, strict=True):
            if len(part) != messages.read_size(request):
                raise MalformedError(f"{len(part)} bytes came, {messages.read_size(request)} were asked for")
        pieces = iter(parts)
        return [b"".join(next(pieces) for _ in range(count)) for count in counts]

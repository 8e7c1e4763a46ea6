# SPDX-License-Identifier: Apache-2.0
"""The protocol's requests to the model of one session."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tflm_zephyr.device.protocol import frames, messages
from tflm_zephyr.device.protocol.messages import MalformedError, Mode, Request, RunAnswer, Space, TableOf
from tflm_zephyr.device.session import refusals
from tflm_zephyr.device.session.base import OperatorOutput
from tflm_zephyr.device.session.channel import Channel, checked
from tflm_zephyr.device.session.model_tables import DescribedModel, read_table
from tflm_zephyr.device.session.paused_run import PausedRun
from tflm_zephyr.errors import DeviceError


class ModelRequests:
    """Requests to the model that a session began with. Each raises as Channel.exchange, RefusedError, MalformedError.

    `used`: the model's state may differ from its initial one. Timeouts as in DeviceTarget.
    """

    def __init__(
        self, channel: Channel, described: DescribedModel, *, reply_s: float, run_s: float, used: bool
    ) -> None:
        self.hello, self.stateful, self.used = described.hello, described.stateful, used
        self._channel, self._reply_s, self._run_s = channel, reply_s, run_s

    def ask(self, requests: Sequence[Request], patience_s: float | None = None) -> list[bytes]:
        """The payloads of the answers, each of which comes within `patience_s`, by default the reply timeout."""
        answers = self._channel.exchange(requests, self._reply_s if patience_s is None else patience_s)
        return [checked(answer) for answer in answers]

    def run(self, request: Request) -> RunAnswer:
        """The answer to a request that runs the model, or goes on with a run."""
        self.used = True
        return RunAnswer.parse(self.ask([request], self._run_s)[0])

    def run_through(self, mode: Mode) -> RunAnswer:
        """The answer to a run that does not pause."""
        done = self.run(messages.run(mode))
        if done.paused:
            raise MalformedError(f"a {mode.name.lower()} run waits after operator {done.operator}")
        return done

    def write(self, inputs: Sequence[bytes]) -> None:
        """Write all inputs. DeviceError for a wrong number of inputs or a wrong size."""
        refusals.check_inputs(inputs, self.hello)
        limits = self.hello.device
        in_window = frames.most_body_bytes(limits.window_bytes) - messages.HEADER.size
        step = min(limits.payload_bytes, in_window) - messages.WRITE_FIELDS_BYTES
        streamed = [tensor.streamed for tensor in self.hello.inputs]
        self.ask(
            [
                messages.write(index, at, bytes(data[at : at + step]), streamed=streamed[index])
                for index, data in enumerate(inputs)
                for at in range(0, len(data), step)
            ],
            self._run_s if any(streamed) else None,
        )

    def outputs(self) -> tuple[bytes, ...]:
        """The bytes of the model's outputs."""
        return tuple(self.read([(Space.OUTPUT, 0, i, t.bytes) for i, t in enumerate(self.hello.outputs)]))

    def paused_at(self, paused_run: PausedRun, state: RunAnswer) -> list[OperatorOutput]:
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
        data = self.read([(Space.TENSOR, operator.subgraph, tensor, size) for tensor, size in there])
        return [
            OperatorOutput(operator.index, operator.name, operator.subgraph, tensor, found)
            for (tensor, _), found in zip(there, data, strict=True)
        ]

    def read(self, wanted: Sequence[tuple[Space, int, int, int]]) -> list[bytes]:
        """The bytes of each (space, subgraph, index, size)."""
        step = self.hello.device.payload_bytes
        requests: list[Request] = []
        counts: list[int] = []
        for space, subgraph, index, size in wanted:
            counts.append(math.ceil(size / step))
            for at in range(0, size, step):
                requests.append(messages.read(space, subgraph, index, at, min(step, size - at)))
        parts = self.ask(requests)
        for request, part in zip(requests, parts, strict=True):
            if len(part) != messages.read_size(request):
                raise MalformedError(f"{len(part)} bytes came, {messages.read_size(request)} were asked for")
        pieces = iter(parts)
        return [b"".join(next(pieces) for _ in range(count)) for count in counts]

# SPDX-License-Identifier: Apache-2.0
"""A device on a pseudo-terminal that speaks the link's protocol and need not tell the truth."""

from __future__ import annotations

import os
import select
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tests.fakes.in_thread import InThread, raw_pty
from tflm_zephyr.device.protocol import frames
from tflm_zephyr.device.protocol.messages import ANSWER, Kind, Message, TableOf

DONE = b"\0" + struct.pack("<I", 123)


def paused(operator: int, outputs: int = 0) -> bytes:
    """The answer of a device that waits after `operator`."""
    return b"\1" + struct.pack("<HH", operator, outputs)


def text(value: str) -> bytes:
    """As the protocol has it."""
    data = value.encode()
    return bytes((len(data),)) + data


@dataclass(frozen=True)
class Tensor:
    """What is said of a tensor; int8, quantised, of four elements unless told."""

    name: str
    type: int = 9
    flags: int = 2
    bytes: int = 4
    scale: float = 0.5
    shape: tuple[int, ...] = (1, 4)

    def entry(self) -> bytes:
        """In the table of tensors."""
        numbers = struct.pack("<BBIfiB", self.type, self.flags, self.bytes, self.scale, 0, len(self.shape))
        return numbers + struct.pack(f"<{len(self.shape)}i", *self.shape) + text(self.name)


@dataclass(frozen=True)
class Facts:
    """What the device says of itself."""

    version: int = 1
    payload: int = 512
    window: int = 2048
    hz: int = 1_000_000
    models: int = 1
    app: str = "app"
    board: str = "board"
    model: str = "net"
    sha256: str = "0123456789abcdef"
    inputs: Sequence[int] = (0,)
    outputs: Sequence[int] = (1,)
    tensors: Sequence[Tensor] = (Tensor("in"), Tensor("out"))
    operators: Sequence[tuple[int, int]] = ((9, 0),)  # code, subgraph
    paused_at: Sequence[tuple[int, int]] = ()  # tensor, bytes


Lie = Callable[[Message], Sequence[Message] | bytes | None]


class Liar(InThread):
    """Answers at `port` by `facts`; `lie` may give messages in an answer's place, or an answer's payload."""

    def __init__(self, lie: Lie = lambda _: None, **facts: object) -> None:
        super().__init__()
        self.facts = replace(Facts(), **facts)  # type: ignore[arg-type]
        self._lie = lie
        self._master, self._slave = raw_pty(blocking=False)
        self.port = os.ttyname(self._slave)
        self.taken: list[Message] = []
        self.bytes = 0

    def end(self) -> None:
        """See InThread."""
        os.close(self._slave)
        os.close(self._master)

    def work(self) -> None:
        """See InThread."""
        decoder = frames.Decoder()
        while not self.stop.is_set():
            if not select.select([self._master], [], [], 0.02)[0]:
                continue
            data = os.read(self._master, 65536)
            self.bytes += len(data)
            for event in decoder.feed(data):
                message = Message.parse(event.body) if isinstance(event, frames.Frame) else None
                if message is not None:
                    self.taken.append(message)
                    self._answer(message)

    def _answer(self, message: Message) -> None:
        said = self._lie(message)
        if said is None or isinstance(said, bytes):
            payload = self._payload(message) if said is None else said
            said = [Message(message.kind | ANSWER, 0, message.seq, message.session, payload)]
        data = b"".join(frames.encode(each.to_bytes()) for each in said)
        while data and not self.stop.is_set():
            try:
                data = data[os.write(self._master, data) :]
            except BlockingIOError:
                self.stop.wait(0.001)

    def _payload(self, message: Message) -> bytes:
        facts = self.facts
        if message.kind == Kind.HELLO:
            numbers = struct.pack("<BHHIB", facts.version, facts.payload, facts.window, facts.hz, facts.models)
            return numbers + b"".join(map(text, (facts.app, facts.board, "reference", "t", "z")))
        if message.kind == Kind.SELECT:
            counts = map(len, (facts.inputs, facts.outputs, facts.tensors, facts.operators))
            return struct.pack("<4H3I", *counts, 1000, 1, 1) + b"".join(map(text, (facts.model, facts.sha256, "given")))
        if message.kind == Kind.TABLE:
            table, start = struct.unpack("<BH", message.payload)
            entries = {
                TableOf.MODELS: [text(facts.model)] * facts.models,
                TableOf.INPUTS: [struct.pack("<i", index) for index in facts.inputs],
                TableOf.OUTPUTS: [struct.pack("<i", index) for index in facts.outputs],
                TableOf.TENSORS: [tensor.entry() for tensor in facts.tensors],
                TableOf.OPERATORS: [
                    struct.pack("<iHH", code, subgraph, k) + b"\0" for k, (code, subgraph) in enumerate(facts.operators)
                ],
                TableOf.PAUSED_AT: [struct.pack("<iI", *entry) for entry in facts.paused_at],
            }[TableOf(table)]
            return struct.pack("<H", len(entries)) + b"".join(entries[start:])
        if message.kind == Kind.READ:
            return bytes(struct.unpack_from("<H", message.payload, 9)[0])
        return DONE if message.kind in (Kind.RUN, Kind.CONTINUE) else b""

# SPDX-License-Identifier: Apache-2.0
"""The bodies of frames: requests and answers as docs/protocol.md defines them. Pure: values <-> bytes."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from enum import IntEnum

from tflm_zephyr.device.readable import readable

VERSION = 1
HEADER = struct.Struct("<BBHI")  # kind, status, sequence, session
ANSWER = 0x80


class Kind(IntEnum):
    """Kind of a request."""

    HELLO = 1
    SELECT = 2
    TABLE = 3
    WRITE = 4
    READ = 5
    RUN = 6
    CONTINUE = 7
    RESET = 8
    MEMORY = 9
    ECHO = 10


STARTED = 0x70  # from the device, without a request: it has started
AGAIN = 0x71  # from the device, without a request: send again from this sequence number on


class Status(IntEnum):
    """Result of a request."""

    OK = 0
    NO_SESSION = 1
    NO_VERSION = 2
    UNKNOWN = 3
    MALFORMED = 4
    RANGE = 5
    MODEL = 6
    NOT_NOW = 7


class TableOf(IntEnum):
    """A table for the request TABLE."""

    MODELS = 0
    INPUTS = 1
    OUTPUTS = 2
    TENSORS = 3
    OPERATORS = 4
    PAUSED_AT = 5


class Space(IntEnum):
    """A memory space for the request READ."""

    OUTPUT = 0
    TENSOR = 1
    TICKS = 2


class Mode(IntEnum):
    """Mode of a run."""

    PLAIN = 0
    CAPTURE = 1
    PROFILE = 2


STAGES = ("init", "invoke", "reset")
_SHA256 = re.compile(r"[0-9a-fA-F]{16,64}")
_LEAST_BYTES = 64  # of a payload, and of the window


class MalformedError(Exception):
    """An answer breaks the protocol although its CRC-32 is right: it is from another program."""


@dataclass(frozen=True)
class Message:
    """A frame's body, either way."""

    kind: int
    status: int
    seq: int
    session: int
    payload: bytes

    @classmethod
    def parse(cls, body: bytes) -> Message | None:
        """The message in a frame's body; None when the body is too short."""
        if len(body) < HEADER.size:
            return None
        kind, status, seq, session = HEADER.unpack_from(body)
        return cls(kind, status, seq, session, body[HEADER.size :])

    def to_bytes(self) -> bytes:
        """The body."""
        return HEADER.pack(self.kind, self.status, self.seq, self.session) + self.payload


@dataclass(frozen=True)
class Request:
    """A request without sequence number and session, which it gets when it is sent.

    `runs`: the model's operators may run before it is answered.
    """

    kind: Kind
    payload: bytes = b""
    runs: bool = False


def hello() -> Request:
    """Begin a session with any protocol version between the two."""
    return Request(Kind.HELLO, bytes((VERSION, VERSION)))


def select(model: int) -> Request:
    """Initialise model number `model`."""
    return Request(Kind.SELECT, bytes((model,)))


def table(which: TableOf, start: int) -> Request:
    """Read entries from `start` on, as many as one frame holds."""
    return Request(Kind.TABLE, struct.pack("<BH", which, start))


def write(index: int, offset: int, data: bytes, *, streamed: bool = False) -> Request:
    """Write bytes of an input. `streamed`: the device runs operators on them as they come."""
    return Request(Kind.WRITE, struct.pack("<HI", index, offset) + data, streamed)


WRITE_FIELDS_BYTES = 6


def read(space: Space, subgraph: int, index: int, offset: int, size: int) -> Request:
    """Read bytes that are in memory now."""
    return Request(Kind.READ, struct.pack("<BHHIH", space, subgraph, index, offset, size))


def read_size(request: Request) -> int:
    """The number of bytes that a request made by `read` reads."""
    return int.from_bytes(request.payload[-2:], "little")


def run(mode: Mode) -> Request:
    """Invoke the model."""
    return Request(Kind.RUN, bytes((mode,)))


class Cursor:
    """Reads an answer's payload from front to back; MalformedError where it is too short."""

    def __init__(self, payload: bytes) -> None:
        self._payload, self._at = payload, 0

    def take(self, form: str) -> tuple[int, ...]:
        """Whole numbers in struct's `form`, little endian."""
        shape = struct.Struct("<" + form)
        try:
            values: tuple[int, ...] = shape.unpack_from(self._payload, self._at)
        except struct.error as err:
            raise MalformedError(str(err)) from err
        self._at += shape.size
        return values

    def real(self) -> float:
        """A float32."""
        data = struct.pack("<I", *self.take("I"))
        value: float = struct.unpack("<f", data)[0]
        return value

    def text(self) -> str:
        """A length byte and that many bytes of UTF-8, made safe for a terminal."""
        (size,) = self.take("B")
        data = self._payload[self._at : self._at + size]
        if len(data) != size:
            raise MalformedError("a text is cut")
        self._at += size
        return readable(data.decode("utf-8", "replace"))


@dataclass(frozen=True)
class DeviceHello:
    """The answer to HELLO: the firmware, its number of models and its ticks per second.

    `payload_bytes`: the most in one frame; `window_bytes`: the most that it takes in before it answers.
    """

    version: int
    payload_bytes: int
    window_bytes: int
    hz: int
    models: int
    app: str
    board: str
    kernels: str
    tflm: str
    zephyr: str

    @classmethod
    def parse(cls, payload: bytes) -> DeviceHello:
        """Raises MalformedError."""
        cursor = Cursor(payload)
        version, payload_bytes, window, hz, models = cursor.take("BHHIB")
        app, board, kernels, tflm, zephyr = (cursor.text() for _ in range(5))
        if payload_bytes < _LEAST_BYTES or window < _LEAST_BYTES:
            raise MalformedError(f"a payload of {payload_bytes} and a window of {window} bytes are too small")
        if not hz:
            raise MalformedError("0 ticks per second")
        if not models:
            raise MalformedError("no model is there")
        return cls(version, payload_bytes, window, hz, models, app, board, kernels, tflm, zephyr)


@dataclass(frozen=True)
class ModelHello:
    """The answer to SELECT; sizes in bytes."""

    inputs: int
    outputs: int
    tensors: int
    operators: int
    arena_bytes: int
    head_bytes: int
    tail_bytes: int
    name: str
    sha256: str
    arena_source: str

    @classmethod
    def parse(cls, payload: bytes) -> ModelHello:
        """Raises MalformedError."""
        cursor = Cursor(payload)
        inputs, outputs, tensors, operators, arena, head, tail = cursor.take("4H3I")
        name, sha256, source = cursor.text(), cursor.text(), cursor.text()
        if _SHA256.fullmatch(sha256) is None:
            raise MalformedError(f"{sha256!r} is not 16 to 64 hex digits of a SHA-256")
        if not outputs or max(inputs, outputs) > tensors:
            raise MalformedError(f"{inputs} inputs, {outputs} outputs, {tensors} tensors")
        return cls(inputs, outputs, tensors, operators, arena, head, tail, name, sha256.lower(), source)


@dataclass(frozen=True)
class RunAnswer:
    """The answer to RUN and CONTINUE: done after `ticks`, or paused after an operator with its number of outputs."""

    paused: bool
    ticks: int = 0
    operator: int = 0
    outputs: int = 0

    @classmethod
    def parse(cls, payload: bytes) -> RunAnswer:
        """Raises MalformedError."""
        cursor = Cursor(payload)
        (state,) = cursor.take("B")
        if state == 0:
            return cls(False, *cursor.take("I"))
        if state != 1:
            raise MalformedError(f"a run is in state {state}")
        operator, outputs = cursor.take("HH")
        return cls(True, 0, operator, outputs)

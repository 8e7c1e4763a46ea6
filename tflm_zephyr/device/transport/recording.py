# SPDX-License-Identifier: Apache-2.0
"""A recording of a session's bytes in a file, and a link that replays its answers without a device.

The file is JSON lines: a head {"recording": 1, "link": ..., "where": ..., "instructions_per_tick": ...}, then
{"to": hex} and {"from": hex} for sent and received bytes, in order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tflm_zephyr.boards import Board
from tflm_zephyr.device.protocol import frames
from tflm_zephyr.device.protocol.messages import ANSWER, Kind, Message
from tflm_zephyr.device.transport.link import Capabilities, Link, LinkEndedError
from tflm_zephyr.device.transport.target import DeviceTarget, Transport
from tflm_zephyr.errors import DeviceError
from tflm_zephyr.files import write_new

_VERSION = 1
_WHERE = re.compile(r"[a-z_0-9]+")  # a transport's name, which this version need not have
_CAPABILITIES = Capabilities()
_Key = tuple[int, int, bytes]  # kind, sequence, payload


class RecordingLink:
    """`link`, with all its bytes recorded in the file `path`."""

    def __init__(self, link: Link, path: Path, *, force: bool = False) -> None:
        """Nothing is written before `open`. `force`: replace a file at `path`, which is kept as .orig."""
        self.name, self.where = link.name, link.where
        self.capabilities, self.instructions_per_tick = link.capabilities, link.instructions_per_tick
        self._link, self._path, self._force = link, path, force
        self._file: IO[str] | None = None
        self._begun = self._failed = False

    def open(self) -> None:
        """See Link. Opened again, the recording goes on. Raises AppError for a file that is not replaced."""
        if not self._begun and (self._path.is_file() or not self._path.exists()):  # no device
            write_new(self._path, b"", force=self._force)
        if self._file is None and not self._failed:
            try:
                self._file = self._path.open("a" if self._begun else "w", encoding="utf-8")
            except OSError as err:
                raise self._unwritable(err) from err
        if not self._begun:
            self._begun = True
            head = {"recording": _VERSION, "link": self.name, "where": self.where}
            self._put({**head, "instructions_per_tick": self.instructions_per_tick})
        self._link.open()

    def close(self) -> None:
        """See Link. Complete the file. Raises DeviceError when it cannot be written."""
        self._link.close()
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError as err:
                raise self._unwritable(err) from err

    def read(self, timeout_s: float) -> bytes:
        """See Link."""
        data = self._link.read(timeout_s)
        if data:
            self._put({"from": data.hex()})
        return data

    def write(self, data: bytes) -> None:
        """See Link."""
        self._put({"to": data.hex()})
        self._link.write(data)

    def _put(self, entry: dict[str, Any]) -> None:
        if self._file is not None:
            try:
                self._file.write(json.dumps(entry) + "\n")
            except OSError as err:
                raise self._unwritable(err) from err

    def _unwritable(self, err: OSError) -> DeviceError:
        """The error, reported once: the rest is not recorded."""
        self._failed = True
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                file.close()
        return DeviceError(f"cannot write ({err.strerror or err})", where=str(self._path))


class ReplayLink:
    """A link that answers as the recorded device did. The n-th hello begins the recording's n-th session."""

    capabilities = _CAPABILITIES

    def __init__(self, path: Path) -> None:
        """Read the recording. Raises DeviceError for any other file."""
        self.name = str(path)
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
            if not lines:
                raise ValueError("it is empty")
            head, *entries = [json.loads(line) for line in lines]
            if head["recording"] != _VERSION:
                raise ValueError(f"version {head['recording']}, not {_VERSION}")
            if not _WHERE.fullmatch(head["where"]):
                raise ValueError(f"recorded at {head['where']!r}")
            self.where: str = head["where"]
            self.instructions_per_tick = _per_tick(head["instructions_per_tick"])
            self._sessions = _sessions(entries)
        except OSError as err:
            raise DeviceError(err.strerror or str(err), where=self.name) from err
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
            raise DeviceError(f"not a whole recording ({err})", where=self.name, hint="Record it again") from err
        self._at = -1
        self._decoder = frames.Decoder()
        self._out = b""
        self._missing = ""

    def open(self) -> None:
        """Start at the recording's beginning."""
        self._at = -1
        self._out, self._missing = b"", ""
        self._decoder = frames.Decoder()

    def close(self) -> None:
        """Nothing to release."""

    def read(self, timeout_s: float) -> bytes:
        """The recorded answers to the requests that were written; LinkEndedError when there are none left."""
        data, self._out = self._out, b""
        if not data:
            raise LinkEndedError(self._missing or "the recording ends here")
        return data

    def write(self, data: bytes) -> None:
        """Take requests; `read` gives their answers."""
        for event in self._decoder.feed(data):
            request = Message.parse(event.body) if isinstance(event, frames.Frame) else None
            if request is not None:
                self._out += self._answer(request)

    def _answer(self, request: Message) -> bytes:
        self._at += request.kind == Kind.HELLO
        session = self._sessions[self._at] if 0 <= self._at < len(self._sessions) else _Session()
        key = request.kind, request.seq, request.payload
        found = session.answers.get(key)
        if found is None:
            name = Kind(request.kind).name.lower()
            sent = session.requests.values()
            if key in sent or request.seq > max((seq for _, seq, _ in sent), default=-1):
                self._missing = f"the recording ends before this {name}: it was cut short, or has fewer calls"
            else:
                self._missing = f"the recording has no answer to this {name}: it has other inputs or calls"
            return b""
        text, answer = found
        again = Message(answer.kind, answer.status, answer.seq, request.session, answer.payload)
        return text + frames.encode(again.to_bytes())


def _per_tick(raw: object) -> int | None:
    if raw is not None and (type(raw) is not int or raw <= 0):
        raise ValueError(f"{raw!r} instructions per tick")
    return raw


@dataclass
class _Session:
    """Requests by kind and number, each with its answer, if it had one, and the text before the answer."""

    requests: dict[tuple[int, int], _Key] = field(default_factory=dict)
    answers: dict[_Key, tuple[bytes, Message]] = field(default_factory=dict)


def _sessions(entries: Iterable[dict[str, str]]) -> list[_Session]:
    """The sessions of a recording, in their order."""
    ways = {"to": frames.Decoder(), "from": frames.Decoder()}
    sessions: dict[int, _Session] = {}
    text = b""
    for entry in entries:
        ((way, data),) = entry.items()
        for event in ways[way].feed(bytes.fromhex(data)):
            if isinstance(event, frames.Text):
                text += event.data if way == "from" else b""
                continue
            message = Message.parse(event.body) if isinstance(event, frames.Frame) else None
            if message is None:
                continue
            if way == "to":
                key = (message.kind, message.seq, message.payload)
                sessions.setdefault(message.session, _Session()).requests[message.kind, message.seq] = key
            elif message.session in sessions and message.kind & ANSWER:
                session = sessions[message.session]
                found = session.requests.get((message.kind & ~ANSWER, message.seq))
                if found is not None and found not in session.answers:
                    session.answers[found] = (text, message)
                    text = b""
    return list(sessions.values())


def _serves(target: DeviceTarget, board: Board | None) -> bool:
    return target.recording is not None


def _link(target: DeviceTarget, board: Board | None, program: Path | None) -> ReplayLink:
    assert target.recording is not None  # as _serves has it
    return ReplayLink(target.recording)


TRANSPORT = Transport("recording", _CAPABILITIES, _serves, _link)

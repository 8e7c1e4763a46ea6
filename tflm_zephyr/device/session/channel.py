# SPDX-License-Identifier: Apache-2.0
"""Requests and answers over a link that drops, doubles, damages or delays bytes: each request runs once, in order.

The host sends a window of requests; the device executes them in order of their numbers and answers each. A request is
sent again when its answer is late or the device asks for it; the device does not execute it twice. The window never
holds more bytes than the device takes in while it is busy, so that no UART needs hardware flow control.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tflm_zephyr.device.protocol import frames
from tflm_zephyr.device.protocol.messages import AGAIN, ANSWER, STARTED, Kind, Message, Request, Status
from tflm_zephyr.device.session.console_text import ConsoleText
from tflm_zephyr.device.transport.link import Link, LinkBlockedError, LinkEndedError
from tflm_zephyr.errors import DeviceError

_FIRST_WINDOW_BYTES = 64
_FIRST_RTO_S, _LEAST_RTO_S, _MOST_RTO_S = 0.25, 0.1, 2.0
_CALMING = 0.99  # factor on the least wait for each answer to a request that was sent once
_DAMAGE_S = 0.01  # wait after a damaged frame, which was probably the answer
_MOST_BUSY_S = 10.0
_LONG = frozenset({Kind.RUN, Kind.CONTINUE, Kind.SELECT, Kind.RESET})  # may take as long as the model does
_REOPEN_EVERY_S = 0.2
_CRASHING_S = 0.05
_SEQUENCES = 1 << 16
_ANOTHERS = 1  # detail of the answer to a request outside a session: another host has a session


class SessionLostError(Exception):
    """The device does not know the session: it was reset, or (`taken`) another host began one."""

    def __init__(self, *, taken: bool) -> None:
        super().__init__("another host's session" if taken else "started anew")
        self.taken = taken


@dataclass
class _Sent:
    place: int
    kind: Kind
    busy: bool  # the device reads nothing while it executes it
    data: bytes
    first: float
    last: float
    due: float
    tries: int = 1
    copies: int = 1  # copies sent, neither answered nor lost with a port that ended


class Channel:
    """One session with a device over an open link."""

    def __init__(self, link: Link, text: ConsoleText) -> None:
        """A link that `reopens` is opened again when it ended."""
        self._link, self._text = link, text
        self._decoder = frames.Decoder()
        self._session = 0
        self._next = 1
        self._begun = False  # the device has answered the hello
        self._window_bytes = _FIRST_WINDOW_BYTES
        self._rtt_s: float | None = None
        self._rtt_spread_s = 0.0
        self._least_rto_s = _LEAST_RTO_S
        self._progress = 0.0  # time of the last expected answer, or of the exchange's beginning
        self._asked = 0  # requests to send again since then
        self._patience_s = 0.0
        self._asked_again: tuple[int, float] = (
            -1,
            0.0,
        )  # the last AGAIN that was obeyed; ignored again until
        self._unread = 0  # bytes of copies that a busy device has yet to read; it has answered the requests
        self._sent: dict[int, _Sent] = {}
        self._answers: dict[int, Message] = {}
        self.resent = 0
        self.broken = True

    @property
    def name(self) -> str:
        """The link's name, for errors."""
        return self._link.name

    def hello(self, request: Request, patience_s: float) -> Message:
        """Begin a new session, whatever the device was doing; call `widen` next."""
        self._session, self._next = secrets.randbits(32) or 1, 0
        self._window_bytes = _FIRST_WINDOW_BYTES
        self._sent.clear()
        self._unread = 0
        self._asked_again = (-1, 0.0)
        self._begun = self.broken = False
        answer = self.exchange([request], patience_s)[0]
        self._begun = True
        return answer

    def widen(self, window_bytes: int) -> None:
        """Set the bytes that the device takes in while it is busy."""
        self._window_bytes = window_bytes

    def exchange(self, requests: Sequence[Request], patience_s: float) -> list[Message]:
        """The answers, in the requests' order.

        Raises SessionLostError, and DeviceError after `patience_s` without an answer, whatever else the device sends,
        when the app crashes, or when the link ends for good. Then `broken` is set, and only `hello` starts again.
        """
        assert not self.broken
        self.broken = True
        try:
            self._answers = {}
            self._patience_s, self._progress, self._asked = patience_s, time.monotonic(), 0
            self._run(requests)
        except LinkEndedError as err:
            raise self._text.ended(str(err)) from err
        self.broken = False
        return [self._answers[place] for place in range(len(requests))]

    def _run(self, requests: Sequence[Request]) -> None:
        unsent = 0
        while len(self._answers) < len(requests):
            unsent = self._fill(requests, unsent)
            ends = self._check_time()
            now = time.monotonic()
            self._text.check_crash()
            self._resend_due(now)
            due = next((sent.due for sent in self._sent.values()), now)
            wait_s = max(0.0, min(due, ends) - time.monotonic())
            try:
                data = self._link.read(min(wait_s, _CRASHING_S) if self._text.crashing else wait_s)
            except LinkEndedError as err:
                self._again_open(err)
                continue
            self._take(data)

    def _check_time(self) -> float:
        """The time at which the caller's patience ends, if no answer comes; DeviceError when it has ended."""
        ends = self._progress + self._patience_s
        if time.monotonic() >= ends:
            raise self._text.silent(self._patience_s, begun=self._begun, asked=self._asked)
        return ends

    def _fill(self, requests: Sequence[Request], unsent: int) -> int:
        """Send as many requests as the window allows, in one write; returns the number sent so far."""
        out: list[bytes] = []
        flying = self._flying()
        now = time.monotonic()
        while unsent < len(requests):
            request = requests[unsent]
            body = Message(request.kind, 0, self._next, self._session, request.payload).to_bytes()
            data = frames.encode(body)
            # A part of the model's run may be the answer: then there is room for the request once more.
            room = len(data) * (2 if request.runs else 1)
            if self._sent and flying + room > self._window_bytes:
                break
            busy = request.runs or request.kind in _LONG
            if len(data) > self._window_bytes:
                what = f"a frame of {len(data)} bytes is more than the device's window of {self._window_bytes}"
                raise DeviceError(what, where=self._link.name)
            self._sent[self._next] = _Sent(unsent, request.kind, busy, data, now, now, now + self._rto_s())
            self._next = (self._next + 1) % _SEQUENCES
            flying += len(data)
            out.append(data)
            unsent += 1
        if out:
            self._write(b"".join(out))
        return unsent

    def _flying(self) -> int:
        """Bytes that a busy device may not have read yet."""
        return self._unread + sum(len(sent.data) * sent.copies for sent in self._sent.values())

    def _resend_due(self, now: float) -> None:
        """Send only the oldest request again: a device that is slow must not get more than it can take in."""
        oldest = next(iter(self._sent.values()), None)
        if oldest is None or oldest.due > now:
            return
        if oldest.kind in _LONG and self._flying() + len(oldest.data) > self._window_bytes:
            oldest.due = now + _MOST_BUSY_S  # the device has as many copies as it takes in while it is busy
        else:
            self._resend([oldest])

    def _resend(self, items: Sequence[_Sent]) -> None:
        if not items:
            return
        now = time.monotonic()
        for sent in items:
            sent.last = now
            most_s = _MOST_BUSY_S if sent.kind in _LONG else _MOST_RTO_S
            sent.due = now + min(self._rto_s() * 2 ** min(sent.tries, 16), most_s)
            sent.tries += 1
            sent.copies += sent.busy  # during any other request it reads what comes
            self.resent += 1
        self._write(b"".join(sent.data for sent in items))

    def _write(self, data: bytes) -> None:
        try:
            self._link.write(data)
        except LinkBlockedError:
            raise
        except LinkEndedError:
            return  # the next read reports it again

    def _take(self, data: bytes) -> None:
        self._text.any_bytes = self._text.any_bytes or bool(data)
        for event in self._decoder.feed(data):
            self._check_time()
            if isinstance(event, frames.Text):
                self._text.take(event.data)
            elif isinstance(event, frames.Damaged):
                self._damaged()
            else:
                message = Message.parse(event.body)
                if message is not None:
                    self._message(message)

    def _damaged(self) -> None:
        oldest = next(iter(self._sent.values()), None)
        if oldest is not None and oldest.tries < 4:
            oldest.due = min(oldest.due, time.monotonic() + _DAMAGE_S)

    def _message(self, message: Message) -> None:
        if message.kind == STARTED and message.session == 0:
            if Kind.HELLO not in (sent.kind for sent in self._sent.values()):
                raise SessionLostError(taken=False)
            return
        if message.session != self._session:
            return  # an answer for an earlier host
        if message.kind == AGAIN:
            self._asked += 1
            self._again(message.seq)
            return
        sent = self._sent.get(message.seq)
        if sent is None or message.kind != sent.kind | ANSWER:  # a second answer: the request was sent again too early
            self._least_rto_s = min(self._least_rto_s * 1.5, _MOST_RTO_S / 2)
            return
        if message.status == Status.NO_SESSION:
            raise SessionLostError(taken=_detail(message) == _ANOTHERS)
        del self._sent[message.seq]
        self._answers[sent.place] = message
        self._progress, self._asked = time.monotonic(), 0
        # Bytes come in order: the device has read all bytes sent before this request, but not yet its copies.
        self._unread = len(sent.data) * max(sent.copies - 1, 0)
        if sent.tries == 1 and sent.kind not in _LONG:
            self._measured(time.monotonic() - sent.first)
        now = time.monotonic()
        for other in self._sent.values():
            other.due = max(other.due, now + self._rto_s())
        # The device answers in the order of arrival: a request sent before this one and not answered got lost. After
        # sending again it is not known which copy was answered, so the other requests keep their time.
        young = now if sent.tries == 1 else now - self._rto_s()
        older = [other for other in self._sent.values() if (other.last, other.place) < (sent.last, sent.place)]
        self._resend([other for other in older if other.last <= young])

    def _again(self, seq: int) -> None:
        """Send all requests from `seq` on again, at most once per round trip."""
        now = time.monotonic()
        if self._asked_again[0] == seq and now < self._asked_again[1]:
            return
        self._asked_again = (seq, now + self._rto_s())
        self._resend([sent for own, sent in self._sent.items() if (own - seq) % _SEQUENCES < _SEQUENCES // 2])

    def _measured(self, rtt_s: float) -> None:
        """Update the round-trip time as in RFC 6298; the wait that late answers raised shrinks with timely ones."""
        self._least_rto_s = max(_LEAST_RTO_S, self._least_rto_s * _CALMING)
        if self._rtt_s is None:
            self._rtt_s, self._rtt_spread_s = rtt_s, rtt_s / 2
        else:
            self._rtt_spread_s += (abs(rtt_s - self._rtt_s) - self._rtt_spread_s) / 4
            self._rtt_s += (rtt_s - self._rtt_s) / 8

    def _rto_s(self) -> float:
        if self._rtt_s is None:
            return _FIRST_RTO_S
        return min(max(self._rtt_s + 4 * self._rtt_spread_s, self._least_rto_s), _MOST_RTO_S)

    def _again_open(self, end: LinkEndedError) -> None:
        """Open a link that ended, within the caller's patience; then all unanswered requests are due again."""
        if not self._link.capabilities.reopens:
            raise end
        ends = time.monotonic() + self._patience_s
        self._link.close()
        while True:
            try:
                self._link.open()
                break
            except DeviceError as err:
                self._link.close()
                if time.monotonic() >= ends:
                    raise LinkEndedError(f"{end}, and was not back within {self._patience_s:g} s") from err
                time.sleep(_REOPEN_EVERY_S)
        self._decoder = frames.Decoder()
        self._unread = 0
        for sent in self._sent.values():
            sent.due, sent.copies = 0.0, 0


def checked(message: Message) -> bytes:
    """The payload of a good answer; RefusedError for any other."""
    if message.status == Status.OK:
        return message.payload
    stage = message.payload[2] if message.payload[2:] else 0
    raise RefusedError(message.kind & ~ANSWER, message.status, _detail(message), stage)


def _detail(message: Message) -> int:
    return int.from_bytes(message.payload[:2], "little")


class RefusedError(Exception):
    """The device refused a request: with a Status, and for Status.MODEL the app's code and the stage."""

    def __init__(self, kind: int, status: int, detail: int, stage: int) -> None:
        super().__init__(f"request {kind}: status {status}, detail {detail}, stage {stage}")
        self.kind, self.status, self.detail, self.stage = kind, status, detail, stage

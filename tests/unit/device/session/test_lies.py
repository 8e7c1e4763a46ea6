# SPDX-License-Identifier: Apache-2.0
"""A device that does not tell the truth is told so in one line, in time, and never taken for the one expected."""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.fakes.liar import Liar, Lie, Tensor, paused, text
from tests.helpers.marks import rest_slow
from tflm_zephyr.device.protocol import frames, messages
from tflm_zephyr.device.protocol.messages import AGAIN, ANSWER, Kind, Message, TableOf
from tflm_zephyr.device.session import channel
from tflm_zephyr.device.session.console_text import ConsoleText
from tflm_zephyr.device.session.device_session import DeviceSession
from tflm_zephyr.device.session.opening import open_session
from tflm_zephyr.device.transport.target import DeviceTarget
from tflm_zephyr.errors import DeviceError

WHOLE = "0123456789abcdef" * 4
GOOD = Tensor("in")


@contextmanager
def opened(lie: Lie = lambda _: None, expect: str = "", **facts: object) -> Iterator[tuple[DeviceSession, Liar]]:
    with Liar(lie, **facts) as device:
        want = {"net": expect} if expect else {}
        target = DeviceTarget(port=device.port, expect=want, reply_timeout_s=1.0, run_timeout_s=1.0)
        with open_session(target) as session:
            assert isinstance(session, DeviceSession)
            yield session, device


@pytest.mark.parametrize("told", [WHOLE[:16], WHOLE, WHOLE[:20].upper()])
def test_the_start_of_the_hash_says_which_model_it_is(told: str) -> None:
    with opened(sha256=told, expect=WHOLE) as (session, _):
        assert session.hello.runs(WHOLE)
        assert not session.hello.runs("f" * 64)


@pytest.mark.parametrize("told", ["", WHOLE[:15], WHOLE + "0", "no digits in hex", " 123456789abcdef"])
def test_no_hash_is_no_start_of_any(told: str) -> None:
    with pytest.raises(DeviceError, match="is not 16 to 64 hex digits of a SHA-256"), opened(sha256=told):
        pass


def test_another_hash_is_another_model() -> None:
    with pytest.raises(DeviceError, match="another model is there"), opened(expect="f" * 64):
        pass


def test_a_version_that_was_not_asked_for_is_reported() -> None:
    with (
        pytest.raises(DeviceError, match=r"speaks version 7 of the link's protocol, this tool version 1\. Generate"),
        opened(version=7),
    ):
        pass


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"payload": 63}, "a payload of 63 and a window of 2048 bytes"),
        ({"window": 0}, "a payload of 512 and a window of 0 bytes"),
        ({"hz": 0}, "0 ticks per second"),
        ({"models": 0}, "no model is there"),
        ({"outputs": ()}, "1 inputs, 0 outputs, 2 tensors"),
        ({"inputs": (2,)}, "an input or output is none of the tensors"),
        ({"tensors": (GOOD, Tensor("out", bytes=3))}, r"\(out\), an input or output, is int8 .* has 3 bytes"),
        ({"tensors": (GOOD, Tensor("out", bytes=2**32 - 1))}, r"int8 of shape \[1, 4\], has 4294967295 bytes"),
        ({"tensors": (GOOD, Tensor("out", type=0))}, r"is float32 of shape \[1, 4\] and has 4 bytes"),
        ({"tensors": (GOOD, Tensor("out", shape=(-1, -4)))}, r"\(out\), int8 of shape \[-1, -4\], has 4 bytes"),
        ({"tensors": (GOOD, Tensor("out", bytes=0))}, r"tensor 1 \(out\), an input or output, is .* has 0 bytes"),
        ({"tensors": (GOOD, GOOD, Tensor("inner", bytes=5))}, r"tensor 2 \(inner\), int8 of shape .* has 5 bytes"),
        ({"tensors": (Tensor("in", scale=math.nan), GOOD)}, r"tensor 0 \(in\), an input or output, has the scale nan"),
        ({"tensors": (GOOD, Tensor("out", scale=math.inf))}, "has the scale inf"),
        ({"tensors": (GOOD, Tensor("out", scale=-1.0))}, r"has the scale -1\.0"),
    ],
)  # fmt: skip
def test_a_hello_that_cannot_be_is_malformed(facts: dict[str, object], said: str) -> None:
    with pytest.raises(DeviceError, match=rf"the answer breaks the protocol \(.*{said}"), opened(**facts):
        pass


def test_what_the_protocol_allows_passes() -> None:
    four_bits = Tensor("packed", type=17, bytes=2)
    apart = (
        Tensor("spelt", type=5, bytes=77),
        Tensor("nowhere", bytes=0),
        Tensor("less", bytes=3),
        Tensor("none", scale=0.0),
    )
    with opened(tensors=(GOOD, four_bits, *apart), payload=64, window=64) as (session, _):
        assert [tensor.bytes for tensor in session.hello.tensors] == [4, 2, 77, 0, 3, 4]
        assert session.hello.tensors[5].scale is None


def test_names_do_nothing_to_a_terminal() -> None:
    tensors = (Tensor("in\x1b[2J"), Tensor("out\u202e\nx"))
    with opened(app="\x1b[2Ja\nall well", board="b\r\x9bK", model="\x1b]0;own\x07net", tensors=tensors) as (session, _):
        hello = session.hello
        names = [tensor.name for tensor in hello.tensors]
        said = (hello.device.app, hello.device.board, hello.model, *hello.models, *names)
        assert said == ("?[2Ja?all well", "b?K", "?]0;own?net", "?]0;own?net", "in?[2J", "out?x")


def plain(kind: Kind) -> Lie:
    """Waits after operator 0 for ever, whatever was asked for by `kind` first."""
    return lambda message: paused(0) if message.kind in (kind, Kind.CONTINUE) else None


def test_a_capture_that_never_ends_is_given_up() -> None:
    with opened(plain(Kind.RUN)) as (session, device):
        with pytest.raises(DeviceError, match="operator 0 ended after operator 0"):
            session.capture([bytes(4)])
        assert [message.kind for message in device.taken].count(Kind.CONTINUE) == 1


def test_a_loop_in_a_capture_has_the_time_of_a_run() -> None:
    lie: Lie = lambda message: paused(1) if message.kind in (Kind.RUN, Kind.CONTINUE) else None  # noqa: E731
    with opened(lie, operators=((119, 0), (0, 1))) as (session, device):
        with pytest.raises(DeviceError, match="no operator of the main subgraph ended within 1 s"):
            session.capture([bytes(4)])
        before = len(device.taken)
        session.reset()
        assert device.taken[before].kind == Kind.HELLO  # what waits there is let go
    assert [message.kind for message in device.taken].count(Kind.CONTINUE) > 3


@pytest.mark.parametrize(
    ("state", "outputs", "said"),
    [
        (paused(1), (), "operator 1 ended, there are 1"),
        (paused(0, 1), ((1, 5),), "operator 0 has 5 bytes of output in tensor 1"),
        (paused(0, 1), ((2, 1),), "operator 0 has 1 bytes of output in tensor 2"),
        (b"\2\0\0\0\0", (), "a run is in state 2"),
    ],
)
def test_a_pause_that_cannot_be_is_malformed(state: bytes, outputs: tuple[tuple[int, int], ...], said: str) -> None:
    lie: Lie = lambda message: state if message.kind == Kind.RUN else None  # noqa: E731
    with opened(lie, paused_at=outputs) as (session, device):
        with pytest.raises(DeviceError, match=said):
            session.capture([bytes(4)])
        before = len(device.taken)
        session.reset()
        assert device.taken[before].kind == Kind.HELLO  # what waits there is let go


def test_a_plain_run_does_not_wait() -> None:
    with opened(plain(Kind.RUN)) as (session, _):
        with pytest.raises(DeviceError, match="a plain run waits after operator 0"):
            session.invoke([bytes(4)])
        with pytest.raises(DeviceError, match="a profile run waits after operator 0"):
            session.profile([bytes(4)], 1)


@pytest.mark.parametrize("wrong", [b"abc", b"abcde"])
def test_other_bytes_than_were_asked_for_are_malformed(wrong: bytes) -> None:
    lie: Lie = lambda message: wrong if message.kind == Kind.READ else None  # noqa: E731
    with opened(lie) as (session, _), pytest.raises(DeviceError, match=rf"{len(wrong)} bytes came, 4 were asked for"):
        session.invoke([bytes(4)])


def test_an_unknown_status_is_reported_with_its_number() -> None:
    def lie(message: Message) -> list[Message] | None:
        refused = [Message(message.kind | ANSWER, 99, message.seq, message.session, b"\0\0\0")]
        return refused if message.kind == Kind.RUN else None

    with opened(lie) as (session, _), pytest.raises(DeviceError, match="answers with the unknown status 99"):
        session.invoke([bytes(4)])


@pytest.mark.parametrize("times", rest_slow([5, 1]))
def test_a_device_that_asks_again_and_again_is_given_up_in_time(times: int) -> None:
    def lie(message: Message) -> list[Message] | None:
        again = [Message(AGAIN, 0, message.seq, message.session, b"")] * times
        return again if message.kind == Kind.RUN else None

    with opened(lie) as (session, device), pytest.raises(DeviceError, match="no answer within 1 s"):
        session.invoke([bytes(4)])
    runs = [message.kind for message in device.taken].count(Kind.RUN)
    assert 1 < runs < 70  # one a round trip of 0.1 s at least


@pytest.mark.parametrize("kind", [Kind.HELLO, Kind.SELECT, Kind.TABLE, Kind.RUN])
def test_a_device_that_only_asks_is_given_up_after_one_timeout(kind: Kind) -> None:
    """For the hello as for any request: asking again is no answer, and no sign of a wrong baud rate."""

    def lie(message: Message) -> list[Message] | None:
        return [Message(AGAIN, 0, message.seq, message.session, b"")] if message.kind == kind else None

    began = time.monotonic()
    with (
        pytest.raises(DeviceError, match=r"no answer within 1 s, but the device asked for the request \d+ times\. Do"),
        opened(lie) as (session, _),
    ):
        session.invoke([bytes(4)])
    assert time.monotonic() - began < 2.5  # 5 s when each question counted as a sign of life


def test_an_endless_table_is_given_up_in_time() -> None:
    """65,535 tensors, one an answer: read for minutes without a deadline for all of them."""

    def lie(message: Message) -> bytes | None:
        if message.kind == Kind.SELECT:
            numbers = struct.pack("<4H3I", 1, 1, 65535, 1, 1000, 1, 1)
            return numbers + b"".join(map(text, ("net", WHOLE[:16], "given")))
        if message.kind == Kind.TABLE and message.payload[0] == TableOf.TENSORS:
            (start,) = struct.unpack_from("<H", message.payload, 1)
            time.sleep(0.01)
            return struct.pack("<H", start + 1) + GOOD.entry()
        return None

    began = time.monotonic()
    with pytest.raises(DeviceError, match=r"\d+ of 65535 entries of its table of tensors came in time"), opened(lie):
        pass
    assert 2.9 < time.monotonic() - began < 6


def test_outputs_of_a_paused_operator_come_in_time_as_well() -> None:
    def lie(message: Message) -> bytes | None:
        if message.kind == Kind.RUN:
            return paused(0, 65535)
        if message.kind == Kind.TABLE and message.payload[0] == TableOf.PAUSED_AT:
            (start,) = struct.unpack_from("<H", message.payload, 1)
            time.sleep(0.01)
            return struct.pack("<HiI", start + 1, -1, 0)
        return None

    with (
        opened(lie) as (session, _),
        pytest.raises(DeviceError, match=r"\d+ of 65535 entries of its table of paused_at came in time"),
    ):
        session.capture([bytes(4)])


def test_endless_wrong_answers_end_in_a_timeout() -> None:
    def lie(message: Message) -> list[Message] | None:
        late = Message(Kind.WRITE | ANSWER, 0, (message.seq - 1) % 65536, message.session, b"")
        return [late] * 2000 if message.kind == Kind.RUN else None

    with opened(lie) as (session, _), pytest.raises(DeviceError, match="no answer within 1 s"):
        session.invoke([bytes(4)])


def test_a_window_of_less_than_a_payload_is_kept() -> None:
    tensors = (Tensor("in", bytes=3000, shape=(3000,)), Tensor("out"))
    with opened(tensors=tensors, window=300) as (session, device):
        session.invoke([bytes(3000)])
        writes = [frames.encode(m.to_bytes()) for m in device.taken if m.kind == Kind.WRITE]
        assert max(map(len, writes)) <= 300
        assert sum(len(m.payload) - 6 for m in device.taken if m.kind == Kind.WRITE) == 3000
        with pytest.raises(DeviceError, match=r"a frame of 31\d bytes is more than the device's window of 300"):
            session.echo([bytes(299)])


def test_a_closed_session_says_so() -> None:
    with opened() as (session, _):
        session.close()
        session.close()
        for use in (session.reset, session.memory, lambda: session.invoke([bytes(4)])):
            with pytest.raises(DeviceError, match=r"this session is closed\. Open another"):
                use()


class _Clock:
    """Time that passes when it is waited for alone."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


class _Busy:
    """A link to a device that runs for ever and reads nothing meanwhile."""

    name, where = "busy", "serial"

    def __init__(self, clock: _Clock) -> None:
        self.unread, self._clock, self._out = 0, clock, b""
        self._decoder = frames.Decoder()

    def open(self) -> None: ...

    def close(self) -> None: ...

    def read(self, timeout_s: float) -> bytes:
        out, self._out = self._out, b""
        self._clock.now += 0.005 if out else max(timeout_s, 0.001)
        return out

    def write(self, data: bytes) -> None:
        for event in self._decoder.feed(data):
            message = Message.parse(event.body) if isinstance(event, frames.Frame) else None
            assert message is not None
            if message.kind == Kind.RUN:
                self.unread += len(frames.encode(message.to_bytes()))
            else:
                answer = Message(message.kind | ANSWER, 0, message.seq, message.session, b"")
                self._out += frames.encode(answer.to_bytes())


@pytest.mark.parametrize("seconds", [60, 3600, 100_000])
def test_a_busy_device_is_asked_only_as_its_window_allows(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    clock = _Clock()
    monkeypatch.setattr(channel, "time", clock)
    link = _Busy(clock)
    busy = channel.Channel(link, ConsoleText("busy"))  # type: ignore[arg-type]
    busy.hello(messages.hello(), 5)
    busy.widen(256)
    with pytest.raises(DeviceError, match="no answer within"):
        busy.exchange([messages.run(messages.Mode.PLAIN)], seconds)
    assert 100 < link.unread <= 256

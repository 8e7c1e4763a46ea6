# SPDX-License-Identifier: Apache-2.0
"""The generated app's side of the link, compiled here and for a bare Cortex-M3, through the host's side."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.link import toy
from tests.fakes.link.toy import BYTES, ToyLink, expected, render_link
from tflm_zephyr.boards.board import load_board
from tflm_zephyr.device.protocol import frames, messages
from tflm_zephyr.device.protocol.messages import Kind, Message, Status
from tflm_zephyr.device.session.device_session import DeviceSession
from tflm_zephyr.device.transport.qemu import QemuLink
from tflm_zephyr.errors import DeviceError

IMAGE = random.Random(1).randbytes(BYTES)


@pytest.fixture
def session(program: Path) -> Iterator[DeviceSession]:
    session = DeviceSession(ToyLink(program), model="toy", reply_timeout_s=5)
    session.open()
    with session:
        yield session


def test_the_hello_says_who_is_there(session: DeviceSession) -> None:
    hello = session.hello
    assert (hello.device.app, hello.model, hello.sha256) == ("toy_app", "toy", "0123456789abcdef")
    assert hello.models == ("toy", "refused", "streamed")
    assert [(t.index, t.name, t.type, t.shape, t.bytes) for t in hello.inputs] == [
        (0, "image", "int8", (1, 96, 96), BYTES)
    ]
    assert [(t.index, t.type, t.scale, t.zero_point) for t in hello.outputs] == [
        (2, "int8", 0.5, -3),
        (3, "int32", None, 0),
    ]
    assert [t.name for t in hello.tensors] == ["image", "middle", "result", "runs"]
    assert [(o.index, o.name, o.subgraph, o.position) for o in hello.operators] == [
        (0, "REVERSE_V2", 0, 0),
        (1, "MUL", 0, 1),
    ]
    assert (hello.arena.head_bytes, hello.arena.tail_bytes, hello.arena.source) == (2 * BYTES, 128, "given")
    assert (hello.device.hz, hello.instructions_per_tick) == (1_000_000, None)
    assert (hello.device.payload_bytes, hello.device.window_bytes) == (512, 2048)


def test_runs_count_and_a_reset_begins_again(session: DeviceSession) -> None:
    for run in (1, 2, 3):
        result, count = session.invoke([IMAGE]).outputs
        assert result == expected(IMAGE)
        assert int.from_bytes(count, "little") == run
    session.reset()
    assert int.from_bytes(session.invoke([IMAGE]).outputs[1], "little") == 1


def test_each_operators_outputs_are_those_at_its_end(session: DeviceSession) -> None:
    captured = session.capture([IMAGE])
    assert [(o.operator, o.name, o.subgraph, o.tensor) for o in captured.operators] == [
        (0, "REVERSE_V2", 0, 1),
        (1, "MUL", 0, 2),
        (1, "MUL", 0, 3),
    ]
    assert captured.operators[0].data == bytes(byte ^ 0x55 for byte in reversed(IMAGE))
    assert captured.operators[1].data == captured.outputs[0] == expected(IMAGE)
    assert session.tensor(0) == expected(IMAGE)  # the output took the input's place


def test_a_profile_has_each_run_and_operator(session: DeviceSession) -> None:
    profile = session.profile([IMAGE], 4)
    assert profile.names == ("REVERSE_V2", "MUL")
    assert [len(run) for run in profile.ticks] == [2, 2, 2, 2]
    assert session.memory().link.taken > 4


@pytest.mark.parametrize("payload", [b"", b"\0" * 512, b"\0\xfe\0" * 100, bytes(range(1, 256)) * 2], ids=len)
def test_echoes_are_the_same(session: DeviceSession, payload: bytes) -> None:
    assert session.echo([payload] * 20) == [payload] * 20


def test_wrong_inputs_are_reported_before_anything_is_sent(session: DeviceSession) -> None:
    with pytest.raises(DeviceError, match="toy: the model has 1 inputs, 2 were given"):
        session.invoke([IMAGE, IMAGE])
    with pytest.raises(DeviceError, match=r"toy: input 0 \(image\) takes 9216 bytes, 3 were given"):
        session.invoke([b"abc"])
    with pytest.raises(DeviceError, match="toy: no tensor 4: the model has 4"):
        session.tensor(4)
    assert session.invoke([IMAGE]).outputs[0] == expected(IMAGE)


def test_a_models_error_is_reported_and_the_session_goes_on(session: DeviceSession) -> None:
    with pytest.raises(DeviceError, match=r"toy: a kernel failed \(code 5 at invoke\)"):
        session.invoke([b"\xbd" * BYTES])
    assert session.invoke([IMAGE]).outputs[0] == expected(IMAGE)
    with pytest.raises(DeviceError, match=r"AllocateTensors failed.* \(code 4 at init\)"):
        session.select("refused")
    with pytest.raises(DeviceError, match="no model other there, but toy, refused, streamed"):
        session.select("other")
    assert session.hello.model == "toy"
    assert session.invoke([IMAGE]).outputs[0] == expected(IMAGE)


def test_a_streamed_input_comes_in_pieces(session: DeviceSession) -> None:
    session.select("streamed")
    (image,) = session.hello.inputs
    assert (image.streamed, image.bytes) == (True, BYTES)
    for seed in range(3):
        data = random.Random(seed).randbytes(BYTES)
        assert session.invoke([data]).outputs == (toy.folded(data),)
    assert len(session.profile([IMAGE], 2).ticks) == 2
    assert session.capture([IMAGE]).operators[0].data == toy.folded(IMAGE)
    with pytest.raises(DeviceError, match="tensor 0 comes row by row and is nowhere as a whole"):
        session.tensor(0)


def asked(session: DeviceSession, *requests: messages.Request) -> None:
    session._recovering("a test", lambda: session._there.ask(requests))


def test_a_streamed_input_out_of_order_is_refused(session: DeviceSession) -> None:
    session.select("streamed")
    missing = r"rows of the streamed input are missing.* \(code 11 at invoke\)"
    with pytest.raises(DeviceError, match=missing):
        asked(session, messages.run(messages.Mode.PLAIN))
    with pytest.raises(DeviceError, match=missing):
        asked(session, messages.write(0, 0, IMAGE[:100]), messages.write(0, 101, IMAGE[101:200]))
    with pytest.raises(DeviceError, match="request for read: the app has no such thing"):
        asked(session, messages.read(messages.Space.TENSOR, 0, 0, 0, 10))
    # Half an image, and then all of it from its start.
    asked(session, messages.write(0, 0, IMAGE[:100]), messages.write(0, 100, IMAGE[100:300]))
    with pytest.raises(DeviceError, match=missing):
        asked(session, messages.run(messages.Mode.PLAIN))
    assert session.invoke([IMAGE]).outputs == (toy.folded(IMAGE),)


def test_text_between_frames_reaches_the_user(program: Path) -> None:
    heard: list[str] = []
    session = DeviceSession(ToyLink(program, "text"), model="toy", on_text=heard.append)
    session.open()
    with session:
        assert session.invoke([IMAGE]).outputs[0] == expected(IMAGE)
        session.capture([IMAGE])
    assert heard == ["app: at work", "app: at work"]


@pytest.mark.slow
def test_on_a_bare_cortex_m3(tmp_path: Path) -> None:
    for tool in ("arm-none-eabi-g++", "qemu-system-arm"):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool}")
    qemu = load_board("mps2/an385").qemu
    assert qemu is not None
    session = DeviceSession(QemuLink(qemu, toy.compile_bare(tmp_path)), model="toy")
    session.open()
    with session:
        assert session.hello.device.board == "mps2/an385"
        assert session.hello.instructions_per_tick is not None
        invocation = session.invoke([IMAGE])
        assert invocation.outputs[0] == expected(IMAGE)
        # Every byte twice through a loop of some instructions, 40 of which are a tick.
        assert 9216 / 40 < invocation.ticks < 9216
        captured = session.capture([IMAGE])
        assert [len(found.data) for found in captured.operators] == [BYTES, BYTES, 4]
        assert captured.operators[1].data == expected(IMAGE)
        assert session.memory().link.damaged == 0


class Raw:
    """Single messages to a device, without a channel."""

    def __init__(self, program: Path) -> None:
        self.link = ToyLink(program)
        self.decoder = frames.Decoder()

    def __enter__(self) -> Raw:
        self.link.open()
        started = self.answers()
        assert [(m.kind, m.session) for m in started] == [(messages.STARTED, 0)]
        return self

    def __exit__(self, *exc: object) -> None:
        self.link.close()

    def send(self, kind: int, seq: int, payload: bytes = b"", session: int = 7) -> list[Message]:
        self.link.write(frames.encode(Message(kind, 0, seq, session, payload).to_bytes()))
        return self.answers()

    def answers(self) -> list[Message]:
        found: list[Message] = []
        while data := self.link.read(2 if not found else 0.05):
            for event in self.decoder.feed(data):
                message = Message.parse(event.body) if isinstance(event, frames.Frame) else None
                assert message is not None
                found.append(message)
        return found

    def status(self, kind: int, seq: int, payload: bytes = b"", session: int = 7) -> int:
        (answer,) = self.send(kind, seq, payload, session)
        assert (answer.kind, answer.seq, answer.session) == (kind | messages.ANSWER, seq, session)
        return answer.status


def test_malformed_requests_are_refused_with_their_reason(program: Path) -> None:
    with Raw(program) as device:
        assert device.status(Kind.READ, 1, b"") == Status.NO_SESSION
        assert device.status(Kind.HELLO, 0, b"\1") == Status.MALFORMED
        assert device.status(Kind.HELLO, 0, b"\1\1", session=0) == Status.MALFORMED
        assert device.status(Kind.HELLO, 0, b"\2\7") == Status.NO_VERSION
        assert device.status(Kind.HELLO, 0, b"\1\7") == Status.OK
        assert device.status(Kind.RUN, 1, b"\0") == Status.MODEL  # none is selected
        assert device.status(Kind.SELECT, 2, b"\3") == Status.RANGE
        assert device.status(Kind.SELECT, 3, b"") == Status.MALFORMED
        assert device.status(Kind.SELECT, 4, b"\0") == Status.OK
        assert device.status(77, 5) == Status.UNKNOWN
        assert device.status(Kind.CONTINUE, 6) == Status.NOT_NOW
        assert device.status(Kind.WRITE, 7, b"\0\0") == Status.MALFORMED
        assert device.status(Kind.WRITE, 8, messages.write(1, 0, b"x").payload) == Status.RANGE
        assert device.status(Kind.WRITE, 9, messages.write(0, BYTES, b"x").payload) == Status.RANGE
        assert device.status(Kind.WRITE, 10, messages.write(0, 0xFFFFFFFF, b"xx").payload) == Status.RANGE
        assert device.status(Kind.WRITE, 11, messages.write(0, BYTES - 2, b"xx").payload) == Status.OK
        space = messages.Space
        for seq, args in enumerate(
            [(space.TENSOR, 1, 0, 0, 1), (space.TENSOR, 0, 4, 0, 1), (space.OUTPUT, 0, 2, 0, 1),
             (space.OUTPUT, 0, 1, 4, 1), (space.TENSOR, 0, 0, 0xFFFFFFFF, 2), (space.TENSOR, 0, 0, 0, 513),
             (space.TICKS, 0, 0, 8, 1)]
        ):  # fmt: skip
            assert device.status(Kind.READ, 12 + seq, messages.read(*args).payload) == Status.RANGE, args
        assert device.status(Kind.READ, 19, b"\0" * 10) == Status.MALFORMED
        assert device.status(Kind.RUN, 20, b"") == Status.MALFORMED
        (answer,) = device.send(Kind.RUN, 21, b"\x09")
        assert (answer.status, answer.payload) == (Status.RANGE, b"\x09\0\0")
        assert device.send(Kind.RUN, 21, b"\x09") == [answer]
        (answer,) = device.send(Kind.TABLE, 22, b"\x4d\0\0")
        assert (answer.status, answer.payload) == (Status.RANGE, b"\x4d\0\0")


def test_the_session_that_took_over_is_reported(program: Path) -> None:
    with Raw(program) as device:
        assert device.send(Kind.ECHO, 1)[0].payload[:2] == b"\0\0"  # nobody's: it was reset
        device.send(Kind.HELLO, 0, b"\1\1", session=8)
        (answer,) = device.send(Kind.ECHO, 1)
        assert (answer.status, answer.payload[:2]) == (Status.NO_SESSION, b"\1\0")


def test_what_comes_twice_is_done_once(program: Path) -> None:
    with Raw(program) as device:
        device.send(Kind.HELLO, 0, b"\1\1")
        device.send(Kind.SELECT, 1, b"\0")
        first = device.send(Kind.RUN, 2, b"\0")
        assert device.send(Kind.RUN, 2, b"\0") == first  # ticks and all: kept, not run again
        count = messages.read(messages.Space.OUTPUT, 0, 1, 0, 4).payload
        assert device.send(Kind.READ, 3, count)[0].payload == b"\1\0\0\0"
        assert device.send(Kind.HELLO, 0, b"\1\1")[0].status == Status.OK  # late; the session goes on
        assert device.send(Kind.READ, 3, count)[0].payload == b"\1\0\0\0"
        assert device.send(Kind.RUN, 1, b"\0") == []  # older than what is kept: for nobody


def test_what_comes_too_early_is_asked_for_once_more(program: Path) -> None:
    with Raw(program) as device:
        device.send(Kind.HELLO, 0, b"\1\1")
        assert [(m.kind, m.seq) for m in device.send(Kind.ECHO, 2, b"b")] == [(messages.AGAIN, 1)]
        assert device.send(Kind.ECHO, 3, b"c") == []  # asked once
        assert device.send(Kind.ECHO, 1, b"a")[0].payload == b"a"
        assert device.send(Kind.ECHO, 2, b"b")[0].payload == b"b"


def test_a_new_host_frees_a_device_that_waits_for_another(program: Path) -> None:
    with Raw(program) as device:
        device.send(Kind.HELLO, 0, b"\1\1")
        device.send(Kind.SELECT, 1, b"\0")
        (paused,) = device.send(Kind.RUN, 2, b"\1")
        assert messages.RunAnswer.parse(paused.payload).paused
        assert device.status(Kind.RUN, 3, b"\0") == Status.NOT_NOW
        assert device.status(Kind.RESET, 4) == Status.NOT_NOW
        assert device.status(Kind.SELECT, 5, b"\0") == Status.NOT_NOW
        assert device.status(Kind.WRITE, 6, messages.write(0, 0, b"x").payload) == Status.NOT_NOW
        assert device.status(Kind.HELLO, 0, b"\1\1", session=8) == Status.OK
        assert device.status(Kind.SELECT, 1, b"\0", session=8) == Status.OK
        assert device.status(Kind.CONTINUE, 3, session=7) == Status.NO_SESSION
        assert not messages.RunAnswer.parse(device.send(Kind.RUN, 2, b"\0", session=8)[0].payload).paused


@pytest.mark.parametrize("seed", range(4))
def test_any_bytes_at_all_do_the_device_no_harm(program: Path, seed: int) -> None:
    rng = random.Random(seed)
    link = ToyLink(program)
    link.open()
    for _ in range(400):
        kind = rng.choice([*Kind, 0, 0x70, 0xFF])
        body = Message(kind, 0, rng.randrange(4), 7, rng.randbytes(rng.choice((0, 1, 2, 3, 11, 40, 600)))).to_bytes()
        if kind == Kind.HELLO:
            body = Message(kind, 0, 0, 7, b"\1\1").to_bytes()
        if kind == Kind.SELECT:
            body = Message(kind, 0, rng.randrange(4), 7, b"\0").to_bytes()
        link.write(frames.encode(body) + rng.randbytes(rng.choice((0, 0, 5))))
        link.read(0)
    session = DeviceSession(link, model="toy", reply_timeout_s=5)
    session.open()
    with session:
        assert session.invoke([IMAGE]).outputs[0] == expected(IMAGE)


def test_the_core_knows_neither_zephyr_nor_tflm_nor_a_heap() -> None:
    for path, data in render_link().items():
        includes = {line.split()[1] for line in data.decode().splitlines() if line.startswith("#include")}
        own = {f'"link/{name}.hpp"' for name in ("device", "frame", "mlperf")}
        assert includes <= own | {"<cmath>", "<cstddef>", "<cstdint>", "<cstring>"}, path
        assert b"malloc" not in data
        assert b"new " not in data

# SPDX-License-Identifier: Apache-2.0
"""Harm on the way and at the ends: everything arrives once and in order, or one line says why not, in time."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fakes.link.toy import BYTES, ToyLink, expected, folded
from tests.fakes.link.wire import DamagedFrames, HarmedLink, Noise, PtyDevice
from tests.helpers.checkout import ROOT
from tests.helpers.marks import rest_slow
from tflm_zephyr.device.protocol import frames, messages
from tflm_zephyr.device.protocol.messages import Kind
from tflm_zephyr.device.session.device_session import DeviceSession
from tflm_zephyr.device.transport.link import Link
from tflm_zephyr.device.transport.serial_port import SerialLink
from tflm_zephyr.errors import DeviceError

IMAGE = random.Random(2).randbytes(BYTES)


@contextmanager
def opened(link: Link, **options: object) -> Iterator[DeviceSession]:
    given = {"model": "toy", "reply_timeout_s": 8.0, "run_timeout_s": 20.0, **options}
    session = DeviceSession(link, **given)  # type: ignore[arg-type]
    session.open()
    with session:
        yield session


def runs_of(session: DeviceSession) -> int:
    return int.from_bytes(session.invoke([IMAGE]).outputs[1], "little")


NOISES: dict[str, Callable[[int], Noise]] = {
    "dropped": lambda seed: Noise(seed, drop=4e-4),
    "doubled": lambda seed: Noise(seed, double=4e-4),
    "flipped": lambda seed: Noise(seed, flip=4e-4),
    "all": lambda seed: Noise(seed, drop=2e-4, double=2e-4, flip=2e-4),
}


@pytest.mark.parametrize("kind", rest_slow(NOISES))
def test_bytes_that_come_to_harm_are_made_up_for(program: Path, tmp_path: Path, kind: str) -> None:
    there, back = NOISES[kind](1), NOISES[kind](2)
    device = PtyDevice(program, tmp_path, to_device=there, to_host=back)
    with device, opened(SerialLink(device.port)) as session:
        for run in range(1, 5):
            result, count = session.invoke([IMAGE]).outputs
            assert result == expected(IMAGE)
            assert int.from_bytes(count, "little") == run  # once, whatever was sent again
        captured = session.capture([IMAGE])
        assert [len(found.data) for found in captured.operators] == [BYTES, BYTES, 4]
        assert captured.operators[1].data == expected(IMAGE)
    assert there.count + back.count > 10


@pytest.mark.parametrize("kind", rest_slow(NOISES))
def test_a_streamed_input_is_taken_once_and_in_order(program: Path, tmp_path: Path, kind: str) -> None:
    there, back = NOISES[kind](3), NOISES[kind](4)
    device = PtyDevice(program, tmp_path, to_device=there, to_host=back)
    with device, opened(SerialLink(device.port), model="streamed") as session:
        for seed in range(4):
            image = random.Random(seed).randbytes(BYTES)
            assert session.invoke([image]).outputs == (folded(image),)
    assert there.count + back.count > 10


def test_bytes_that_come_late_are_waited_for(program: Path, tmp_path: Path) -> None:
    rng = random.Random(3)

    def late(data: bytes) -> bytes:
        if rng.random() < 0.1:
            time.sleep(rng.choice((0.02, 0.15, 0.4)))
        return data

    device = PtyDevice(program, tmp_path, to_device=late, to_host=late)
    with device, opened(SerialLink(device.port)) as session:
        assert [runs_of(session) for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("after_bytes", [1, 700, 5000, 9000])
def test_a_cable_pulled_in_the_middle_of_a_frame_and_put_back(program: Path, tmp_path: Path, after_bytes: int) -> None:
    with PtyDevice(program, tmp_path) as device, opened(SerialLink(device.port)) as session:
        assert runs_of(session) == 1
        limit = device.sent + after_bytes
        pulled = threading.Event()

        def cut(data: bytes) -> bytes:
            if device.sent + len(data) < limit or pulled.is_set():
                return data
            pulled.set()
            return data[: max(limit - device.sent, 0)]

        device.to_device = cut

        def pull() -> None:
            pulled.wait(10)
            device.unplug()
            time.sleep(0.3)
            device.plug()

        puller = threading.Thread(target=pull)
        puller.start()
        assert runs_of(session) == 2
        puller.join()
        assert runs_of(session) == 3


def test_a_cable_that_is_not_put_back_is_reported_in_time(program: Path, tmp_path: Path) -> None:
    with PtyDevice(program, tmp_path) as device, opened(SerialLink(device.port), reply_timeout_s=1.0) as session:
        device.unplug()
        with pytest.raises(DeviceError, match=r"the port is gone.* and was not back within 1 s$"):
            session.invoke([IMAGE])


def test_a_reset_in_the_middle_of_an_invocation_is_made_up_for(program: Path, tmp_path: Path) -> None:
    with PtyDevice(program, tmp_path, "slow") as device, opened(SerialLink(device.port)) as session:
        assert runs_of(session) == 1
        timer = threading.Timer(0.15, device.reset)
        timer.start()
        assert session.invoke([IMAGE]).outputs == (expected(IMAGE), b"\1\0\0\0")  # the first run after the reset
        timer.join()


def test_a_reset_that_loses_the_models_state_is_reported(program: Path, tmp_path: Path) -> None:
    with PtyDevice(program, tmp_path, "slow", "stateful") as device, opened(SerialLink(device.port)) as session:
        timer = threading.Timer(0.15, device.reset)
        timer.start()
        with pytest.raises(DeviceError, match="restarted during an invocation, and the model's state is lost"):
            session.invoke([IMAGE])
        timer.join()
        assert runs_of(session) == 1


def test_a_device_that_restarts_again_and_again_is_given_up(program: Path, tmp_path: Path) -> None:
    with PtyDevice(program, tmp_path, "slow") as device, opened(SerialLink(device.port)) as session:
        stop = threading.Event()

        def again() -> None:
            while not stop.wait(0.2):
                device.reset()

        thread = threading.Thread(target=again)
        thread.start()
        with pytest.raises(DeviceError, match="the device restarted 3 times during an invocation"):
            session.invoke([IMAGE])
        stop.set()
        thread.join()


class _Taken(HarmedLink):
    """Another host begins a session before each write but that of a hello; every other time a reset with `resets`."""

    taking = resets = False

    def write(self, data: bytes) -> None:
        hello = any(
            isinstance(event, frames.Frame) and (m := messages.Message.parse(event.body)) and m.kind == Kind.HELLO
            for event in frames.Decoder().feed(data)
        )
        if self.taking and not hello:
            self.times += 1
            if self.resets and self.times % 2:
                assert isinstance(self._link, ToyLink)
                self._link.restart()
            else:
                asked = messages.hello()
                super().write(frames.encode(messages.Message(asked.kind, 0, 0, 99, asked.payload).to_bytes()))
        super().write(data)

    times = 0


def test_another_host_at_the_same_port_is_reported(program: Path) -> None:
    link = _Taken(ToyLink(program))
    with opened(link) as session:
        link.taking = True
        with pytest.raises(DeviceError, match="another host took the device 3 times during an invocation"):
            session.invoke([IMAGE])
        link.taking = False
        assert session.invoke([IMAGE]).outputs[0] == expected(IMAGE)


def test_another_host_and_resets_by_turns_are_reported(program: Path) -> None:
    link = _Taken(ToyLink(program))
    with opened(link) as session:
        link.taking = link.resets = True
        with pytest.raises(DeviceError, match="restarted and another host took it, 3 times in all, during an invoc"):
            session.invoke([IMAGE])


def test_a_state_another_host_took_is_reported_once(program: Path) -> None:
    link = _Taken(ToyLink(program, "stateful"))
    with opened(link) as session:
        assert [runs_of(session), runs_of(session)] == [1, 2]
        link.taking = True
        with pytest.raises(DeviceError, match="another host took the device during an invocation, and the model's"):
            session.invoke([IMAGE])
        link.taking = False
        assert [runs_of(session), runs_of(session)] == [1, 2]


def test_silence_after_a_restart_is_no_missing_hello(program: Path) -> None:
    link = HarmedLink(ToyLink(program))
    with opened(link, reply_timeout_s=0.5) as session:
        session._channel._next = 0  # as after 65536 requests
        link._to_device = lambda _: b""
        with pytest.raises(DeviceError, match=r"no answer within 0\.5 s"):
            session.echo([b"x"])


def test_garbage_before_the_hello_is_passed_over(program: Path, tmp_path: Path) -> None:
    noise = random.Random(5).randbytes(3000) + b"\0\xfe\5ab"  # as if a frame began
    heard: list[str] = []
    device = PtyDevice(program, tmp_path, before=noise + b"\0\n*** Booting Zephyr ***\n" + noise)
    with device, opened(SerialLink(device.port), on_text=heard.append) as session:
        assert runs_of(session) == 1
    assert "*** Booting Zephyr ***" in heard
    assert all(line.isprintable() for line in heard)


def test_a_wrong_model_is_reported(program: Path) -> None:
    for model, expect, said in (
        (
            "toy",
            "toy",
            "another model is there: toy with SHA-256 0123456789abcdef of app toy_app, not ffff",
        ),
        ("", "digits", "another model is there: toy with SHA-256 0123456789abcdef of app toy_app, none of digits"),
    ):
        link = ToyLink(program)
        with pytest.raises(DeviceError, match=said), opened(link, model=model, expect={expect: "ffff" * 16}):
            pass
    with opened(ToyLink(program), expect={"toy": "0123456789abcdef" * 4}) as session:
        assert runs_of(session) == 1


def test_another_version_of_the_protocol_is_reported(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "VERSION", 2)
    with (
        pytest.raises(DeviceError, match=r"speaks version 1 of the link's protocol, this tool version 2\. Generate"),
        opened(ToyLink(program)),
    ):
        pass


@pytest.mark.slow
def test_a_silent_port_and_one_with_another_app_are_reported(program: Path, tmp_path: Path) -> None:
    for before, said in (
        (b"", "nothing received within 1 s"),
        (b"TFLM:begin app=x\nTFLM:output run=0\n", "runs its self-test and has no host link"),
        (b"uart:~$ \n", r"no answer to the link's hello within 1 s. Last lines: uart:~\$"),
    ):
        mute = tmp_path / "mute"
        mute.mkdir(exist_ok=True)
        device = PtyDevice(program, mute, to_device=lambda _: b"", to_host=lambda _: b"", before=before)
        with device, pytest.raises(DeviceError, match=said), opened(SerialLink(device.port), reply_timeout_s=1.0):
            pass


def test_a_crash_is_reported_with_its_words(program: Path) -> None:
    with opened(ToyLink(program, "crash")) as session:
        with pytest.raises(DeviceError, match="the app crashed: TFLM aborted: a check in it failed"):
            session.invoke([b"\xcc" * BYTES])
        session._link.end()


class _Stopped(HarmedLink):
    """Interrupts its process at the n-th use."""

    def __init__(self, link: Link, uses: int) -> None:
        super().__init__(link)
        self.left = uses

    def read(self, timeout_s: float) -> bytes:
        self._use()
        return super().read(timeout_s)

    def write(self, data: bytes) -> None:
        self._use()
        super().write(data)

    def close(self) -> None:
        """The device lives on."""

    def _use(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def test_wherever_a_host_is_interrupted_the_next_session_works(program: Path) -> None:
    device = ToyLink(program)
    device.open()
    uses = 0
    while True:
        uses += 1
        stopped = _Stopped(device, uses)
        try:
            with opened(stopped) as session:
                session.capture([IMAGE])
                assert runs_of(session) == 2
        except KeyboardInterrupt:
            continue
        break
    assert uses > 40
    with opened(device) as session:
        assert session.invoke([IMAGE]).outputs == (expected(IMAGE), b"\1\0\0\0")


def test_an_interrupted_session_can_be_used_further(program: Path) -> None:
    stopped = _Stopped(ToyLink(program), 40)
    with opened(stopped) as session:
        with pytest.raises(KeyboardInterrupt):
            session.capture([IMAGE])
        assert session.invoke([IMAGE]).outputs == (expected(IMAGE), b"\1\0\0\0")
    stopped._link.close()


@pytest.mark.parametrize("reset", [False, True])
def test_an_interrupt_that_loses_the_state_is_reported_once(program: Path, reset: bool) -> None:
    stopped = _Stopped(ToyLink(program, "stateful"), 0)
    with opened(stopped) as session:
        assert [runs_of(session), runs_of(session)] == [1, 2]
        stopped.left = 2
        with pytest.raises(KeyboardInterrupt):
            session.memory()
        if reset:
            session.reset()
        else:
            with pytest.raises(DeviceError, match="interrupted before an invocation, and"):
                runs_of(session)
        assert [runs_of(session), runs_of(session)] == [1, 2]
    stopped._link.close()


@pytest.mark.parametrize("signal_number", rest_slow([signal.SIGKILL, signal.SIGINT]))
def test_a_killed_host_process_leaves_the_device_usable(
    program: Path, tmp_path: Path, signal_number: signal.Signals
) -> None:
    script = (
        "import sys; from tflm_zephyr.device.transport.serial_port import SerialLink;"
        "from tflm_zephyr.device.session.device_session import DeviceSession;"
        "s = DeviceSession(SerialLink(sys.argv[1]), model='toy'); s.open(); print('open', flush=True)\n"
        "while True: s.capture([bytes(9216)])"
    )
    with PtyDevice(program, tmp_path) as device:
        for pause in (0.0, 0.013, 0.031):
            child = subprocess.Popen(
                [sys.executable, "-c", script, device.port],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
            assert child.stdout is not None
            assert child.stdout.readline() == b"open\n"
            time.sleep(pause)
            child.send_signal(signal_number)
            child.wait(10)
            child.stdout.close()
            with opened(SerialLink(device.port)) as session:
                assert session.invoke([IMAGE]).outputs == (expected(IMAGE), b"\1\0\0\0")


def test_a_busy_device_is_never_sent_more_than_it_takes_in(program: Path) -> None:
    class Counting(HarmedLink):
        most = flying = 0

        def write(self, data: bytes) -> None:
            self.flying += len(data)
            self.most = max(self.most, self.flying)
            super().write(data)

        def read(self, timeout_s: float) -> bytes:
            if self.flying >= 1500:  # the device is busy and answers nothing for a while
                time.sleep(0.02)
            data = super().read(timeout_s)
            if data:
                self.flying = 0
            return data

    link = Counting(ToyLink(program))
    with opened(link) as session:
        assert runs_of(session) == 1
        assert 1500 < link.most <= session.hello.device.window_bytes


@pytest.mark.slow
def test_100000_frames_with_one_in_a_hundred_damaged(program: Path) -> None:
    there, back = DamagedFrames(1), DamagedFrames(2)
    count, step = 100_000, 2000
    with opened(HarmedLink(ToyLink(program), to_device=there, to_host=back)) as session:
        for begin in range(0, count, step):
            wanted = [number.to_bytes(4, "little") * (1 + number % 8) for number in range(begin, begin + step)]
            assert session.echo(wanted) == wanted
        link = session.memory().link
        assert link.damaged > 0.009 * count
        # What the device took, once each: the echoes, and the session's own few requests.
        assert count < link.taken < count + 20
    assert there.count > 0.009 * count
    assert back.count > 0.009 * count

# SPDX-License-Identifier: Apache-2.0
"""Apps whose input comes row by row, on Zephyr in QEMU: self-test, session, verification; the RAM is as planned."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy
import pytest

from tests.helpers.architectures import mobilenet
from tests.helpers.stateful_models import WINDOW, stateful
from tests.helpers.zephyr_apps import Tool
from tflm_zephyr.device.protocol.messages import Kind, Mode, Request, Status, run, write
from tflm_zephyr.device.session.channel import RefusedError
from tflm_zephyr.device.session.device_session import DeviceSession
from tflm_zephyr.device.session.opening import open_session
from tflm_zephyr.device.transport.target import DeviceTarget
from tflm_zephyr.errors import DeviceError
from tflm_zephyr.footprint.elf import load_elf
from tflm_zephyr.host import run_many
from tflm_zephyr.model import load_model

pytestmark = [pytest.mark.zephyr, pytest.mark.slow, pytest.mark.usefixtures("workspace")]

BOARDS = ("mps2/an385", "mps2/an521/cpu0")
FLAGS = ("--kernels", "cmsis_nn", "--stream-input", "--slower", "50", "--runs", "3")


@pytest.fixture(scope="module")
def model(apps: Path) -> Path:
    """A small MobileNet; a row of its input has 96 bytes."""
    path = apps / "streamed.tflite"
    path.write_bytes(mobilenet(32, 0.5))
    return path


@pytest.fixture(scope="module")
def app(tool: Tool, apps: Path, model: Path) -> Path:
    folder = apps / "streamed"
    tool("generate", model, "-o", folder, *(f for board in BOARDS for f in ("--board", board)), *FLAGS)
    return folder


@pytest.fixture(scope="module")
def linked(tool: Tool, apps: Path, model: Path) -> Path:
    """The same app with a link to this host, built; a frame's payload is no multiple of a row."""
    folder = apps / "streamed_link"
    tool("generate", model, "-o", folder, "--board", BOARDS[0], *FLAGS, "--host-link")
    tool("build", folder, "--board", BOARDS[0])
    return folder


@pytest.mark.parametrize("board", BOARDS)
def test_the_self_test_pushes_rows_and_passes(board: str, app: Path, tool: Tool) -> None:
    built = tool("build", app, "--board", board, as_json=True)
    (result,) = tool("run", app, "--board", board, as_json=True)["results"]
    assert result["status"] == "pass"
    (arena,) = [s for s in load_elf(Path(built["elf"])).symbols if s.name.endswith("g_guarded_arenaE")]
    assert arena.size == result["arena"]["size_bytes"] + 2 * 16  # and a canary before and behind it


def test_a_session_streams_inputs_in_pieces(linked: Path, model: Path) -> None:
    rng = random.Random(5)
    loaded = load_model(model)
    size = loaded.main.tensors[loaded.main.inputs[0]].size_bytes
    runs = [[rng.randbytes(size)] for _ in range(4)]
    wanted = run_many(model.read_bytes(), runs).runs
    with open_session(DeviceTarget(app=linked, board=BOARDS[0])) as session:
        (tensor,) = session.hello.inputs
        assert tensor.streamed
        assert tensor.bytes == size
        for inputs, outputs in zip(runs, wanted, strict=True):
            assert session.invoke(inputs).outputs == tuple(outputs)
        whole = session.invoke(runs[0]).ticks
        profile = session.profile(runs[0], 2)
        assert all(0.9 * whole < sum(ticks) <= 1.05 * whole for ticks in profile.ticks)
        with pytest.raises(DeviceError, match="row by row"):
            session.tensor(tensor.index)
        # An image that is never run, then another one from its start.
        session.set_inputs([runs[1][0]])
        assert session.invoke(runs[2]).outputs == tuple(wanted[2])


def test_pieces_that_do_not_fit_are_refused(linked: Path, model: Path) -> None:
    rng = random.Random(6)
    loaded = load_model(model)
    size = loaded.main.tensors[loaded.main.inputs[0]].size_bytes
    data = rng.randbytes(size)
    (wanted,) = run_many(model.read_bytes(), [[data]]).runs
    reset, nothing = Request(Kind.RESET, b""), Request(Kind.WRITE, b"\0")
    with open_session(DeviceTarget(app=linked, board=BOARDS[0])) as session:
        assert isinstance(session, DeviceSession)

        def refused(*requests: Request) -> tuple[int, int]:
            with pytest.raises(RefusedError) as error:
                session._there.ask(requests, 60.0)
            return error.value.status, error.value.detail

        first, rest = write(0, 0, data[:100], streamed=True), write(0, 100, data[100:200], streamed=True)
        rows = Status.MODEL, 11
        assert refused(run(Mode.PLAIN)) == rows, "no row has come"
        assert refused(rest) == rows, "the image has not begun"
        assert refused(first, write(0, 50, data[50:150], streamed=True)) == rows, "bytes come twice"
        assert refused(first, write(0, 101, data[101:200], streamed=True)) == rows, "a byte is left out"
        assert refused(first, rest, run(Mode.PLAIN)) == rows, "bytes are missing"
        assert refused(first, run(Mode.CAPTURE)) == rows
        assert refused(first, reset, rest) == rows, "a reset forgets the image"
        assert refused(first, write(0, size - 10, data[:20], streamed=True))[0] == Status.RANGE, "beyond the end"
        assert refused(write(7, 0, data[:20]))[0] == Status.RANGE, "there is one input"
        assert refused(nothing)[0] == Status.MALFORMED
        assert session.invoke([data]).outputs == tuple(wanted)
        assert refused(run(Mode.PLAIN)) == rows, "each run has its input anew"
        assert session.invoke([data]).outputs == tuple(wanted)


def test_commands_drive_the_app(linked: Path, model: Path, tmp_path: Path, tool: Tool) -> None:
    found = tool("verify", "--app", linked, "--board", BOARDS[0], "--random", "3", as_json=True)
    assert found["equal"] == found["samples"] == 3
    loaded = load_model(model).main
    data = numpy.random.default_rng(1).integers(-128, 128, (4, *loaded.tensors[loaded.inputs[0]].shape[1:]), "int8")
    numpy.savez(tmp_path / "data.npz", x=data, y=numpy.zeros(4, "int64"))
    one = tool("evaluate", tmp_path / "data.npz", "--app", linked, "--board", BOARDS[0], as_json=True)
    other = tool("evaluate", tmp_path / "data.npz", "--host", model, as_json=True)
    assert one["confusion"] == other["confusion"]
    assert one["ticks"]["mean"] > 0
    ticks = tool("profile", "--app", linked, "--board", BOARDS[0], as_json=True)
    assert ticks["total"]["median"] > 0


def test_a_state_lasts_from_window_to_window(apps: Path, tool: Tool) -> None:
    path = apps / "windows.tflite"
    path.write_bytes(stateful())
    folder = apps / "windows"
    tool("generate", path, "-o", folder, "--board", BOARDS[0], *FLAGS[:3], "--slower", "900", "--host-link")
    tool("build", folder, "--board", BOARDS[0])
    rng = random.Random(9)
    windows = [[rng.randbytes(math.prod(WINDOW))] for _ in range(6)]
    wanted = run_many(path.read_bytes(), windows, reset=False).runs
    with open_session(DeviceTarget(app=folder, board=BOARDS[0])) as session:
        assert [session.invoke(window).outputs for window in windows] == [tuple(outputs) for outputs in wanted]
        session.reset()
        assert session.invoke(windows[0]).outputs == tuple(wanted[0])

# SPDX-License-Identifier: Apache-2.0
"""`infer`: from the command line to a session and back, with a device that is not there."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.fakes.session import FakeSession
from tests.helpers.command_line import Tool
from tests.helpers.small_models import dense, unary
from tflm_zephyr.cli.commands import targets
from tflm_zephyr.device.transport.target import DeviceTarget

ROWS = [[0, 1, 2, 3, 4, 5, 6, 7], [7, 6, 5, 4, 3, 2, 1, 0]]


class Desk:
    """The session that commands open, and the targets that they asked for."""

    def __init__(self) -> None:
        self.session = FakeSession(dense(), outputs=self.outputs, ticks=[[25]])
        self.asked: list[DeviceTarget] = []

    def outputs(self, inputs: Sequence[bytes]) -> tuple[bytes, ...]:
        return (bytes(ROWS[0] if inputs[0][0] < 128 else ROWS[1]),)

    def open(self, target: DeviceTarget, **more: object) -> FakeSession:
        self.asked.append(target)
        return self.session


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch, tool: Tool) -> Desk:
    made = Desk()
    monkeypatch.setattr(targets, "open_session", made.open)
    np.save("x.npy", np.array([[0.5, 0, 0, 0], [-1.0, 0, 0, 0]]))
    Path("labels.txt").write_text("a\nb\nc\nd\ne\nf\ng\nh\n")
    return made


def test_text_has_labels_and_instructions(tool: Tool, desk: Desk) -> None:
    done = tool("infer", "--app", "demo", "x.npy", "--labels", "labels.txt")
    assert done.code == 0, done
    assert done.out.splitlines() == [
        "net on mps2/an385 (QEMU mps2-an385, reference kernels)",
        "  x.npy[0]: h 3.5 (g 3, f 2.5), 1,000 instructions",
        "  x.npy[1]: a 3.5 (b 3, c 2.5), 1,000 instructions",
    ]
    assert desk.session.done == ["reset", "invoke", "reset", "invoke"] and desk.session.closed
    assert desk.asked[0].app == Path("demo")


def test_text_without_labels_has_values(tool: Tool, desk: Desk) -> None:
    assert "x.npy[0]: 0 0.5 1 1.5 2 2.5 3 3.5, 1,000" in tool("infer", "--port", "auto", "x.npy").out
    Path("raw.csv").write_text("1,2,3,4")
    assert "raw.csv:1: 0 1 2 3 4 5 6 7, 1,000" in tool("infer", "--port", "auto", "raw.csv", "--raw").out
    assert desk.asked[0].port == "auto"


def test_a_board_counts_ticks(tool: Tool, desk: Desk) -> None:
    desk.session = FakeSession(dense(), outputs=desk.outputs, ticks=[[64]], instructions_per_tick=None, hz=64_000_000)
    assert "3.5, 64 ticks at 64,000,000 Hz" in tool("infer", "--port", "x", "x.npy").out
    desk.session = FakeSession(dense(), outputs=desk.outputs, instructions_per_tick=None, where="host", hz=1)
    assert "2.5 3 3.5\n" in tool("infer", "--host", "m.tflite", "x.npy").out


def test_json(tool: Tool, desk: Desk) -> None:
    found = tool("infer", "--app", "demo", "x.npy", "--labels", "labels.txt", "--json").json
    assert found["instructions_per_tick"] == 40 and found["sha256"] == desk.session.hello.sha256
    assert found["answers"][1]["label"] == "a" and found["answers"][1]["class"] == 0
    assert found["answers"][0]["outputs"][0]["values"] == [k / 2 for k in range(8)]
    assert found["answers"][0]["ticks"] == 25


def test_files_hold_all_values(tool: Tool, desk: Desk) -> None:
    asked = ("infer", "--app", "demo", "x.npy", "--labels", "labels.txt", "-o")
    assert "Written: out.csv" in tool(*asked, "out.csv").out
    table = list(csv.DictReader(io.StringIO(Path("out.csv").read_text())))
    assert table[0]["label"] == "h" and table[0]["h"] == "3.5" and table[1]["sample"] == "x.npy[1]"
    tool(*asked, "out.npz")
    with np.load("out.npz") as arrays:
        assert arrays["y0"].shape == (2, 1, 8) and arrays["q0"].tolist() == [[ROWS[0]], [ROWS[1]]]
        assert arrays["label"].tolist() == ["h", "a"] and arrays["ticks"].tolist() == [25, 25]
    tool(*asked, "out.json")
    assert tool(*asked, "out.json").code == 0  # the same bytes again
    first = Path("out.npz").read_bytes()
    assert tool(*asked, "out.npz").code == 0 and Path("out.npz").read_bytes() == first


def test_a_file_that_is_there_stays(tool: Tool, desk: Desk) -> None:
    Path("out.csv").write_text("mine")
    assert "is there already" in tool("infer", "--app", "demo", "x.npy", "-o", "out.csv").one_line()
    assert tool("infer", "--app", "demo", "x.npy", "-o", "out.csv", "--force").code == 0
    assert Path("out.csv.orig").read_text() == "mine"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["x.npy"], "no option says where the model runs"),
        (["x.npy", "--app", "a", "--host", "b"], "several options say where the model runs"),
        (["x.npy", "--port", "a", "--port", "b"], "2 ports were given"),
        (["none.npy", "--app", "a"], "none.npy: no such file"),
        (["x.npy", "--app", "a", "--labels", "none.txt"], "none.txt: no such file"),
        (["x.npy", "--app", "a", "--labels", "x.npy"], "x.npy: is no text in UTF-8"),
        (["x.npy", "--app", "a", "--labels", "few.txt"], "few.txt: holds 2 labels, the model's output y has 8 values"),
        (["x.npy", "--app", "a", "-o", "out.txt"], "out.txt: is none of .json, .csv, .npz"),
        (["-", "-", "--app", "a"], "standard input is given twice"),
        (["x.npy", "--app", "a", "--frontend", "x.npy"], "not a .tflite file"),
    ],
)
def test_what_is_wrong_is_one_line(tool: Tool, desk: Desk, argv: list[str], said: str) -> None:
    Path("few.txt").write_text("a\nb\n")
    assert said in tool("infer", *argv).one_line()
    assert desk.session.closed or not desk.asked


def test_windows_of_a_recording_go_on_from_each_other(tool: Tool, desk: Desk) -> None:
    from tests.helpers.wav_files import wav

    Path("a.wav").write_bytes(wav(range(8)))
    Path("b.wav").write_bytes(wav(range(4)))
    assert tool("infer", "--app", "demo", "a.wav", "b.wav").code == 0
    assert desk.session.done == ["reset", "invoke", "invoke", "reset", "invoke"]


def test_a_cable_that_is_pulled_is_one_line(tool: Tool, desk: Desk) -> None:
    desk.session = FakeSession(dense(), outputs=desk.outputs, fails_after=1)
    assert "the port is gone" in tool("infer", "--app", "demo", "x.npy").one_line()
    assert desk.session.closed


class TwoModels(FakeSession):
    """The app has `net`, and `front`, which negates a window of four sound samples."""

    def __init__(self) -> None:
        super().__init__(unary("ABS", "int16", shape=(1, 8)), outputs=lambda given: (given[0],))
        front = FakeSession(unary("NEG", "int16", shape=(1, 4)))
        self.hellos = {
            "net": replace(self.hello, models=("front", "net")),
            "front": replace(front.hello, model="front", models=("front", "net")),
        }
        self.select("net")

    def select(self, model: str) -> None:
        super().select(model)
        self._hello = self.hellos[model]

    def invoke(self, inputs: Sequence[bytes]):  # type: ignore[no-untyped-def]
        done = super().invoke(inputs)
        if self.hello.model == "net":
            return done
        negated = (-np.frombuffer(inputs[0], np.int16)).tobytes()
        return type(done)((negated,), done.ticks)


def test_a_front_end_on_the_device_itself(tool: Tool, desk: Desk) -> None:
    from tests.helpers.wav_files import wav

    Path("a.wav").write_bytes(wav([1, 2, 3, 4, -5, 6, 7, 8]))
    desk.session = TwoModels()
    desk.session.done.clear()
    done = tool("infer", "--app", "demo", "a.wav", "a.wav", "--frontend", "front", "--raw")
    assert done.out.count("a.wav: -1 -2 -3 -4 5 -6 -7 -8") == 2, done
    # Selected once for all recordings, each of which begins with its initial state.
    rows, runs = ["reset", "invoke", "invoke"], ["reset", "invoke"]
    assert desk.session.done == ["select front", *rows, *rows, "select net", *runs, *runs]
    desk.session = TwoModels()
    said = tool("infer", "--app", "demo", "a.wav", "--frontend", "other").one_line()
    assert "other: is no .tflite file; the app has front, net" in said

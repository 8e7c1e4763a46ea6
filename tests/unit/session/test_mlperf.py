# SPDX-License-Identifier: Apache-2.0
"""MLPerf Tiny's serial dialect on the device's side."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.link.toy import BYTES, ToyLink, expected

IMAGE = random.Random(7).randbytes(BYTES)


class Runner:
    """As much of a runner as a test needs: a command, and the lines up to m-ready."""

    def __init__(self, program: Path) -> None:
        self.link = ToyLink(program, "mlperf")
        self.link.open()
        self.heard = b""
        self.hello = self.lines()

    def lines(self) -> list[str]:
        while b"m-ready\r\n" not in self.heard:
            data = self.link.read(5)
            assert data, self.heard
            self.heard += data
        said, self.heard = self.heard.split(b"m-ready\r\n", 1)
        return said.decode().split("\r\n")[:-1]

    def send(self, command: str) -> list[str]:
        self.link.write(f"{command}%".encode())
        return self.lines()

    def load(self, data: bytes) -> list[str]:
        assert self.send(f"db load {len(data)}") == [f"m-[Expecting {len(data)} bytes]"]
        for at in range(0, len(data), 31):
            last = self.send(f"db {data[at : at + 31].hex()}")
        return last


@pytest.fixture
def runner(program: Path) -> Iterator[Runner]:
    runner = Runner(program)
    yield runner
    runner.link.close()


def test_it_says_who_it_is(runner: Runner) -> None:
    assert runner.hello[0] == "m-timestamp-mode-performance"
    assert re.fullmatch(r"m-lap-us-\d+", runner.hello[1])
    assert runner.hello[2:] == ["m-init-done"]
    assert runner.send("name") == ["m-name-dut-[host]"]
    assert runner.send("profile") == ["m-profile-[ULPMark for tinyML Firmware V0.0.1]", "m-model-[toy]"]
    first, second = (int(runner.send("timestamp")[0].removeprefix("m-lap-us-")) for _ in range(2))
    assert 0 < first < second


def test_an_inference_has_its_results_and_its_time(runner: Runner) -> None:
    assert runner.load(IMAGE) == ["m-load-done"]
    said = runner.send("infer 3 2")
    assert said[:3] == ["m-warmup-start-2", "m-warmup-done", "m-infer-start-3"]
    begin, end = (int(line.removeprefix("m-lap-us-")) for line in said[3:5])
    assert 0 < end - begin < 10_000_000
    assert said[5] == "m-infer-done"
    values = [float(value) for value in said[6].removeprefix("m-results-[").removesuffix("]").split(",")]
    # Each of the five inferences had its input anew, though the output takes its place.
    assert values == [(byte - 256 * (byte > 127) + 3) * 0.5 for byte in expected(IMAGE)]
    assert runner.send("results") == said[6:7]


def test_what_is_loaded_is_printed(runner: Runner) -> None:
    runner.send("db load 10")
    runner.send("db 000102030405")
    assert runner.send("db 06070809ffff") == ["m-load-done"]  # more than was told is passed over
    assert runner.send("db print") == ["m-buffer-00-01-02-03-04-05-06-07", "m-buffer-08-09"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("bogus 1", "e-[Unknown command: bogus]"),
        ("db", "e-[Command 'db' requires a subcommand]"),
        ("db load", "e-[Command 'db load' requires a number of bytes above 0]"),
        ("db load 0", "e-[Command 'db load' requires a number of bytes above 0]"),
        ("db load 5x", "e-[Command 'db load' requires a number of bytes above 0]"),
        ("db load 99999999999999999999", "e-[Command 'db load' requires a number of bytes above 0]"),
        ("db load 9217", "e-[The model's input takes no more than 9216 bytes]"),
        ("db 123", "e-[Insufficient number of hex digits]"),
        ("infer 0", "e-[Inference iterations must be >0]"),
        ("infer 1 -1", "e-[Inference warmup must be >=0]"),
        ("infer 1 0", "e-[No whole input of numbers is loaded, or the model failed]"),
    ],
)
def test_what_it_cannot_do_is_said(runner: Runner, command: str, said: str) -> None:
    assert runner.send(command) == [said]


def test_any_bytes_at_all_do_it_no_harm(runner: Runner) -> None:
    rng = random.Random(3)
    words = ["db", "load", "infer", "name", "1", "9216", "zz", "00ff", "print", " ", "x" * 200, "\x00", "-"]
    for _ in range(300):
        runner.send(" ".join(rng.choice(words) for _ in range(rng.randrange(4))) if rng.random() < 0.8 else "\xff")
    assert runner.load(IMAGE) == ["m-load-done"]
    assert runner.send("infer 1 0")[5] != ""

# SPDX-License-Identifier: Apache-2.0
"""MLPerf Tiny's serial dialect on the device's side, with models of the benchmark's names, types and sizes."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.fakes.link.toy import ToyLink

KWS = ("kws01", "int8", "490", "int8", "12")
# What the model's tensors are quantised with.
IN_SCALE, IN_ZERO, OUT_SCALE, OUT_ZERO = 0.25, 3, 0.5, -7
NO_FIT = "e-[What is loaded is not of the input's size]"


class Runner:
    """As much of a runner as a test needs: a command, and the lines up to m-ready."""

    def __init__(self, program: Path, *words: str) -> None:
        self.link = ToyLink(program, *words)
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

    def infer(self, data: bytes) -> list[float]:
        """The results, as they come with an inference and again on request."""
        assert self.load(data) == ["m-load-done"]
        said = self.send("infer 1 1")
        assert said[-2] == "m-infer-done", said
        assert self.send("results") == said[-1:]
        return [float(value) for value in said[-1].removeprefix("m-results-[").removesuffix("]").split(",")]


Started = Callable[..., Runner]


@pytest.fixture
def started(mlperf: Path) -> Iterator[Started]:
    """Starts a device with a model; its sanitizers have nothing to say at its end."""
    runners: list[Runner] = []

    def start(*words: str) -> Runner:
        runners.append(Runner(mlperf, *words))
        return runners[-1]

    yield start
    for runner in runners:
        runner.link.close()


@pytest.fixture
def runner(started: Started) -> Runner:
    return started(*KWS)


def halves(levels: np.ndarray, outputs: int, *, plain: bool = False) -> list[float]:
    """The model's outputs for its input's elements, as real values."""
    made = np.trunc(levels[:outputs].astype(float) / 2)
    return [float(level) if plain else float((level - OUT_ZERO) * OUT_SCALE) for level in made]


def seeded(size: int) -> np.ndarray:
    return np.random.default_rng(7).integers(0, 256, size, np.uint8)


def test_it_says_who_it_is(runner: Runner) -> None:
    assert runner.hello[0] == "m-timestamp-mode-performance"
    assert re.fullmatch(r"m-lap-us-\d+", runner.hello[1])
    assert runner.hello[2:] == ["m-init-done"]
    assert runner.send("name") == ["m-name-dut-[host]"]
    assert runner.send("profile") == ["m-profile-[ULPMark for tinyML Firmware V0.0.1]", "m-model-[kws01]"]
    first, second = (int(runner.send("timestamp")[0].removeprefix("m-lap-us-")) for _ in range(2))
    assert 0 < first < second


def test_an_inference_has_its_results_and_its_time(runner: Runner) -> None:
    data = seeded(490)
    assert runner.load(data.tobytes()) == ["m-load-done"]
    said = runner.send("infer 3 2")
    assert said[:3] == ["m-warmup-start-2", "m-warmup-done", "m-infer-start-3"]
    begin, end = (int(line.removeprefix("m-lap-us-")) for line in said[3:5])
    assert 0 <= end - begin < 10_000_000
    assert said[5] == "m-infer-done"
    values = [float(value) for value in said[6].removeprefix("m-results-[").removesuffix("]").split(",")]
    # Each of the five inferences had its input anew, though the output takes its place.
    assert values == halves(data.view(np.int8), 12)


@pytest.mark.parametrize(("name", "size", "outputs"), [("ic01", 32 * 32 * 3, 10), ("vww01", 96 * 96 * 3, 2)])
@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_pixels_become_signed_for_a_signed_model(
    started: Started, name: str, size: int, outputs: int, kind: str
) -> None:
    pixels = seeded(size)
    pixels[:2] = 0, 255
    levels = pixels.astype(int) - (128 if kind == "int8" else 0)
    assert started(name, kind, str(size), kind, str(outputs)).infer(pixels.tobytes()) == halves(levels, outputs)


def test_a_streamed_input_is_taken_anew_for_each_run(started: Started) -> None:
    pixels = seeded(32 * 32 * 3)
    runner = started("ic01", "int8", str(pixels.size), "int8", "10", "streamed")
    assert runner.infer(pixels.tobytes()) == halves(pixels.astype(int) - 128, 10)
    assert runner.send("infer 3 2")[-2] == "m-infer-done"


@pytest.mark.parametrize(
    ("kind", "numpy_kind"), [("int8", np.int8), ("uint8", np.uint8), ("int16", np.int16), ("float32", np.float32)]
)
@pytest.mark.parametrize("plain", [False, True])
def test_other_models_take_the_inputs_own_bytes(
    started: Started, kind: str, numpy_kind: type[np.generic], plain: bool
) -> None:
    levels = np.linspace(-100, 100, 49).astype(numpy_kind) if kind != "uint8" else seeded(49)
    words = ("kws01", kind, "49", kind, "12", *(["plain"] if plain else []))
    wanted = halves(levels, 12, plain=plain)
    if kind == "float32":
        wanted = [float(value) / 2 for value in levels[:12]]
    assert started(*words).infer(levels.tobytes()) == pytest.approx(wanted, abs=0.00051)


@pytest.mark.parametrize(("inputs", "outputs"), [("int8", "int8"), ("float32", "float32"), ("int8", "float32")])
def test_an_anomaly_is_the_mean_squared_reconstruction_error(started: Started, inputs: str, outputs: str) -> None:
    values = np.random.default_rng(5).normal(0, 20, 640).astype(np.float32)
    # Clamped, also where that is beyond all numbers; halves away from zero: -1.625 is -6.5 steps.
    values[:4] = (1000, -1000, -1.625, 1.625) if inputs == "int8" else values[:4]
    fed = values
    if inputs == "int8":
        steps = values.astype(float) / IN_SCALE
        fed = np.clip(np.trunc(steps + np.copysign(0.5, steps)) + IN_ZERO, -128, 127)
        assert list(fed[:4]) == [127, -128, -4, 10]
    made = fed / 2 if outputs == "float32" else (np.trunc(fed / 2) - OUT_ZERO) * OUT_SCALE
    found = started("ad01", inputs, "640", outputs, "640").infer(values.tobytes())
    assert found == [pytest.approx(float(np.mean((made - values.astype(float)) ** 2)), rel=1e-5)]


@pytest.mark.parametrize("kind", ["int8", "float32"])
@pytest.mark.parametrize("at", [0, 639])
def test_not_a_number_is_refused_and_the_next_input_works(started: Started, kind: str, at: int) -> None:
    runner = started("ad01", kind, "640", kind, "640")
    values = np.ones(640, np.float32)
    values[at] = np.nan
    assert runner.load(values.tobytes()) == ["m-load-done"]
    assert runner.send("infer 1 0") == ["e-[What is loaded has a value that is no number]"]
    assert runner.send("results") == ["e-[No results]"]
    values[at] = 1
    assert len(runner.infer(values.tobytes())) == 1


def test_infinite_values_are_clamped(started: Started) -> None:
    values = np.zeros(4, np.float32)
    values[:2] = np.inf, -np.inf
    runner = started("ad01", "int8", "4", "int8", "4")
    assert runner.load(values.tobytes()) == ["m-load-done"]
    assert runner.send("infer 1 0")[-1] == "m-results-[inf]"


def test_results_of_every_size_have_three_decimals(started: Started) -> None:
    doubled = [0.0, 0.0012, -0.0002, -3.9999, 1.9999, 33554436.0, 2e18, 1e30, -np.inf, np.nan]
    values = np.array(doubled, np.float32)
    runner = started("kws01", "float32", str(len(values)), "float32", str(len(values)))
    runner.load(values.tobytes())
    large = f"{float(np.float32(1e18)):.3f}"
    wanted = ["0.000", "0.001", "-0.000", "-2.000", "1.000", "16777218.000", large, "inf", "-inf", "nan"]
    assert runner.send("infer 1 0")[-1] == f"m-results-[{','.join(wanted)}]"


def test_what_is_loaded_is_printed(runner: Runner) -> None:
    runner.send("db load 10")
    runner.send("db 000102030405")
    assert runner.send("db 06070809ffff") == ["m-load-done"]  # more than was told is passed over
    assert runner.send("db print") == ["m-buffer-00-01-02-03-04-05-06-07", "m-buffer-08-09"]


def test_a_damaged_line_is_dropped_and_can_be_resent(runner: Runner) -> None:
    runner.send("db load 6")
    assert runner.send("db 0001") == []
    for wrong in ("db 02030x", "db 0203g4", "db -20304"):
        assert runner.send(wrong) == ["e-[Invalid hex digit]"]
    assert runner.send("db 020") == ["e-[Insufficient number of hex digits]"]
    assert runner.send("db 02030405") == ["m-load-done"]
    assert runner.send("db print") == ["m-buffer-00-01-02-03-04-05"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("bogus 1", "e-[Unknown command: bogus]"),
        ("db", "e-[Command 'db' requires a subcommand]"),
        ("db load", "e-[Command 'db load' requires a number of bytes above 0]"),
        ("db load 0", "e-[Command 'db load' requires a number of bytes above 0]"),
        ("db load -1", "e-[Command 'db load' requires a number of bytes above 0]"),
        ("db load 5x", "e-[Command 'db load' requires a number of bytes above 0]"),
        ("db load 99999999999999999999", "e-[Command 'db load' requires a number of bytes above 0]"),
        ("db load 491", "e-[The model's input takes no more than 490 bytes]"),
        ("db 123", "e-[Insufficient number of hex digits]"),
        ("db 12x4", "e-[Invalid hex digit]"),
        ("db " + 78 * "0", "e-[Command too long]"),
        ("infer 0", "e-[Inference iterations must be >0]"),
        ("infer x", "e-[Inference iterations must be >0]"),
        ("infer 1 -1", "e-[Inference warmup must be >=0]"),
        ("infer 1 0", NO_FIT),
        ("results", "e-[No results]"),
    ],
)
def test_what_it_cannot_do_is_said(runner: Runner, command: str, said: str) -> None:
    assert runner.send(command) == [said]
    assert runner.send("db " + 76 * "0") == []  # the longest that there is: 80 characters with its end


@pytest.mark.parametrize("size", [1, 489])
def test_another_size_than_the_inputs_is_refused(runner: Runner, size: int) -> None:
    assert runner.load(bytes(size)) == ["m-load-done"]
    assert runner.send("infer 1 0") == [NO_FIT]


def test_half_an_input_is_refused_and_old_results_dropped(runner: Runner) -> None:
    runner.infer(bytes(490))
    runner.send("db load 490")
    runner.send("db 00")
    assert runner.send("infer 1 0") == [NO_FIT]
    assert runner.send("results") == ["e-[No results]"]


@pytest.mark.parametrize(
    ("words", "bytes_", "said"),
    [
        ((*KWS, "two"), 490, "e-[The model has not one input]"),
        ((*KWS, "broken"), 490, "e-[The model failed to initialise]"),
        ((*KWS, "fails"), 490, "e-[The model failed: 5]"),
        (
            ("ad01", "int8", "8", "int8", "8", "plain"),
            32,
            "e-[The model's input is neither float32 nor quantised int8]",
        ),
        (("ad01", "int16", "8", "int8", "8"), 32, "e-[The model's input is neither float32 nor quantised int8]"),
        (("ad01", "int8", "8", "int8", "8"), 8, NO_FIT),
        (("ad01", "int8", "8", "int8", "4"), 32, "e-[The output is not of the input's size]"),
        (("kws01", "int8", "8", "int32", "2"), 8, "e-[No results]"),
    ],
)
def test_a_model_that_it_is_not_made_for_is_reported(
    started: Started, words: tuple[str, ...], bytes_: int, said: str
) -> None:
    runner = started(*words)
    assert runner.load(bytes(bytes_)) == ["m-load-done"]
    assert runner.send("infer 1 0")[-1] == said


def test_any_bytes_at_all_do_it_no_harm(started: Started) -> None:
    for words in (KWS, ("ad01", "int8", "16", "int8", "16")):
        rng, runner = random.Random(3), started(*words)
        tried = ["db", "load", "infer", "results", "name", "print", *("1", "64", "490", "zz", "00ff", "-", " ", "\0")]
        tried.append("x" * 200)
        for _ in range(300):
            runner.send(" ".join(rng.choice(tried) for _ in range(rng.randrange(4))) if rng.random() < 0.8 else "\xff")
        runner.infer(bytes(64 if words[0] == "ad01" else 490))

# SPDX-License-Identifier: Apache-2.0
"""The samples' models do what their READMEs say, and TFLM on the host gives LiteRT's bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tflm_zephyr.host.run import run_many
from tflm_zephyr.model.reader import load_model
from tflm_zephyr.model.writer import misaligned_buffers
from tflm_zephyr.tensors.dataset import load_dataset, quantise
from tflm_zephyr.validation.accuracy import evaluate_host

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
DIGITS, DIGITS_TEST = SAMPLES / "digits/digits.tflite", SAMPLES / "digits/test.npz"
VIBRATION, VIBRATION_TEST = SAMPLES / "vibration_monitor/vibration.tflite", SAMPLES / "vibration_monitor/test.npz"
SINE, SINE_TEST = SAMPLES / "hello_world/hello_world.tflite", SAMPLES / "hello_world/test.npz"


@pytest.fixture(autouse=True)
def _engines() -> None:
    pytest.importorskip("tflite_micro")
    pytest.importorskip("ai_edge_litert")


@pytest.mark.parametrize("path", [DIGITS, SINE, VIBRATION], ids=["digits", "hello_world", "vibration"])
def test_models_are_small_int8_and_aligned(path: Path) -> None:
    model = load_model(path)
    assert len(model.data) < 60_000
    assert misaligned_buffers(model) == ()
    for index in model.main.inputs + model.main.outputs:
        assert model.main.tensors[index].type.value == "int8"


CLASSIFIERS = pytest.mark.parametrize(
    ("path", "test", "count"),
    [(DIGITS, DIGITS_TEST, 450), (VIBRATION, VIBRATION_TEST, 200)],
    ids=["digits", "vibration"],
)


@CLASSIFIERS
def test_classifiers_are_right_on_at_least_97_percent(path: Path, test: Path, count: int) -> None:
    found = evaluate_host(path.read_bytes(), load_dataset(test), engine="litert")
    assert found.count == count
    assert found.accuracy >= 0.97
    readme = (path.parent / "README.md").read_text(encoding="utf-8")
    assert f"{found.correct} of {found.count} ({found.accuracy:.2%})".replace("%", " %") in readme


@CLASSIFIERS
def test_classifiers_on_tflm_equal_litert(path: Path, test: Path, count: int) -> None:
    model = load_model(path)
    runs = quantise(model, load_dataset(test))
    tflm = run_many(model.data, runs)
    assert tflm.runs == run_many(model.data, runs, engine="litert").runs
    assert len(tflm.runs) == count
    assert tflm.used_bytes < 16_384


def test_hello_world_is_near_the_sine_on_both_engines() -> None:
    data = load_dataset(SINE_TEST)
    assert len(data) == 64
    for engine in ("tflm", "litert"):
        found = evaluate_host(SINE.read_bytes(), data, engine=engine)
        assert found.mean_absolute < 0.03 and found.largest < 0.06


def test_hello_world_on_tflm_is_within_two_steps_of_litert() -> None:
    # Not byte for byte: the engines' dense kernels round differently (see tflm_zephyr.host.golden_outputs).
    model = load_model(SINE)
    runs = [(bytes([value]),) for value in range(256)]
    pairs = zip(run_many(model.data, runs).runs, run_many(model.data, runs, engine="litert").runs, strict=True)
    steps = [abs((one[0][0] ^ 0x80) - (other[0][0] ^ 0x80)) for one, other in pairs]
    assert max(steps) <= 2
    assert sum(step > 0 for step in steps) < 32


def test_labels_name_every_class() -> None:
    labels = (SAMPLES / "digits/labels.txt").read_text(encoding="utf-8").split()
    assert labels == [str(digit) for digit in range(10)]
    labels = (SAMPLES / "vibration_monitor/labels.txt").read_text(encoding="utf-8").split()
    assert len(labels) == load_model(VIBRATION).main.tensors[load_model(VIBRATION).main.outputs[0]].shape[-1]

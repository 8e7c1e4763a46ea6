# SPDX-License-Identifier: Apache-2.0
"""`infer`, `verify` and `evaluate` with TFLM on the host: the stock models on their real inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.command_line import Tool
from tflm_zephyr.device.session.host_session import HostSession
from tflm_zephyr.tensors.dataset import load_dataset
from tflm_zephyr.validation.accuracy import evaluate_host
from tflm_zephyr.validation.inputs.files import read_samples
from tflm_zephyr.validation.inputs.sample import InputOptions

pytestmark = pytest.mark.usefixtures("_engines")


@pytest.fixture
def _engines() -> None:
    pytest.importorskip("tflite_micro")
    pytest.importorskip("ai_edge_litert")


def labels(found: Any) -> list[str]:
    return [answer["label"] for answer in found["answers"]]


def test_photographs_through_person_detect(tool: Tool, shared: Path) -> None:
    Path("labels.txt").write_text("no person\nperson\n")
    pictures = [shared / "inputs" / f"{name}.bmp" for name in ("person", "no_person")]
    asked = ("infer", "--host", shared / "models" / "person_detect.tflite", "--labels", "labels.txt", *pictures)
    assert labels(tool(*asked, "--raw", "--json").json) == ["person", "no person"]
    plain = tool(*asked, "--json").json
    assert labels(plain)[1] == "no person"
    # person.bmp holds an int8 tensor's bytes, which is reported.
    assert [bool(answer["notes"]) for answer in plain["answers"]] == [True, False]


@pytest.mark.slow
def test_recordings_through_two_models(tool: Tool, shared: Path) -> None:
    Path("labels.txt").write_text("silence\nunknown\nyes\nno\n")
    names = ("yes", "no", "silence", "noise")
    models = shared / "models"
    found = tool(
        *("infer", "--host", models / "micro_speech_quantized.tflite", "--labels", "labels.txt", "--json"),
        *("--frontend", models / "audio_preprocessor_int8.tflite", "--stride", "320"),
        *(shared / "inputs" / f"{name}_1000ms.wav" for name in names),
    ).json
    assert labels(found) == ["yes", "no", "silence", "silence"]


def test_a_recording_of_one_window_gives_tflms_features(tool: Tool, shared: Path) -> None:
    # The 40 features that TFLM's micro_speech_test.cc (8d404de7) wants of yes_30ms.wav.
    want = [124, 105, 126, 103, 125, 101, 123, 100, 116, 98, 115, 97, 113, 90, 91, 82, 104, 96, 117, 97,
            121, 103, 126, 101, 125, 104, 126, 104, 125, 101, 116, 90, 81, 74, 80, 71, 83, 76, 82, 71]  # fmt: skip
    model = shared / "models" / "audio_preprocessor_int8.tflite"
    found = tool("infer", "--host", model, shared / "inputs" / "yes_30ms.wav", "--json").json
    assert found["answers"][0]["outputs"][0]["values"] == want


def test_digits_as_pictures_through_an_lstm(tool: Tool, shared: Path) -> None:
    pictures = [shared / "inputs" / f"sample{digit}.png" for digit in range(10)]
    done = tool("infer", "--host", shared / "models" / "mnist_lstm_int8.tflite", *pictures, "-o", "out.npz")
    assert done.code == 0, done
    with np.load("out.npz") as arrays:
        assert arrays["y0"].argmax(axis=-1).reshape(-1).tolist() == list(range(10))


@pytest.mark.slow
def test_stock_models_equal_themselves(tool: Tool, shared_model: Path) -> None:
    done = tool("verify", "--host", shared_model, "--random", "2", "--json")
    assert done.code == 0, done
    assert done.json["equal"] == 2 and done.json["reference"].startswith("TFLM on the host")


def test_the_sample_as_evaluated_before(tool: Tool) -> None:
    model, few = ROOT / "samples" / "digits" / "digits.tflite", Path("few.npz")
    with np.load(ROOT / "samples" / "digits" / "test.npz") as data:
        np.savez(few, x=data["x"][:12], y=data["y"][:12])
    want = evaluate_host(model.read_bytes(), load_dataset(few))
    found = tool("evaluate", few, "--host", model, "--json").json
    assert found["predictions"] == list(want.predictions) and found["ticks"] is None
    assert "Leave --jobs and --resume out" in tool("evaluate", few, "--host", model, "--jobs", "2").one_line()


def test_windows_go_on_from_each_other_in_one_child(tool: Tool, shared: Path) -> None:
    model, sound = shared / "models" / "audio_preprocessor_int8.tflite", shared / "inputs" / "yes_1000ms.wav"
    whole = tool("infer", "--host", model, sound, "--json").json["answers"]
    assert len(whole) == 33
    twice = tool("infer", "--host", model, sound, sound, "--json").json["answers"]
    assert twice[33:] == [{**answer, "notes": more["notes"]} for answer, more in zip(whole, twice[33:], strict=True)]
    # The spectral subtraction keeps an estimate of the noise, so a window alone is another thing than in its place.
    with HostSession(model) as session:
        later = read_samples(str(sound), session.hello.inputs, InputOptions())[20]
        alone = session.invoke(later.inputs).outputs[0]
    assert list(np.frombuffer(alone, np.int8)) != whole[20]["outputs"][0]["values"]

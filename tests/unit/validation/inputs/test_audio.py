# SPDX-License-Identifier: Apache-2.0
"""Recordings as inputs: windows, a front end's rows, and that no file is more than one line."""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers.model_builder import chain
from tests.helpers.small_models import unary
from tests.helpers.wav_files import wav
from tflm_zephyr.errors import ToolError
from tflm_zephyr.model.reader import parse_model
from tflm_zephyr.tensors.quantisation import TensorForm
from tflm_zephyr.validation.inputs.audio import audio_samples
from tflm_zephyr.validation.inputs.front_end import HostFrontEnd
from tflm_zephyr.validation.inputs.sample import InputOptions

INT16 = TensorForm("sound", "int16", (1, 4), None, 0)


def windows(data: bytes, tensor: TensorForm, options: InputOptions) -> list[list[float]]:
    return [list(np.frombuffer(s.inputs[0], tensor.type)) for s in audio_samples(data, "a.wav", tensor, options)]


def test_windows_follow_each_other_or_overlap() -> None:
    data = wav(range(-5, 5))
    assert windows(data, INT16, InputOptions()) == [[-5, -4, -3, -2], [-1, 0, 1, 2]]
    assert windows(data, INT16, InputOptions(stride_samples=3)) == [[-5, -4, -3, -2], [-2, -1, 0, 1], [1, 2, 3, 4]]
    samples = audio_samples(data, "a.wav", INT16, InputOptions())
    assert [sample.name for sample in samples] == ["a.wav[0]", "a.wav[1]"]
    assert [sample.fresh for sample in samples] == [True, False]
    assert samples[0].notes[1:] == ("2 windows of 4 sound samples (0.25 ms)", "the last 2 sound samples are not used")
    assert samples[1].notes == ()


def test_the_rate_is_reported_or_asked_for() -> None:
    data = wav(range(4))
    assert audio_samples(data, "a.wav", INT16, InputOptions())[0].notes == ("16000 Hz taken as the model's rate",)
    assert audio_samples(data, "a.wav", INT16, InputOptions(rate_hz=16000))[0].notes == ()
    with pytest.raises(ToolError, match=r"a\.wav: is sound at 16000 Hz, the model takes 8000 Hz\. .*-r 8000"):
        audio_samples(data, "a.wav", INT16, InputOptions(rate_hz=8000))


def test_sound_as_real_values() -> None:
    data = wav([-32768, -16384, 0, 16384])
    assert windows(data, TensorForm("s", "float32", (1, 4), None, 0), InputOptions()) == [[-1, -0.5, 0, 0.5]]
    assert windows(data, TensorForm("s", "int8", (1, 4), 1 / 128, 0), InputOptions()) == [[-128, -64, 0, 64]]
    assert windows(data, TensorForm("s", "int16", (1, 4), 1 / 1024, 0), InputOptions()) == [[-1024, -512, 0, 512]]
    assert windows(data, TensorForm("s", "int16", (1, 4), 1 / 1024, 0), InputOptions(raw=True)) == [
        [-32768, -16384, 0, 16384]
    ]


def test_other_widths_and_channels() -> None:
    assert windows(wav([0, 128, 255, 129], width=1), INT16, InputOptions()) == [[-32768, 0, 32512, 256]]
    assert windows(wav([-65536, 65536, 255, 0], width=3), INT16, InputOptions()) == [[-256, 256, 0, 0]]
    stereo = audio_samples(wav([1, 3, -4, -6, 0, 0, 7, 7], channels=2), "a.wav", INT16, InputOptions())
    assert list(np.frombuffer(stereo[0].inputs[0], np.int16)) == [2, -5, 0, 7]
    assert stereo[0].notes[1:] == ("2 channels mixed into one",)


def test_a_front_end_makes_rows_of_the_models_input() -> None:
    pytest.importorskip("tflite_micro")
    front = HostFrontEnd(parse_model(unary("ABS", "int16", shape=(1, 4))))
    tensor = TensorForm("features", "int16", (1, 8), 0.5, 0)
    options = InputOptions(frontend=front, raw=True)
    assert windows(wav([-1, 2, -3, 4, 5, -6, 7, -8]), tensor, options) == [[1, 2, 3, 4, 5, 6, 7, 8]]
    twice = audio_samples(wav([1] * 19), "a.wav", tensor, options)
    assert [s.name for s in twice] == ["a.wav[0]", "a.wav[1]"] and [s.fresh for s in twice] == [True, True]
    odd = audio_samples(wav([1] * 14), "a.wav", tensor, options)
    assert odd[0].notes[1:] == ("the last 1 windows are not used",)


def test_a_front_end_that_does_not_fit() -> None:
    options = InputOptions(frontend=HostFrontEnd(parse_model(chain(1, 3))))
    with pytest.raises(ToolError, match="output of 3 values does not divide the model's input"):
        audio_samples(wav([1] * 30), "a.wav", TensorForm("f", "int8", (1, 8), None, 0), options)


def test_too_few_windows_say_which_stride_helps() -> None:
    pytest.importorskip("tflite_micro")
    options = InputOptions(frontend=HostFrontEnd(parse_model(unary("ABS", "int16", shape=(1, 4)))), raw=True)
    tensor = TensorForm("f", "int16", (1, 20), 0.5, 0)
    with pytest.raises(ToolError, match=r"12 sound samples give 3 windows of 4, the model takes 5.* of 2 at most"):
        audio_samples(wav([1] * 12), "a.wav", tensor, options)
    fits = InputOptions(frontend=options.frontend, raw=True, stride_samples=2)
    assert len(audio_samples(wav([1] * 12), "a.wav", tensor, fits)) == 1
    with pytest.raises(ToolError, match=r"the model takes 5\. Record more"):
        audio_samples(wav([1] * 4), "a.wav", tensor, options)


@pytest.mark.parametrize("data", [b"RIFF", b"RIFF\x04\x00\x00\x00WAVE", wav([1, 2])[:30], b"RIFF" + bytes(40)])
def test_what_is_no_recording_is_one_line(data: bytes) -> None:
    with pytest.raises(ToolError, match=r"^a\.wav: not a readable WAV file \(.+\)"):
        audio_samples(data, "a.wav", INT16, InputOptions())


def test_half_a_recording_is_refused_unless_of_unknown_length() -> None:
    whole = wav(range(8))
    with pytest.raises(ToolError, match=r"a\.wav: not a whole WAV file \(it ends after 4 of 8 sound samples\)"):
        audio_samples(whole[:-8], "a.wav", INT16, InputOptions())
    for size in (0xFFFFFFFF, 0x7FFFFFFF - 36):  # ffmpeg and sox, into a pipe
        told = size.to_bytes(4, "little")
        piped = whole[:4] + told + whole[8:40] + told + whole[44:]
        assert windows(piped, INT16, InputOptions()) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_sound_is_no_image_and_no_rows_of_features() -> None:
    for shape in ((1, 8, 8, 1), (1, 49, 10), (2, 2)):
        with pytest.raises(ToolError, match=r"a\.wav: is sound, .* the input picture takes \(.*--frontend"):
            audio_samples(wav(range(64)), "a.wav", TensorForm("picture", "int8", shape, 0.5, 0), InputOptions())
    flat = TensorForm("sound", "int16", (1, 1, 4, 1), None, 0)
    assert windows(wav(range(4)), flat, InputOptions()) == [[0, 1, 2, 3]]


def test_a_recording_of_less_than_a_window() -> None:
    with pytest.raises(ToolError, match="3 sound samples are less than one window of 4"):
        audio_samples(wav([1, 2, 3]), "a.wav", INT16, InputOptions())

# SPDX-License-Identifier: Apache-2.0
"""The worst cases of an evaluation, and their inputs as pictures."""

from __future__ import annotations

import base64
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from tests.fakes.session import hello_of
from tests.helpers.small_models import dense
from tflm_zephyr.cli.report import evaluate as report
from tflm_zephyr.model.reader import parse_model
from tflm_zephyr.tensors import Dataset
from tflm_zephyr.validation import Accuracy, Deviation, worst_cases

HELLO = hello_of(parse_model(dense()))
OUTPUT = replace(HELLO.outputs[0], shape=(1, 3), type="int8", bytes=3, scale=0.5, zero_point=0)


def dataset(y: list[object], kind: type) -> Dataset:
    return Dataset("d.npz", (np.zeros((len(y), 1)),), np.array(y, kind))


def test_a_classifiers_worst_are_those_it_is_surest_of() -> None:
    outputs = [bytes([4, 0, 2]), bytes([0, 9, 1]), bytes([5, 4, 0])]
    found = worst_cases(OUTPUT, dataset([2, 1, 2], np.int64), outputs)
    assert [(case.sample, case.truth, case.predicted, case.score) for case in found] == [(2, 2, 0, 2.5), (0, 2, 0, 1.0)]
    assert worst_cases(OUTPUT, dataset([2, 1, 2], np.int64), outputs, 1) == found[:1]


def test_a_regressors_worst_have_the_largest_error() -> None:
    outputs = [bytes([2, 2, 2]), bytes([2, 2, 4])]
    found = worst_cases(OUTPUT, dataset([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]], np.float64), outputs)
    assert [(case.sample, case.truth, case.score) for case in found] == [(1, None, 1.0)]


def test_images_and_values() -> None:
    image = replace(OUTPUT, shape=(1, 8, 8, 1), bytes=64)
    found = report.picture(image, bytes(range(64)))
    shown = Image.open(io.BytesIO(base64.b64decode(found["png"])))
    assert (found["kind"], shown.size, shown.getpixel((0, 0)), shown.getpixel((7, 7))) == ("image", (8, 8), 0, 255)
    sound = report.picture(replace(OUTPUT, shape=(1, 1000), bytes=1000), bytes(100) * 10)
    assert (sound["kind"], len(sound["values"]), sound["elements"]) == ("values", 250, 1000)


def test_the_float_model_beside_the_quantised_one() -> None:
    one = Accuracy(3, 2, (0, 1, 1), ((1, 0), (1, 1)))
    other = Accuracy(3, 3, (0, 1, 0), ((2, 0), (0, 1)))
    plain = report.float_model(Path("a/float.tflite"), "LiteRT", other, one)
    assert (plain["accuracy"], plain["agree"]) == (1.0, 2)
    (line,) = report.float_lines(plain)
    assert line == "  the float model float.tflite (LiteRT): 3 of 3 right, accuracy 100.00 %; both agree on 2"
    deviation = report.float_model(Path("f.tflite"), "LiteRT", Deviation(2, 0.25, 0.5, ()), Deviation(2, 0.5, 1.0, ()))
    assert (
        "mean absolute error 0.25, largest 0.5" in report.float_lines(deviation)[0] and report.float_lines(None) == []
    )

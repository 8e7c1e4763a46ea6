# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from tflm_zephyr.compiler import Layer
from tflm_zephyr.compiler.kernel_shapes import form_of
from tflm_zephyr.compiler.program import Local

LAYER = Layer(0, "CONV_2D", "", (), (), (), (), ())


@pytest.mark.parametrize(
    ("rounding", "form"),
    [
        ("OneFloor<5, -128, 127>", "OneFloor"),
        ("OneFloor<5, -58, 126>", "OneFloor, clamped"),
        ("TwoRoundings<3, -128, 127>", "TwoRoundings"),
        ("Joined<tflm_fast::OneFloor<5, -128, 127>, tflm_fast::OneFloor<13, -128, 127>>", "Joined"),
    ],
)
def test_forms_are_those_of_the_tables(rounding: str, form: str) -> None:
    assert form_of(replace(LAYER, locals=(Local("Rounding", "using", f"tflm_fast::{rounding}"),))) == form

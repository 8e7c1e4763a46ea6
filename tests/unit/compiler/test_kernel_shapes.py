# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from tflm_zephyr.compiler.ir.kernels import Rounding
from tflm_zephyr.compiler.kernel_shapes import form_of

FLOOR = Rounding("OneFloor", (5, -128, 127))


@pytest.mark.parametrize(
    ("rounding", "form"),
    [
        (FLOOR, "OneFloor"),
        (Rounding("OneFloor", (5, -58, 126)), "OneFloor, clamped"),
        (Rounding("TwoRoundings", (3, -128, 127)), "TwoRoundings"),
        (Rounding("Joined", (FLOOR, Rounding("OneFloor", (13, -128, 127)))), "Joined"),
    ],
)
def test_forms_are_those_of_the_tables(rounding: Rounding, form: str) -> None:
    assert form_of(rounding) == form

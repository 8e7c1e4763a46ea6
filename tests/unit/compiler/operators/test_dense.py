# SPDX-License-Identifier: Apache-2.0
"""FULLY_CONNECTED: the constant sums of the weights' rows for cores with Helium."""

from __future__ import annotations

import struct

import pytest

from tests.helpers.operator_models import Case, Spec
from tflm_zephyr.compiler import compile_model
from tflm_zephyr.kernels import kernel_library
from tflm_zephyr.model import parse_model

HELIUM = kernel_library("cmsis_nn", dsp=True, mve=True)


@pytest.mark.parametrize("zero_point", [0, 3])
def test_sums_of_weights_have_their_zero_point(zero_point: int) -> None:
    """arm_vector_sum_s8: bias + input's offset * (sum of the row + columns * the weights' offset)."""
    weights = Spec((2, 4), "int8", (1, 2, 3, 4, -5, -6, -7, -8), scale=0.02, zero_point=zero_point)
    bias = Spec((2,), "int32", (100, -100), scale=0.002)
    source, output = (Spec((1, size), "int8", scale=0.1, zero_point=-128) for size in (4, 2))
    model = parse_model(Case("FULLY_CONNECTED", (source, weights, bias), (output,), {}).build())
    program = compile_model(model, (HELIUM,))
    (sums,) = [one.data for one in program.constants if one.name.startswith("sums")]
    wanted = [100 + 128 * (10 - 4 * zero_point), -100 + 128 * (-26 - 4 * zero_point)]
    assert list(struct.unpack("<2i", sums)) == wanted

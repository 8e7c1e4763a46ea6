# SPDX-License-Identifier: Apache-2.0
"""Counts of CMSIS-NN's kernels with Helium: four pixels and 16 bytes of their products go together."""

from __future__ import annotations

import pytest

from tflm_zephyr.costs import CMSIS_NN, Prices, Shape, work_counts
from tflm_zephyr.costs.helium_counts import HELIUM_WORK

M55 = "cortex-m55"


def shape(kernel: str, pixels: int, depth: int, channels: int, **sizes: int) -> Shape:
    return Shape(kernel, 1, pixels, depth, 1, pixels, channels, **sizes)


def test_pixels_left_of_blocks_of_four_are_counted_apart() -> None:
    counts = work_counts(shape("arm_convolve_1x1_s8_fast", 9, 17, 6), M55)
    assert (counts["four pixels"], counts["four pixels' vectors"]) == (2 * 6, 2 * 6 * 2)
    assert (counts["pixels left"], counts["vectors of pixels left"]) == (6, 6 * 2)


def test_other_cores_have_counts_of_their_own() -> None:
    one = shape("arm_fully_connected_s8", 1, 64, 10)
    assert "four channels" in work_counts(one, M55)
    plain, dsp = (work_counts(one, core) for core in ("cortex-m3", "cortex-m4"))
    assert "threes" in plain and "pairs" in dsp
    assert work_counts(one, "cortex-m0plus") == plain
    assert work_counts(one, "cortex-m33") == dsp


@pytest.mark.parametrize("kernel", [name for name in HELIUM_WORK if name.startswith("arm")])
def test_measured_functions_need_no_stand_in(kernel: str) -> None:
    window = {"high": 3, "wide": 3} if kernel.startswith(("arm_convolve_s8", "arm_depthwise")) else {}
    price = Prices(M55, CMSIS_NN).call(shape(kernel, 6, 8, 8, **window))
    assert price.measured, price.why
    assert 0 < price.instructions < price.cycles


def test_helium_takes_a_fraction_of_a_convolution() -> None:
    layer = Shape("CONV_2D int8", 10, 10, 32, 10, 10, 32, high=3, wide=3, top=1, left=1)
    prices = {core: Prices(core, CMSIS_NN).operator(layer) for core in (M55, "cortex-m33")}
    assert prices[M55].measured
    assert prices[M55].instructions < 0.2 * prices["cortex-m33"].instructions

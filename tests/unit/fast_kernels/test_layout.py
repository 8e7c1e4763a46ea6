# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy

from tflm_zephyr.fast_kernels import in_lanes, in_pairs

WEIGHTS = numpy.array([[1, 2, 3, 4, 5], [11, 12, 13, 14, 15], [21, 22, 23, 24, 25]], numpy.int8)


def test_pairs_alternate_and_swap_the_middle_taps() -> None:
    found = [1, 11, 3, 13, 2, 12, 4, 14, 5, 15, 21, 0, 23, 0, 22, 0, 24, 0, 25, 0]
    assert list(in_pairs(WEIGHTS)) == found


def test_lanes_have_four_channels_for_each_tap() -> None:
    assert list(in_lanes(WEIGHTS)) == [lane for tap in WEIGHTS.T.tolist() for lane in (*tap, 0)]


def test_negative_weights_keep_their_bits() -> None:
    assert in_lanes(numpy.full((4, 1), -128, numpy.int8)) == b"\x80" * 4

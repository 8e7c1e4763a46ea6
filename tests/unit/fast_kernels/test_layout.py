# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy

from tflm_zephyr.fast_kernels import can_join, in_lanes, in_pairs, joined_pairs

WEIGHTS = numpy.array([[1, 2, 3, 4, 5], [11, 12, 13, 14, 15], [21, 22, 23, 24, 25]], numpy.int8)


def test_pairs_alternate_and_swap_the_middle_taps() -> None:
    found = [1, 11, 3, 13, 2, 12, 4, 14, 5, 15, 21, 0, 23, 0, 22, 0, 24, 0, 25, 0]
    assert list(in_pairs(WEIGHTS)) == found


def test_lanes_have_four_channels_for_each_tap() -> None:
    assert list(in_lanes(WEIGHTS)) == [lane for tap in WEIGHTS.T.tolist() for lane in (*tap, 0)]


def test_negative_weights_keep_their_bits() -> None:
    assert in_lanes(numpy.full((4, 1), -128, numpy.int8)) == b"\x80" * 4


def test_joined_pairs_are_one_int16() -> None:
    weights = numpy.array([[5, -1, -128, 0], [-3, 7, 127, -127]], numpy.int8)
    found = numpy.frombuffer(joined_pairs(weights), "<i2")
    assert found.tolist() == [256 * b + a for a, b in ((5, -3), (-128, 127), (-1, 7), (0, -127))]


def test_joined_pairs_fit_unless_both_are_far_below_zero() -> None:
    assert can_join(numpy.array([[0, 127], [-128, -128]]))
    assert not can_join(numpy.array([[-1], [-128]]))
    assert can_join(numpy.array([[-128], [-127], [-128]]))  # the last one has no partner

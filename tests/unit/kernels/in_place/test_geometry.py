# SPDX-License-Identifier: Apache-2.0
"""Distances of convolutions and pooling against traces of the kernels' loops over random shapes."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.helpers import cmsis_nn_traces as arm
from tests.helpers import reference_traces as loops
from tests.helpers.marks import rest_slow
from tests.helpers.overlap_cases import cases, random_shapes, window_case
from tests.helpers.overlap_trace import Shapes, Trace, node_of, slack_of
from tflm_zephyr.kernels.in_place.geometry import Axis
from tflm_zephyr.kernels.in_place.rules import InPlaceDistance
from tflm_zephyr.kernels.libraries import kernel_library

REFERENCE = kernel_library("reference")
CORES = {
    arm.PLAIN: kernel_library("cmsis_nn"),
    arm.DSP: kernel_library("cmsis_nn", dsp=True),
    arm.MVE: kernel_library("cmsis_nn", mve=True),
}


def distance_of(overlaps: tuple[InPlaceDistance, ...], trace: Trace) -> int:
    """The rule's one distance; where it has none because no window meets data, nothing is read."""
    if not overlaps:
        assert (trace.last_read < 0).all()
        return len(trace.first_write)
    (overlap,) = overlaps
    assert (overlap.input, overlap.output, overlap.in_place) == (0, 0, False)
    assert overlap.distance_bytes is not None
    return overlap.distance_bytes


def within(trace: Trace, overlaps: tuple[InPlaceDistance, ...], admitted: int) -> bool | None:
    """Whether the distance is safe (it must be) and at most as large as the rule's docstring admits.

    Below 0 nobody claims to go: then it is compared with 0. None where every distance is safe.
    """
    distance = distance_of(overlaps, trace)
    slack = slack_of(trace, distance)
    return None if slack is None else min(slack, distance) <= admitted


def mostly(answers: list[bool | None]) -> None:
    """Few are not within, of tiny shapes, where the pixel that leads is written with later ones."""
    known = [answer for answer in answers if answer is not None]
    assert len(known) > 30
    assert known.count(True) > 0.8 * len(known), f"{known.count(True)} of {len(known)}"


@pytest.mark.parametrize(
    ("key", "kernel"),
    [
        ("CONV_2D", loops.convolution),
        ("DEPTHWISE_CONV_2D", loops.depthwise),
        ("AVERAGE_POOL_2D", loops.pool),
        ("MAX_POOL_2D", loops.pool),
        ("L2_POOL_2D", loops.pool),
    ],
)
def test_reference(key: str, kernel: Callable[[Shapes, Trace], None]) -> None:
    """Exact, but with one channel (of a group), where nothing is written when the first pixel is read last."""
    exact = 0
    for shapes, case in cases(key, 1, 150):
        trace = shapes.trace(kernel)
        slack = slack_of(trace, distance_of(REFERENCE.in_place(node_of(case)), trace))
        assert not slack or shapes.out_depth == shapes.groups
        exact += slack == 0
    assert exact > 80


def test_windows_that_meet_no_data_and_far_padding() -> None:
    for axis in (Axis(3, 3, 2, 1, 2, 5), Axis(4, 9, 3, 1, 7, 2), Axis(1, 1, 9, 1, 4), Axis(5, 6, 2, 1, 1)):
        for out_step, in_step in ((1, 1), (3, 1), (1, 3)):
            leads = []
            for o in range(axis.outputs):
                taps = [o * axis.stride - axis.padding + k * axis.dilation for k in range(axis.window)]
                inside = [tap for tap in taps if 0 <= tap < axis.size]
                leads += [o * out_step - min(inside) * in_step] if inside else []
            assert axis.lead(out_step, in_step) == max(leads, default=None)
    assert Axis(2, 1, 2, 1, 5, 9).lead(1, 1) is None
    # More padding than is looked at one by one: never less than the truth.
    assert Axis(10, 9000, 9000, 1, 8999).lead(2, 1) == 2 * 8999


@pytest.mark.parametrize("core", rest_slow(CORES))
def test_cmsis_nn_convolution(core: str) -> None:
    rule, answers = CORES[core].in_place, []
    for shapes, case in cases("CONV_2D", 2, 120, ("int8",)):
        overlaps = rule(node_of(case))
        one_row = shapes.size[0] == shapes.window[0] == shapes.dilation[1] == 1
        if shapes.groups > 1 or (core == arm.MVE and one_row and shapes.window != (1, 1)):
            assert overlaps == ()  # the second of them is arm_convolve_1_x_n_s8
        elif shapes.window != (1, 1) or shapes.dilation != (1, 1):  # else as below
            trace = shapes.trace(lambda s, t: arm.convolve_s8(s, t, core))
            together = 4 if core == arm.MVE else 2
            answers.append(within(trace, overlaps, (together - 1) * shapes.out_depth))
    mostly(answers)


@pytest.mark.parametrize("core", rest_slow(CORES))
def test_cmsis_nn_convolution_one_by_one(core: str) -> None:
    rule, answers = CORES[core].in_place, []
    for shapes, case in cases("CONV_2D", 3, 120, ("int8",), one_by_one=True):
        overlaps = rule(node_of(case))
        if shapes.stride != (1, 1):
            trace = shapes.trace(lambda s, t: arm.convolve_1x1_s8(s, t, core))
            answers.append(within(trace, overlaps, shapes.out_size[1] * shapes.out_depth))
            continue
        trace = shapes.trace(lambda s, t: arm.convolve_1x1_s8_fast(s, t, core))
        if core == arm.MVE:
            answers.append(within(trace, overlaps, 4 * shapes.out_depth))
            continue
        assert overlaps == ()
        least = trace.distance()  # and there is nothing to gain
        assert least is None or least >= len(trace.first_write) - shapes.out_depth or shapes.out_depth <= 2
    mostly(answers)


@pytest.mark.parametrize("core", rest_slow(CORES))
def test_cmsis_nn_depthwise(core: str) -> None:
    rule, answers = CORES[core].in_place, []
    for shapes, case in cases("DEPTHWISE_CONV_2D", 4, 120, ("int8",), depths=7):
        overlaps = rule(node_of(case))
        if core == arm.MVE and shapes.depth == 1:
            assert overlaps == ()
            continue
        trace = shapes.trace(lambda s, t: arm.depthwise(s, t, core))
        together = (3 if core == arm.MVE else 0) * shapes.out_depth
        answers.append(within(trace, overlaps, max(together, 3)))
    mostly(answers)


def test_cmsis_nn_depthwise_with_many_channels() -> None:
    """Helium goes through more than 124 channels in blocks, outermost: the input is read until the end."""
    for depth in (124, 125, 200):
        shapes = Shapes(1, (3, 3), depth, (3, 3), depth, (3, 3), (1, 1), (1, 1), (1, 1))
        node = node_of(window_case("DEPTHWISE_CONV_2D", shapes, True, "int8"))
        least = shapes.trace(lambda s, t: arm.depthwise(s, t, arm.MVE)).distance()
        assert len(CORES[arm.MVE].in_place(node)) == (depth <= 124)
        assert least is not None
        assert (least > shapes.out_bytes // 2) == (depth > 124)


@pytest.mark.parametrize("core", rest_slow(CORES))
@pytest.mark.parametrize(("key", "kernel"), [("AVERAGE_POOL_2D", arm.average_pool), ("MAX_POOL_2D", arm.max_pool)])
def test_cmsis_nn_pooling(core: str, key: str, kernel: Callable[[Shapes, Trace, str], None]) -> None:
    rule, answers = CORES[core].in_place, []
    for shapes, case in cases(key, 6, 80, ("int8", "int16"), depths=18):
        trace = shapes.trace(lambda s, t: kernel(s, t, core))
        answers.append(within(trace, rule(node_of(case)), 0))
    mostly(answers)


def test_float_has_the_reference_kernel_everywhere() -> None:
    rng = random.Random(7)
    for key in ("AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D"):
        shapes, same = random_shapes(rng, "float32", key)
        node = node_of(window_case(key, shapes, same, "float32"))
        for library in CORES.values():
            assert library.in_place(node) == REFERENCE.in_place(node)


def test_sixteen_bits_and_int4_weights() -> None:
    """The reference's loops are the same; those of CMSIS-NN were not read."""
    rng = random.Random(8)
    for key in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        for kind, weights in (("int16", "int8"), ("int8", "int4")):
            shapes, same = random_shapes(rng, kind, key)
            node = node_of(window_case(key, shapes, same, kind, weights))
            assert len(REFERENCE.in_place(node)) == 1
            for library in CORES.values():
                assert library.in_place(node) == ()

# SPDX-License-Identifier: Apache-2.0
"""Runs of pixels, against a simulation of every byte."""

from __future__ import annotations

import itertools

import pytest

from tflm_zephyr.compiler.pixel_runs import PixelLayer, Runs


def is_safe(layer: PixelLayer, distance: int, runs: Runs) -> bool:
    """Whether no run writes over input that it, or a later run, reads; the output is at byte 0 of a line."""
    unread = set(range(distance, distance + layer.pixels * layer.in_bytes))
    pixels = list(range(layer.pixels))
    for count in runs.counts:
        run, pixels = (pixels[-count:], pixels[:-count]) if runs.backwards else (pixels[:count], pixels[count:])
        written = {pixel * layer.out_bytes + k for pixel in run for k in range(layer.out_bytes)}
        if written & unread:
            return False
        unread -= {distance + pixel * layer.in_bytes + k for pixel in run for k in range(layer.in_bytes)}
    return not pixels


@pytest.mark.parametrize(("taken", "given"), [(1, 1), (1, 2), (2, 1), (3, 4), (4, 3), (2, 5)])
def test_runs_overwrite_no_unread_input(taken: int, given: int) -> None:
    layer = PixelLayer(11, taken, given)
    possible = 0
    for distance in range(-11 * taken - 2, 11 * given + 3):
        runs = layer.runs(distance)
        single = [Runs((1,) * 11), Runs((1,) * 11, backwards=True)]
        if runs is None:  # then it is impossible even pixel by pixel
            assert not any(is_safe(layer, distance, one) for one in single)
        else:
            possible += 1
            assert sum(runs.counts) == 11
            assert is_safe(layer, distance, runs)
    assert possible > 4


def test_a_growing_layer_takes_about_log2_calls() -> None:
    runs = PixelLayer(2304, 8, 16).runs(18448)
    assert runs is not None
    assert len(runs.counts) == 11
    assert runs.counts[:3] == (1152, 576, 288)


@pytest.mark.parametrize("backwards", [False, True])
def test_distances_are_the_least_for_their_calls(backwards: bool) -> None:
    layer = PixelLayer(125, 64, 64)
    found = layer.distances(16, backwards=backwards)
    assert found[-1] == (64, 125)
    for distance, calls in found:
        sign = -1 if backwards else 1
        runs, nearer = layer.runs(sign * distance), layer.runs(sign * (distance - 16))
        assert runs is not None
        assert (len(runs.counts), runs.backwards) == (calls, backwards)
        assert nearer is None or len(nearer.counts) > calls
    for (one, few), (other, many) in itertools.pairwise(found):
        assert one > other
        assert few < many

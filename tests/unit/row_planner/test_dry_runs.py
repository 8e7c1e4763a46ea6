# SPDX-License-Identifier: Apache-2.0
"""Dry runs of segments: each is done once for all chains of the same tensors and windows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.helpers.row_chains import conv, tensors
from tflm_zephyr.row_planner import Chain, DryRuns, Pace, dry_runs
from tflm_zephyr.row_planner.places import row_places
from tflm_zephyr.row_planner.schedule import scheduled


def chain(*, size: int = 3, cost: float = 1.0) -> Chain:
    """Three operations on sixteen rows of which the second one's window and cost are given."""
    operations = (
        conv(0, 1, size=3, padding=1),
        conv(1, 2, size=size, padding=size // 2, step_costs=(cost,)),
        conv(2, 3, size=3, padding=1),
    )
    return Chain(tensors((16, 16, 16, 16), (8, 8, 8, 8)), operations, inputs=(0,), outputs=(3,))


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The segments that were run, in order."""
    segments: list[tuple[int, int]] = []

    def run(a_chain: Chain, first: int, last: int, pace: Pace) -> object:
        segments.append((first, last))
        return scheduled(a_chain, first, last, pace)

    monkeypatch.setattr(dry_runs, "scheduled", run)
    return segments


def test_kernels_that_cost_more_share_them(done: list[tuple[int, int]]) -> None:
    runs = DryRuns()
    cheap, dear = runs.of(chain()), runs.of(chain(cost=9.0))
    assert cheap(0, 3)(Pace(1, 1)).done is dear(0, 3)(Pace(1, 1)).done is cheap(0, 3)(Pace(1, 1)).done
    assert done == [(0, 3)]


def test_places_of_the_same_shapes_share_them(done: list[tuple[int, int]]) -> None:
    """Layers of one shape follow each other in most networks: the second pair is the first one renamed."""
    operations = tuple(conv(k, k + 1, size=3, padding=1) for k in range(4))
    long = Chain(tensors((16,) * 5, (8,) * 5), operations, inputs=(0,), outputs=(4,))
    run = DryRuns().of(long)
    first, second = run(0, 2)(Pace(1, 1)), run(1, 3)(Pace(1, 1))
    assert done == [(0, 2)]
    for one, start in ((first, 0), (second, 1)):
        assert one.schedule == scheduled(long, start, start + 2, Pace(1, 1))
        assert dict(one.places) == row_places(long, one.schedule)[0]
        assert one.cost(long) == one.schedule.cost(long)
        assert dict(one.distances()) == one.schedule.distances
    assert run(2, 4)(Pace(1, 1)).schedule == scheduled(long, 2, 4, Pace(1, 1))
    assert done == [(0, 2)]


def test_another_pace_segment_or_window_is_another_run(done: list[tuple[int, int]]) -> None:
    runs = DryRuns()
    narrow, wide = runs.of(chain()), runs.of(chain(size=5))
    found = [narrow(0, 3)(Pace(1, 1)), narrow(0, 3)(Pace(2, 1)), narrow(0, 2)(Pace(1, 1)), wide(0, 3)(Pace(1, 1))]
    assert len({id(run.done) for run in found}) == len(done) == 4
    assert found[3].buffer_bytes > found[0].buffer_bytes


def test_other_tensors_are_another_chain(done: list[tuple[int, int]]) -> None:
    runs, one = DryRuns(), chain()
    wider = replace(one, tensors=tensors((16, 16, 16, 16), (8, 16, 16, 8)))
    first, second = runs.of(one)(0, 3)(Pace(1, 1)), runs.of(wider)(0, 3)(Pace(1, 1))
    assert second.buffer_bytes > first.buffer_bytes and len(done) == 2

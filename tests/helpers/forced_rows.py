# SPDX-License-Identifier: Apache-2.0
"""Plans in which as many layers as can run row by row do so, at random paces, whether that saves memory or not."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from tflm_zephyr.compiler.memory_plan import MemoryPlan, plan_memory
from tflm_zephyr.compiler.row_plan import RowPlanning, with_segments
from tflm_zephyr.row_planner import Chain, Cut, DryRuns, Pace, Segment

PACES = (Pace(1, 1), Pace(1, 1), Pace(1, 2), Pace(1, 0), Pace(2, 0), Pace(3, 2), Pace(5, 0))


def forced(seed: int) -> Callable[[RowPlanning, float], MemoryPlan]:
    """A method in the place of RowPlanning.smallest()."""

    def plan(planning: RowPlanning, slower: float) -> MemoryPlan:
        stream = planning.stream
        least = 1 if stream is None else stream.last - stream.skipped + 2
        rng = random.Random(seed)
        cut = Cut(tuple(_segments(planning.chain, rng, least)), 0, 0.0)
        layers = with_segments(planning.chain, planning.layers, cut, stream)
        return plan_memory(planning.model, layers, planning.libraries, slower=slower)

    return plan


def _segments(chain: Chain, rng: random.Random, least: int) -> Iterator[Segment]:
    """Segments of random lengths; the first one has `least` operations or more."""
    first, run = 0, DryRuns().of(chain)
    while first < len(chain.operations):
        last = first + 1
        if chain.operations[first].streams:
            while (
                last < len(chain.operations) and chain.operations[last].streams and (last < least or rng.random() < 0.8)
            ):
                last += 1
            pace = rng.choice(PACES)
            yield Segment(first, last, pace, 0, 0.0, run=run(first, last)(pace))
        first = last

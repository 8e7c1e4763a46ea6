# SPDX-License-Identifier: Apache-2.0
"""Plans in which as many layers as can run row by row do so, at random paces, whether that saves memory or not."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from tflm_zephyr.compiler import Layer
from tflm_zephyr.compiler.memory_plan import MemoryPlan, plan_memory
from tflm_zephyr.compiler.row_plan import chain_of, with_segments
from tflm_zephyr.compiler.row_stream import Stream
from tflm_zephyr.compiler.step_work import StepWork
from tflm_zephyr.kernels import KernelLibrary
from tflm_zephyr.model import Model
from tflm_zephyr.row_planner import Chain, Cut, Pace, Segment

PACES = (Pace(1, 1), Pace(1, 1), Pace(1, 2), Pace(1, 0), Pace(2, 0), Pace(3, 2), Pace(5, 0))


def forced(seed: int) -> Callable[..., MemoryPlan]:
    """A function in the place of compilation.plan_rows."""

    def plan(
        model: Model,
        layers: Sequence[Layer],
        libraries: Sequence[KernelLibrary],
        *,
        slower: float = 0.0,
        stream: Stream | None = None,
        unit: StepWork | None = None,
    ) -> MemoryPlan:
        chain = chain_of(model, layers, libraries, stream, unit)
        least = 1 if stream is None else stream.last - stream.skipped + 2
        rng = random.Random(seed)
        cut = Cut(tuple(_segments(chain, rng, least)), 0, 0.0)
        return plan_memory(model, with_segments(chain, layers, cut, stream), libraries, slower=slower)

    return plan


def _segments(chain: Chain, rng: random.Random, least: int) -> Iterator[Segment]:
    """Segments of random lengths; the first one has `least` operations or more."""
    first = 0
    while first < len(chain.operations):
        last = first + 1
        if chain.operations[first].streams:
            while (
                last < len(chain.operations) and chain.operations[last].streams and (last < least or rng.random() < 0.8)
            ):
                last += 1
            yield Segment(first, last, rng.choice(PACES), 0, 0.0)
        first = last

# SPDX-License-Identifier: Apache-2.0
"""Dry runs of segments, each done once for all chains of the same tensors: kernels change costs, but no rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

from tflm_zephyr.row_planner.chain import Chain
from tflm_zephyr.row_planner.places import row_places
from tflm_zephyr.row_planner.schedule import Pace, Schedule, scheduled


@dataclass(frozen=True)
class DryRun:
    """A segment's schedule, the first byte of each row buffer, and the bytes of all of these."""

    schedule: Schedule
    places: Mapping[int, int]
    buffer_bytes: int


class DryRuns:
    """The dry runs that were done."""

    def __init__(self) -> None:
        self._done: dict[Hashable, DryRun] = {}
        self._bases: dict[Hashable, int] = {}

    def of(self, chain: Chain) -> Callable[[int, int, Pace], DryRun]:
        """The dry runs of a chain's segments, by first and last operation and pace.

        They depend on the tensors of all operations, and on how those of the segment read rows.
        """
        ends = [(operation.reads, operation.writes) for operation in chain.operations]
        base = (chain.tensors, tuple(ends), chain.inputs, chain.outputs, chain.alignment)
        number = self._bases.setdefault(base, len(self._bases))
        rows = [(operation.windows, operation.gathers, operation.supplied) for operation in chain.operations]

        def run(first: int, last: int, pace: Pace) -> DryRun:
            key = (number, first, pace, tuple(rows[first:last]))
            done = self._done.get(key)
            if done is None:
                schedule = scheduled(chain, first, last, pace)
                done = self._done[key] = DryRun(schedule, *row_places(chain, schedule))
            return done

        return run

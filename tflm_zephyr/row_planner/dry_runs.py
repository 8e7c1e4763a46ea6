# SPDX-License-Identifier: Apache-2.0
"""Dry runs of segments, each done once: for all chains of the same tensors, as kernels change costs but no rows, and
for all places of a chain where operations of the same shapes follow each other."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tflm_zephyr.row_planner.chain import Chain
from tflm_zephyr.row_planner.places import row_places
from tflm_zephyr.row_planner.schedule import Pace, Schedule, scheduled


@dataclass(frozen=True)
class _Done:
    """A dry run whose operations count from 0, and whose tensors by their first use."""

    schedule: Schedule
    places: Mapping[int, int]
    buffer_bytes: int


@dataclass(frozen=True)
class DryRun:
    """A dry run at its place in a chain: operations from `first` on, and the chain's number of each tensor."""

    done: _Done
    first: int
    tensors: Sequence[int]

    @property
    def buffer_bytes(self) -> int:
        """The bytes of all row buffers."""
        return self.done.buffer_bytes

    @property
    def work(self) -> int:
        """The number of steps."""
        return len(self.done.schedule.steps)

    @cached_property
    def places(self) -> Mapping[int, int]:
        """The first byte of each row buffer."""
        return {self.tensors[tensor]: at for tensor, at in self.done.places.items()}

    @cached_property
    def outline(self) -> Schedule:
        """The schedule without its steps."""
        return _renamed(replace(self.done.schedule, steps=()), self.first, self.tensors.__getitem__)

    @cached_property
    def schedule(self) -> Schedule:
        """The schedule."""
        return _renamed(self.done.schedule, self.first, self.tensors.__getitem__)


class DryRuns:
    """The dry runs that were done."""

    def __init__(self) -> None:
        self._done: dict[Hashable, _Done] = {}

    def of(self, chain: Chain) -> Callable[[int, int, Pace], DryRun]:
        """The dry runs of a chain's segments, by first and last operation and pace.

        They depend on how operations read rows, on sizes, and on which tensors are kept as a whole or die there.
        """
        tensors, lives = chain.tensors, chain.lives

        def run(first: int, last: int, pace: Pace) -> DryRun:
            numbers: dict[int, int] = {}
            shapes = []
            for operation in chain.operations[first:last]:
                for tensor in (*operation.reads, *operation.writes):
                    numbers.setdefault(tensor, len(numbers))
                windows = tuple((numbers[w.tensor], w.size, w.stride, w.padding) for w in operation.windows)
                ends = (tuple(map(numbers.__getitem__, part)) for part in (operation.reads, operation.writes))
                shapes.append((*ends, windows, operation.gathers, operation.supplied))
            inner = set(chain.inner(first, last))
            held = []
            for tensor in numbers:
                item = tensors[tensor]
                held.append((item.rows, item.row_bytes, tensor in inner, lives[item.storage][1] < last))
            key = (pace, chain.alignment, tuple(shapes), tuple(held))
            done = self._done.get(key)
            if done is None:
                schedule = scheduled(chain, first, last, pace)
                places, size = row_places(chain, schedule)
                local = {numbers[tensor]: at for tensor, at in places.items()}
                done = self._done[key] = _Done(_renamed(schedule, -first, numbers.__getitem__), local, size)
            return DryRun(done, first, tuple(numbers))

        return run


def _renamed(schedule: Schedule, offset: int, name: Callable[[int], int]) -> Schedule:
    """The schedule with `offset` added to its operations, and other numbers of its tensors."""
    return Schedule(
        steps=tuple((k + offset, count) for k, count in schedule.steps),
        capacities={name(tensor): rows for tensor, rows in schedule.capacities.items()},
        distances={(name(one), name(other)): size for (one, other), size in schedule.distances.items()},
        spans={name(tensor): spans for tensor, spans in schedule.spans.items()},
        counts={k + offset: counts for k, counts in schedule.counts.items()},
    )

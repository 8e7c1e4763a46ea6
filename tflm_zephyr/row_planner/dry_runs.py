# SPDX-License-Identifier: Apache-2.0
"""Dry runs of segments, each done once: for all chains of the same tensors, as kernels change costs but no rows, and
for all places of a chain where operations of the same shapes follow each other."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from tflm_zephyr.row_planner.chain import Chain, Operation
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
    """A dry run at its place in a chain: operations from `first` on, and each tensor of the chain by its first use."""

    done: _Done
    first: int
    numbers: Mapping[int, int]

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
        tensors = tuple(self.numbers)
        return {tensors[tensor]: at for tensor, at in self.done.places.items()}

    @cached_property
    def schedule(self) -> Schedule:
        """The schedule."""
        return _renamed(self.done.schedule, self.first, tuple(self.numbers).__getitem__)

    def cost(self, chain: Chain) -> float:
        """The cost of its calls and moves in `chain`."""
        return self.done.schedule.cost(chain, self.first, self.numbers)

    def distances(self) -> Iterator[tuple[tuple[int, int], int]]:
        """The distances of the schedule."""
        found = self.done.schedule.distances
        tensors = tuple(self.numbers) if found else ()
        return (((tensors[one], tensors[other]), distance) for (one, other), distance in found.items())


class DryRuns:
    """The dry runs that were done."""

    def __init__(self) -> None:
        self._done: dict[Hashable, dict[Pace, _Done]] = {}
        self._kinds: dict[Hashable, int] = {}

    def of(self, chain: Chain) -> Callable[[int, int], Callable[[Pace], DryRun]]:
        """The dry runs of a chain's segments, by first and last operation, then by pace.

        They depend on how operations read rows, on sizes, and on which tensors are kept as a whole or die there.
        """
        lives = chain.lives
        kinds = [self._kind(_shape(operation)) for operation in chain.operations]
        used = [(*operation.reads, *operation.writes) for operation in chain.operations]
        sizes = [self._kind((tensor.rows, tensor.row_bytes)) for tensor in chain.tensors]
        dead = [lives[tensor.storage][1] if tensor.storage in lives else -1 for tensor in chain.tensors]

        def segment(first: int, last: int) -> Callable[[Pace], DryRun]:
            numbers: dict[int, int] = {}
            uses = [numbers.setdefault(tensor, len(numbers)) for each in used[first:last] for tensor in each]
            inner = frozenset(chain.inner(first, last))
            held = [(sizes[tensor], tensor in inner, dead[tensor] < last) for tensor in numbers]
            key = (chain.alignment, tuple(kinds[first:last]), tuple(uses), tuple(held))
            paces = self._done.setdefault(key, {})

            def run(pace: Pace) -> DryRun:
                if pace not in paces:
                    schedule = scheduled(chain, first, last, pace)
                    places, size = row_places(chain, schedule)
                    local = {numbers[tensor]: at for tensor, at in places.items()}
                    paces[pace] = _Done(_renamed(schedule, -first, numbers.__getitem__), local, size)
                return DryRun(paces[pace], first, numbers)

            return run

        return segment

    def _kind(self, value: Hashable) -> int:
        """A number for each value: keys of them are compared sooner."""
        return self._kinds.setdefault(value, len(self._kinds))


def _shape(operation: Operation) -> Hashable:
    """How an operation reads rows, with its tensors by their place among those that it reads and writes."""
    used = (*operation.reads, *operation.writes)
    windows = tuple((used.index(w.tensor), w.size, w.stride, w.padding) for w in operation.windows)
    return len(operation.reads), len(operation.writes), windows, operation.gathers, operation.supplied


def _renamed(schedule: Schedule, offset: int, name: Callable[[int], int]) -> Schedule:
    """The schedule with `offset` added to its operations, and other numbers of its tensors."""
    return Schedule(
        steps=tuple((k + offset, count) for k, count in schedule.steps),
        capacities={name(tensor): rows for tensor, rows in schedule.capacities.items()},
        distances={(name(one), name(other)): size for (one, other), size in schedule.distances.items()},
        spans={name(tensor): spans for tensor, spans in schedule.spans.items()},
        counts={k + offset: counts for k, counts in schedule.counts.items()},
    )

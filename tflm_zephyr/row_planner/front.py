# SPDX-License-Identifier: Apache-2.0
"""The best ways to cut a chain into segments: bytes against cost, by a dynamic program over the cut points.

A segment is one operation on whole tensors, or several (or one) that run row by row. Bytes are those alive at the worst
segment: tensors that are stored whole, less what an output may share with an input, row buffers and scratch. Memory
that is lost between buffers is not counted: the caller places them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf
from operator import itemgetter

from tflm_zephyr.row_planner.chain import Chain, Way
from tflm_zephyr.row_planner.dry_runs import DryRun, DryRuns
from tflm_zephyr.row_planner.schedule import Pace

PACES = (Pace(1, 1), Pace(1, 2), Pace(1, 0), Pace(2, 0), Pace(3, 0), Pace(4, 0), Pace(6, 0), Pace(8, 0), Pace(16, 0))
LONGEST = 40
"""Operations of a segment."""
WORK = 2_000
"""Steps of dry runs for each operation of the chain."""
_LEAST_WORK = 100_000
_MOST_POINTS = 48
_NEGLIGIBLE = 0.0002
"""The share of the chain's work below which a cheaper pace is not looked for."""


@dataclass(frozen=True)
class Segment:
    """Operations first <= k < last, row by row at a pace, or one on whole tensors where `pace` is None.

    `saved`: bytes that the output of an operation on whole tensors shares with its input. `run`: the dry run of one
    that runs row by row.
    """

    first: int
    last: int
    pace: Pace | None
    bytes: int
    cost: float
    saved: int = 0
    run: DryRun | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Cut:
    """A chain in segments: the bytes of the worst one, and what all cost together beyond the work of the rows."""

    segments: tuple[Segment, ...]
    bytes: int
    cost: float


@dataclass(frozen=True)
class _Point:
    """The best known way to run the operations before some place: bytes and cost, its last segment and the rest."""

    bytes: int
    cost: float
    segment: Segment | None = None
    before: _Point | None = None


def front(chain: Chain, total: float = 0.0, *, work: int | None = None, runs: DryRuns | None = None) -> tuple[Cut, ...]:
    """Cuts none of which is both no larger and no dearer than another one; the smallest first.

    `total` is the cost of the chain's rows, which small costs are compared with. `work` limits the search, in steps of
    dry runs: longer segments are left out when it is spent, never short ones before long ones. `runs`: dry runs that
    fronts of the same tensors share.
    """
    sizes = _Sizes(chain, DryRuns() if runs is None else runs)
    count = len(chain.operations)
    ending = _segments(chain, sizes, total, max(_LEAST_WORK, WORK * count) if work is None else work)
    return tuple(_cut(point) for point in _best(chain, ending))


def _best(chain: Chain, ending: Sequence[Sequence[Segment]]) -> list[_Point]:
    """The best ways to run all operations by these segments, which are sorted by the place where they end."""
    points: list[list[_Point]] = [[_Point(0, 0.0)]]
    for last in range(1, len(chain.operations) + 1):
        found = [pair for segment in ending[last] for pair in _continued(points[segment.first], segment)]
        points.append(_thinned(_undominated(found)))
    return points[-1]


def _continued(points: Sequence[_Point], segment: Segment) -> Iterator[tuple[int, float, Segment, _Point]]:
    """The points with the segment behind them: bytes and cost, but of those that it makes equally large the cheapest.

    `points` grow in bytes and fall in cost.
    """
    size, cost = segment.bytes, segment.cost
    first = max(0, bisect_right(points, size, key=lambda point: point.bytes) - 1)
    while first and points[first - 1].cost + cost == points[first].cost + cost:  # equal as rounded
        first -= 1
    for before in points[first:]:
        yield max(before.bytes, size), before.cost + cost, segment, before


class _Sizes:
    """Bytes alive while operations run."""

    def __init__(self, chain: Chain, runs: DryRuns) -> None:
        self._runs = runs.of(chain)
        count = len(chain.operations)
        born, dead = [0] * (count + 2), [0] * (count + 3)
        for first, last, size in chain.lives.values():
            born[first + 1] += chain.aligned(size)
            dead[last + 2] += chain.aligned(size)
        self._born, self._dead = list(accumulate(born)), list(accumulate(dead))
        self._chain = chain

    def alive(self, first: int, last: int) -> int:
        """Bytes of all storages that the operations first <= k < last need, or that outlive them."""
        return self._born[last] - self._dead[first + 1]

    def whole(self, k: int, way: Way) -> int:
        """Bytes while the operation runs on whole tensors."""
        return self.alive(k, k + 1) + self._chain.aligned(self._chain.operations[k].scratch) - way.saved

    def mapped(self, first: int, last: int) -> int:
        """The same where the operations run row by row, without row buffers."""
        tensors = self._chain.tensors
        inner = sum(self._chain.aligned(tensors[tensor].size) for tensor in self._chain.inner(first, last))
        return self.alive(first, last) - inner

    def runs(self, first: int, last: int) -> Callable[[Pace], DryRun]:
        """The dry runs of a segment."""
        return self._runs(first, last)

    def held(self, first: int, last: int) -> int:
        """Bytes that the operations keep from row to row, and their largest scratch buffer."""
        operations = self._chain.operations[first:last]
        kept = sum(self._chain.aligned(operation.kept) for operation in operations)
        return kept + max(self._chain.aligned(operation.scratch) for operation in operations)

    def shared(self, run: DryRun) -> int:
        """The most bytes that an output shares with an input."""
        chain, tensors = self._chain, self._chain.tensors
        return max(
            (
                min(chain.aligned(tensors[given].size),
                    chain.aligned(tensors[taken].size) - chain.aligned(max(0, distance)))
                for (given, taken), distance in run.distances()
                if chain.can_share(given, taken)
            ),
            default=0,
        )  # fmt: skip


def _segments(chain: Chain, sizes: _Sizes, total: float, limit: int) -> list[list[Segment]]:
    """The segments worth a look, by the place where they end."""
    count = len(chain.operations)
    ending: list[list[Segment]] = [[] for _ in range(count + 1)]
    wholes = []
    for k, operation in enumerate(chain.operations):
        ways = [Way(0, 0.0), *operation.ways]
        found = [Segment(k, k + 1, None, sizes.whole(k, way), way.cost, way.saved) for way in ways]
        ending[k + 1] = [] if operation.supplied else found
        wholes.append(min(segment.bytes for segment in found if segment.cost == 0.0))
    least = max(sizes.alive(0, 0), sizes.alive(count, count), 0)
    streams = list(accumulate((not operation.streams for operation in chain.operations), initial=0))
    supplied = {k for k, operation in enumerate(chain.operations) if operation.supplied}
    spent = 0
    for length in range(1, LONGEST + 1):
        for first in range(count - length + 1):
            last = first + length
            # Rows from outside cannot become a whole tensor: their first segment counts, however large.
            worst = inf if first in supplied else max(wholes[first:last])
            if streams[first] != streams[last] or worst <= least or not _kept_in_part(chain, first, last):
                continue
            for segment, steps in _paced(chain, sizes, first, last, worst, total):
                spent += steps
                if segment is not None:
                    ending[last].append(segment)
                    supplied.discard(first)
            if spent > limit:
                return ending
    return ending


def _kept_in_part(chain: Chain, first: int, last: int) -> bool:
    """Whether all tensors whose rows come from outside die in the segment."""
    supplied = {operation.writes[0] for operation in chain.operations[first:last] if operation.supplied}
    return supplied <= set(chain.inner(first, last)) if supplied else True


def _paced(
    chain: Chain, sizes: _Sizes, first: int, last: int, worst: float, total: float
) -> Iterator[tuple[Segment | None, int]]:
    """The segment at each pace that is worth it, with the steps that its dry run took."""
    mapped, rows = sizes.mapped(first, last), chain.rows_of(last - 1)
    least = mapped - chain.sharable(first, last) + sum(
        chain.aligned(chain.tensors[tensor].row_bytes) for tensor in chain.inner(first, last)
    )  # fmt: skip
    if least >= worst:
        return
    seen = set()
    run_at, held = sizes.runs(first, last), sizes.held(first, last)
    for pace in PACES:
        if pace.rows >= rows > 1:
            return
        run = run_at(pace)
        used, cost = mapped - sizes.shared(run) + run.buffer_bytes + held, run.cost(chain)
        if used >= worst:
            yield None, run.work
            if pace.most == 1:
                return
            continue
        fresh = (used, cost) not in seen
        seen.add((used, cost))
        yield (Segment(first, last, pace, used, cost, run=run) if fresh else None), run.work
        if cost <= _NEGLIGIBLE * total:
            return


def _undominated(points: Sequence[tuple[int, float, Segment, _Point]]) -> list[_Point]:
    """The points that no other one is as good as, by growing bytes."""
    found: list[_Point] = []
    for point in sorted(points, key=itemgetter(0, 1)):
        if not found or point[1] < found[-1].cost:
            found.append(_Point(*point))
    return found


def _thinned(points: list[_Point]) -> list[_Point]:
    """At most so many points, both ends among them."""
    if len(points) <= _MOST_POINTS:
        return points
    return [points[k * (len(points) - 1) // (_MOST_POINTS - 1)] for k in range(_MOST_POINTS)]


def _cut(point: _Point) -> Cut:
    segments = []
    at: _Point | None = point
    while at is not None and at.segment is not None:
        segments.append(at.segment)
        at = at.before
    return Cut(tuple(reversed(segments)), point.bytes, point.cost)

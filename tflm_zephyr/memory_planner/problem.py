# SPDX-License-Identifier: Apache-2.0
"""The packing problem and its plan: buffers with lifespans, in-place pairs among them, and an offset for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tflm_zephyr.errors import PlanError


def align_up(value: int, alignment: int) -> int:
    """The smallest multiple of `alignment` that is not below `value`."""
    return value + -value % alignment


@dataclass(frozen=True)
class Buffer:
    """Memory of `size` bytes needed at each step t with lower <= t < upper.

    `offset` fixes the place (bytes from the arena's start) when it is not None.
    """

    id: str
    lower: int
    upper: int
    size: int
    offset: int | None = None


@dataclass(frozen=True)
class InPlacePair:
    """Buffer `output` may share bytes with buffer `input` (indices): it is written while that one is read.

    They are alive together at one step only, the input's last and the output's first. Allowed are
    input offset - output offset >= distance (bytes; None: there is no such distance) and, where `in_place`, equal
    offsets. For an operator that works from back to front the two change places: `input` is then what it writes, and
    lies as far above.
    """

    input: int
    output: int
    distance: int | None
    in_place: bool = False


@dataclass(frozen=True)
class Problem:
    """Buffers in the order in which TFLM would add them, offsets to be multiples of `alignment` bytes.

    A buffer occupies its size rounded up to `alignment`, as TFLM's CreatePlan() rounds it
    (tensorflow/lite/micro/micro_allocator.cc, revision 8d404de7). A fixed offset is taken as given. `pairs` are the
    in-place pairs that a planner may use.
    Raises PlanError for an empty lifespan, a negative size or fixed offset, an alignment below 1, or a pair of
    buffers that meet at more than one step or not at all.
    """

    buffers: tuple[Buffer, ...]
    alignment: int = 16
    name: str = ""
    pairs: tuple[InPlacePair, ...] = ()

    def __post_init__(self) -> None:
        if self.alignment < 1:
            raise PlanError(f"alignment {self.alignment} is not positive", where=self.name)
        for buffer in self.buffers:
            if buffer.upper <= buffer.lower:
                what = f"buffer {buffer.id} has an empty lifespan [{buffer.lower}, {buffer.upper})"
                raise PlanError(what, where=self.name, hint="upper must be greater than lower.")
            if buffer.size < 0:
                raise PlanError(f"buffer {buffer.id} has the negative size {buffer.size}", where=self.name)
            if buffer.offset is not None and buffer.offset < 0:
                what = f"buffer {buffer.id} has the negative offset {buffer.offset}"
                raise PlanError(what, where=self.name)
        for pair in self.pairs:
            one, other = self.buffers[pair.input], self.buffers[pair.output]
            if one.upper - 1 != other.lower and other.upper - 1 != one.lower:
                what = f"buffer {other.id} may overlap {one.id}, but is not first used where that one is last used"
                raise PlanError(what, where=self.name)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Bytes that each buffer occupies: its size rounded up to the alignment."""
        return tuple(align_up(buffer.size, self.alignment) for buffer in self.buffers)

    def only(self, kept: Sequence[int], more: Sequence[Buffer] = ()) -> Problem:
        """The problem of the buffers `kept` (their indices) alone, and `more` behind them."""
        place = {buffer: k for k, buffer in enumerate(kept)}
        pairs = (
            replace(pair, input=place[pair.input], output=place[pair.output])
            for pair in self.pairs
            if pair.input in place and pair.output in place
        )
        return replace(self, buffers=(*(self.buffers[i] for i in kept), *more), pairs=tuple(pairs))

    @cached_property
    def leads(self) -> dict[tuple[int, int], int]:
        """By (input, output), how far above the output's start the input may start: a multiple of the alignment, from
        0 up, and less than the output's size. A distance below 0 counts as 0."""
        found = {}
        for pair in self.pairs:
            if pair.distance is not None:
                lead = max(0, align_up(pair.distance, self.alignment))
                if lead < self.sizes[pair.output] and self.sizes[pair.input]:
                    found[pair.input, pair.output] = lead
        return found


@dataclass(frozen=True)
class SharedBytes:
    """Bytes that the buffers `input` and `output` (indices) share, the first read last where the second begins."""

    input: int
    output: int
    bytes: int


@dataclass(frozen=True)
class Plan:
    """An offset in bytes for each of the problem's buffers; `method` names the planner's method that found it.

    `proven_bytes`: no plan of the problem is smaller, as far as the planner has proven it.
    """

    problem: Problem
    offsets: tuple[int, ...]
    method: str
    proven_bytes: int = 0

    @cached_property
    def size_bytes(self) -> int:
        """The peak: bytes of arena that the plan needs."""
        return peak(self.problem.sizes, self.offsets)

    @cached_property
    def shared(self) -> tuple[SharedBytes, ...]:
        """Inputs and outputs of one operator that share bytes: the in-place pairs in use, whoever placed them."""
        spans = [(at, at + size) for at, size in zip(self.offsets, self.problem.sizes, strict=True)]
        dying: dict[int, list[int]] = {}
        for i, buffer in enumerate(self.problem.buffers):
            if buffer.lower < buffer.upper - 1 and spans[i][0] < spans[i][1]:
                dying.setdefault(buffer.upper - 1, []).append(i)
        return tuple(
            SharedBytes(source, result, size)
            for result, buffer in enumerate(self.problem.buffers)
            for source in dying.get(buffer.lower, ())
            if (size := min(spans[result][1], spans[source][1]) - max(spans[result][0], spans[source][0])) > 0
        )


def peak(sizes: Sequence[int], offsets: Sequence[int]) -> int:
    """The highest byte that any buffer reaches, 0 without buffers."""
    return max((offset + size for offset, size in zip(offsets, sizes, strict=True)), default=0)


def lower_bound(problem: Problem) -> int:
    """Bytes that no plan can go below: the most alive at one step, less what pairs there may share at best; or a
    fixed buffer's end."""
    change: Counter[int] = Counter()
    highest = 0
    pairs: dict[int, list[tuple[int, int, int]]] = {}
    for pair in problem.pairs:
        saved = saving(problem, pair)
        if saved:
            meet = max(problem.buffers[pair.input].lower, problem.buffers[pair.output].lower)
            pairs.setdefault(meet, []).append((pair.input, pair.output, saved))
    for buffer, size in zip(problem.buffers, problem.sizes, strict=True):
        change[buffer.lower] += size
        change[buffer.upper] -= size
        if buffer.offset is not None:
            highest = max(highest, buffer.offset + size)
    live = 0
    for step in sorted(change):
        live += change[step]
        highest = max(highest, live - most_saved(pairs[step], problem.sizes) if step in pairs else live)
    return highest


def saving(problem: Problem, pair: InPlacePair) -> int:
    """The most bytes that the two buffers can share."""
    sizes = problem.sizes
    if pair.in_place:
        return min(sizes[pair.input], sizes[pair.output])
    lead = problem.leads.get((pair.input, pair.output))
    return 0 if lead is None else min(sizes[pair.input], sizes[pair.output] - lead)


def most_saved(pairs: Sequence[tuple[int, int, int]], sizes: Sequence[int]) -> int:
    """No less than (input, output, shared bytes) can save together at one step.

    Inputs do not overlap each other, nor do outputs, so that a buffer shares no byte twice.
    """
    if len(pairs) == 1:
        return pairs[0][2]
    sides: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
    for source, result, saved in pairs:
        sides[0][source] += saved
        sides[1][result] += saved
    return min(sum(min(total, sizes[i]) for i, total in side.items()) for side in sides)

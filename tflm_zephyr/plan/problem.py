# SPDX-License-Identifier: Apache-2.0
"""The packing problem and its answer: buffers with lifespans, and an offset for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tflm_zephyr.errors import PlanError


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
class Problem:
    """Buffers in the order in which TFLM would add them, offsets to be multiples of `alignment` bytes.

    A buffer occupies its size rounded up to `alignment`, as TFLM's CreatePlan() rounds it
    (tensorflow/lite/micro/micro_allocator.cc, revision 8d404de7). A fixed offset is taken as given.
    Raises PlanError for an empty lifespan, a negative size or fixed offset, or an alignment below 1.
    """

    buffers: tuple[Buffer, ...]
    alignment: int = 16
    name: str = ""

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

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Bytes that each buffer occupies: its size rounded up to the alignment."""
        unit = self.alignment
        return tuple(-(-buffer.size // unit) * unit for buffer in self.buffers)


@dataclass(frozen=True)
class Plan:
    """An offset in bytes for each of the problem's buffers; `method` says what found it.

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


def peak(sizes: Sequence[int], offsets: Sequence[int]) -> int:
    """The highest byte that any buffer reaches, 0 without buffers."""
    return max((offset + size for offset, size in zip(offsets, sizes, strict=True)), default=0)


def lower_bound(problem: Problem) -> int:
    """Bytes that no plan can go below: the largest sum of sizes alive at one step, or a fixed buffer's end."""
    change: Counter[int] = Counter()
    highest = 0
    for buffer, size in zip(problem.buffers, problem.sizes, strict=True):
        change[buffer.lower] += size
        change[buffer.upper] -= size
        if buffer.offset is not None:
            highest = max(highest, buffer.offset + size)
    live = 0
    for step in sorted(change):
        live += change[step]
        highest = max(highest, live)
    return highest

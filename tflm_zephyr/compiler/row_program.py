# SPDX-License-Identifier: Apache-2.0
"""Segments of layers that run row by row, with their row buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tflm_zephyr.compiler.ir.rows import RowForm
from tflm_zephyr.row_planner import Loop, Step, unfolded


@dataclass(frozen=True)
class RowBuffer:
    """Where a segment keeps rows of a tensor: `at` is a byte of the segment's memory, None for the tensor's own place.

    `capacity` rows of `row_bytes`; `ready` rows are there before the first step.
    """

    tensor: int
    row_bytes: int
    capacity: int
    ready: int
    at: int | None


@dataclass(frozen=True)
class StreamedInput:
    """The input that comes row by row: its place in the model's inputs, and the tensor whose rows these are.

    `read` of its `rows` are read; those behind them are only counted. `state` is the byte of the segment's memory where
    the segment keeps, from one push of rows to the next, how far it has got: a head, and for each of its `buffers` row
    buffers two numbers of `mark_bytes`.
    """

    input: int
    tensor: int
    rows: int
    row_bytes: int
    read: int
    state: int
    buffers: int
    mark_bytes: int

    @property
    def state_bytes(self) -> int:
        """Bytes of the state."""
        return STATE_HEAD_BYTES + 2 * self.mark_bytes * self.buffers


STATE_HEAD_BYTES = 16


@dataclass(frozen=True)
class Spot:
    """Byte `at` of what a segment keeps from one window to the next (`kept`), or of its scratch buffer."""

    at: int
    kept: bool


@dataclass(frozen=True)
class HopBuffer:
    """Where a tensor's rows lie, `rows` of `row_bytes` each, in a segment whose window moves on.

    Row `base` and those behind it lie from `spot` on, None for the tensor's own place. Rows come, or are computed as
    rows come, from row `new` to `end`; those from `end` on by Invoke(). So are the first ones, from row 0 on at
    `ahead`, where there are such rows: the same place for a tensor that is there as a whole.
    """

    tensor: int
    row_bytes: int
    rows: int
    base: int
    new: int
    end: int
    spot: Spot | None
    ahead: Spot | None


@dataclass(frozen=True)
class HopMove:
    """Before a hop's rows come, `size` bytes move down by `by` to byte `to` of buffer number `buffer`."""

    buffer: int
    to: int
    by: int
    size: int


@dataclass(frozen=True)
class HopCall:
    """A call for `count` rows of the member with this number; `ahead`: for the first rows."""

    member: int
    count: int
    ahead: bool = False


@dataclass(frozen=True)
class HopProgram:
    """A segment whose window moves by `every` rows of the input: `moves`, rows that come, `pushed` calls; by Invoke()
    `invoked` ones. `kept_bytes` hold the kept rows and, from byte `state` on, the bytes that are missing in a hop.

    `cycles` are estimated, of a hop and all layers behind the segment.
    """

    every: int
    buffers: tuple[HopBuffer, ...]
    moves: tuple[HopMove, ...]
    pushed: tuple[HopCall, ...]
    invoked: tuple[HopCall, ...]
    kept_bytes: int
    state: int
    cycles: float

    @property
    def first_rows(self) -> int:
        """The rows of the first hop of a window that begins: so many that the others have `every` rows."""
        return (self.buffers[0].rows - 1) % self.every + 1

    def place(self, tensor: int) -> int:
        """The number of the tensor's buffer."""
        return next(k for k, buffer in enumerate(self.buffers) if buffer.tensor == tensor)


HOP_STATE_BYTES = 16


@dataclass(frozen=True)
class RowSegment:
    """Layers that run row by row in one function; `forms` has theirs by the operator's index, in their order.

    A step's number is a place in `forms`; the number behind them is the step that waits for rows of the input, in a
    segment with a `stream`. With a `hop` there are no loops, and the buffers are the hop's. The segment's memory, the
    scratch buffer of the layer that it is, has row buffers, sums (`sums`, by operator, at which byte), and from byte
    `scratch` on the kernels' scratch buffer. `distances` and `cost`: see row_planner.Schedule.
    """

    forms: Mapping[int, RowForm]
    buffers: tuple[RowBuffer, ...]
    loops: tuple[Loop, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    sums: Mapping[int, int]
    scratch: int
    distances: Mapping[tuple[int, int], int]
    cost: float = 0.0
    stream: StreamedInput | None = None
    hop: HopProgram | None = None

    @property
    def operators(self) -> tuple[int, ...]:
        """The operators, in their order."""
        return tuple(self.forms)

    def place(self, tensor: int) -> int:
        """The number of the tensor's row buffer."""
        if self.hop is not None:
            return self.hop.place(tensor)
        return next(k for k, buffer in enumerate(self.buffers) if buffer.tensor == tensor)

    def steps(self) -> Iterator[Step]:
        """All steps, one after the other."""
        return unfolded(self.loops)

    @property
    def calls(self) -> dict[int, int]:
        """How often each operator's kernel is called."""
        found = dict.fromkeys(self.forms, 0)
        operators = self.operators
        for loop in self.loops:
            for k, _ in loop.steps:
                if k < len(operators):
                    found[operators[k]] += loop.times
        for call in () if self.hop is None else (*self.hop.pushed, *self.hop.invoked):
            found[operators[call.member]] += 1
        return found

# SPDX-License-Identifier: Apache-2.0
"""The steps of a segment as its code runs them: which bytes each call reads and writes, and which rows are moved.

It follows the numbers that are emitted (buffers, loops, windows), and knows nothing of how they were found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tflm_zephyr.compiler.ir.calls import SCRATCH
from tflm_zephyr.compiler.ir.layers import SegmentLayer
from tflm_zephyr.compiler.ir.rows import RowForm, RowInput
from tflm_zephyr.compiler.row_program import StreamedInput


@dataclass(frozen=True)
class RowAccess:
    """Bytes first <= b < end of the arena that hold a row of a tensor, or sums (`row` is then -1)."""

    tensor: int
    row: int
    first: int
    end: int


@dataclass(frozen=True)
class RowStep:
    """A call: the layer, rows that are moved before it (from, to), and what it reads, writes and has as scratch.

    `operator` is -1 for a step that takes rows of a streamed input from outside.
    """

    operator: int
    moves: tuple[tuple[RowAccess, RowAccess], ...]
    reads: tuple[RowAccess, ...]
    writes: tuple[RowAccess, ...]
    scratch: tuple[int, int]


@dataclass
class _Rows:
    """A row buffer of the code while it runs."""

    tensor: int
    data: int
    row_bytes: int
    capacity: int
    first: int
    next: int

    def row(self, row: int) -> RowAccess:
        at = self.data + (row - self.first) * self.row_bytes
        return RowAccess(self.tensor, row, at, at + self.row_bytes)

    def push(self, count: int) -> tuple[list[tuple[RowAccess, RowAccess]], list[RowAccess]]:
        """The moves that make room for `count` rows, and the rows' places."""
        dropped = self.next + count - self.first - self.capacity
        moves = []
        if dropped > 0:
            kept = range(self.first + dropped, self.next)
            old = [self.row(row) for row in kept]
            self.first += dropped
            moves = [(one, self.row(row)) for one, row in zip(old, kept, strict=True)]
        new = [self.row(row) for row in range(self.next, self.next + count)]
        self.next += count
        return moves, new


class SegmentError(Exception):
    """The steps cannot be right; the text says why."""


def steps_of(layer: SegmentLayer, base: int, place: Callable[[int], int]) -> Iterator[RowStep]:
    """The steps of a segment whose memory begins at byte `base`. `place`: the arena offset of a tensor.

    SegmentError for rows that a buffer cannot have, and where not all rows are computed at the end.
    """
    segment = layer.segment
    rows = {
        buffer.tensor: _Rows(
            buffer.tensor, place(buffer.tensor) if buffer.at is None else base + buffer.at,
            buffer.row_bytes, buffer.capacity, 0, buffer.ready,
        )
        for buffer in segment.buffers
    }  # fmt: skip
    members = {member.operator: member for member in layer.members}
    end = base + layer.scratch_bytes
    for k, count in segment.steps():
        if segment.stream is not None and k == len(segment.forms):
            yield _taken(segment.stream, rows[segment.stream.tensor], count)
            continue
        operator = segment.operators[k]
        form, output = segment.forms[operator], rows[segment.forms[operator].output.tensor]
        scratch = (base + segment.scratch, base + segment.scratch + members[operator].scratch_bytes)
        if scratch[1] > end or count < 1:
            raise SegmentError(f"layer {operator} has {count} rows, or its scratch buffer outside of the segment's")
        reads = [one for given in form.inputs for one in _read(form, given, rows, output.next, count)]
        if form.gathering is not None:
            sums = base + segment.sums[operator]
            whole = RowAccess(SCRATCH - operator - 1, -1, sums, sums + 4 * form.gathering.sums)
            reads += [whole] if output.next else []
            output.next += count
            done = output.next == form.steps
            writes = [whole, RowAccess(output.tensor, 0, output.data, output.data + output.row_bytes)][: 1 + done]
            yield RowStep(operator, (), tuple(reads), tuple(writes), scratch)
            continue
        if count > output.capacity or output.next + count > form.output.rows:
            raise SegmentError(f"layer {operator} writes {count} rows more than its buffer or its tensor has")
        moves, new = output.push(count)
        # A layer's own moves come before it reads, and its inputs are others than its output.
        yield RowStep(operator, tuple(moves), tuple(reads), tuple(new), scratch)
    if segment.stream is not None and rows[segment.stream.tensor].next != segment.stream.read:
        raise SegmentError(f"{rows[segment.stream.tensor].next} of {segment.stream.read} rows of the input are taken")
    _check_end(segment.forms, segment.outputs, rows)


def _taken(stream: StreamedInput, buffer: _Rows, count: int) -> RowStep:
    """The step that takes `count` rows of the input from outside."""
    if not 0 < count <= buffer.capacity or buffer.next + count > stream.read:
        raise SegmentError(f"{count} rows of the input come, more than its buffer or its tensor has")
    moves, new = buffer.push(count)
    return RowStep(-1, tuple(moves), (), tuple(new), (0, 0))


def _read(form: RowForm, given: RowInput, rows: Mapping[int, _Rows], row: int, count: int) -> Iterator[RowAccess]:
    """The rows of an input that `count` rows from `row` on read."""
    buffer, window = rows[given.tensor], given.window
    if form.gathering is not None:
        first, end = row, row + count
    else:
        first, end = window.first(row), window.end(row + count - 1, given.rows)
    for one in range(first, end):
        if one < buffer.first or one >= max(buffer.next, 1 if buffer.capacity == 1 and given.rows == 1 else 0):
            raise SegmentError(f"row {one} of tensor {given.tensor} is read, which its buffer does not hold")
        yield buffer.row(one)


def _check_end(forms: Mapping[int, RowForm], outputs: tuple[int, ...], rows: Mapping[int, _Rows]) -> None:
    for form in forms.values():
        tensor = form.output.tensor
        if tensor in outputs and rows[tensor].next != form.steps:
            raise SegmentError(f"tensor {tensor} has {rows[tensor].next} of its {form.steps} rows at the end")

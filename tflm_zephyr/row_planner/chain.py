# SPDX-License-Identifier: Apache-2.0
"""A chain of operations on tensors of rows, in the order in which they run: what the planner of segments is given."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class RowTensor:
    """A tensor of `rows` times `row_bytes` bytes.

    Tensors of one `storage` (any hashable number) are views of each other. `whole`: it cannot be kept in part.
    """

    rows: int
    row_bytes: int
    storage: int
    whole: bool = False

    @property
    def size(self) -> int:
        """Bytes of all rows."""
        return self.rows * self.row_bytes


@dataclass(frozen=True)
class Window:
    """Rows of `tensor` that an output row o reads: `size` from o * stride - padding on, as far as they exist."""

    tensor: int
    size: int = 1
    stride: int = 1
    padding: int = 0

    def first(self, row: int) -> int:
        """The first row that output row `row` reads; at least 0."""
        return max(0, row * self.stride - self.padding)

    def end(self, row: int, rows: int) -> int:
        """The row behind the last one that output row `row` reads of `rows`; 0 where all are above the tensor."""
        return max(0, min(rows, row * self.stride - self.padding + self.size))


@dataclass(frozen=True)
class Way:
    """A way to run an operation on whole tensors: its output shares `saved` bytes with an input, for `cost` more."""

    saved: int
    cost: float


@dataclass(frozen=True)
class Operation:
    """An operation. `reads` and `writes` are its tensors.

    `windows` are the rows that it reads, a window for each tensor in `reads`, where it can run row by row; else none.
    It then writes one tensor. `gathers`: it takes in the rows of its one input one after the other, and its output is
    done behind the last of them. `scratch` bytes are needed while it runs, `kept` bytes from its first row to its last.
    `step_costs` are those of calls for 1, 2, ... rows beyond the work of the rows; calls for more rows cost as the
    last. Each row costs `row_cost` more.
    `supplied`: it reads nothing, and its rows come from outside; the tensor that it writes is never kept whole.
    """

    reads: tuple[int, ...]
    writes: tuple[int, ...]
    windows: tuple[Window, ...] = ()
    gathers: bool = False
    scratch: int = 0
    kept: int = 0
    step_costs: tuple[float, ...] = (0.0,)
    row_cost: float = 0.0
    ways: tuple[Way, ...] = ()
    supplied: bool = False

    @property
    def streams(self) -> bool:
        """Whether it can run row by row."""
        return bool(self.windows) or self.supplied

    def cost(self, rows: int) -> float:
        """The cost of a call for `rows` rows beyond the work of the rows."""
        return self.step_costs[min(rows, len(self.step_costs)) - 1] + self.row_cost * rows


@dataclass(frozen=True)
class Chain:
    """Operations in their order on `tensors`. `inputs` are there before the first one, `outputs` are kept to the end.

    `alignment`: bytes that each buffer starts at a multiple of. `move_cost` is that of a byte moved in a row buffer.
    """

    tensors: tuple[RowTensor, ...]
    operations: tuple[Operation, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    alignment: int = 16
    move_cost: float = 0.0

    def aligned(self, size: int) -> int:
        """`size` rounded up to the alignment."""
        return size + -size % self.alignment

    def rows_of(self, operation: int) -> int:
        """The rows that an operation steps through: of its output, or of its input where it gathers."""
        done = self.operations[operation]
        return self.tensors[done.reads[0] if done.gathers else done.writes[0]].rows

    @cached_property
    def makers(self) -> dict[int, int]:
        """The operation that writes each tensor."""
        return {tensor: k for k, operation in enumerate(self.operations) for tensor in operation.writes}

    @cached_property
    def readers(self) -> dict[int, tuple[int, ...]]:
        """The operations that read each tensor, in their order."""
        found: dict[int, list[int]] = {}
        for k, operation in enumerate(self.operations):
            for tensor in dict.fromkeys(operation.reads):
                found.setdefault(tensor, []).append(k)
        return {tensor: tuple(readers) for tensor, readers in found.items()}

    @cached_property
    def lives(self) -> dict[int, tuple[int, int, int]]:
        """By storage: the first and the last operation that needs it, and its bytes. -1 is before the first one."""
        found: dict[int, tuple[int, int, int]] = {}

        def needs(tensor: int, operation: int) -> None:
            one = self.tensors[tensor]
            first, last, size = found.get(one.storage, (operation, operation, 0))
            found[one.storage] = min(first, operation), max(last, operation), max(size, one.size)

        for tensor in self.inputs:
            needs(tensor, -1)
        for k, operation in enumerate(self.operations):
            for tensor in (*operation.reads, *operation.writes):
                needs(tensor, k)
        for tensor in self.outputs:
            needs(tensor, len(self.operations))
        return found

    def inner(self, first: int, last: int) -> Iterator[int]:
        """The tensors that only operations first <= k < last need, and that may be kept in part."""
        for each in self._in_part[first:last]:
            for tensor, born, dead in each:
                if first <= born and dead < last:
                    yield tensor

    @cached_property
    def _in_part(self) -> list[list[tuple[int, int, int]]]:
        """By operation, the tensors that it writes which may be kept in part: their storage's first and last need."""
        return [
            [
                (tensor, *self.lives[self.tensors[tensor].storage][:2])
                for tensor in operation.writes
                if not self.tensors[tensor].whole
            ]
            for operation in self.operations
        ]

    def can_share(self, given: int, taken: int) -> bool:
        """Whether both tensors are all of their storages, and nothing is in that of `taken` before it is written."""
        one, other = (self.lives[self.tensors[tensor].storage] for tensor in (given, taken))
        sizes = self.tensors[given].size, self.tensors[taken].size
        return (one[2], other[2]) == sizes and other[0] == self.makers[taken]

    def sharable(self, first: int, last: int) -> int:
        """No less than the bytes that outputs of the operations first <= k < last can share with their inputs."""
        dying = born = 0
        seen = set()
        for operation in self.operations[first:last]:
            for tensor in (*operation.reads, *operation.writes):
                storage = self.tensors[tensor].storage
                start, end, size = self.lives[storage]
                if storage not in seen and start < first and end < last:
                    dying += self.aligned(size)
                elif storage not in seen and first <= start and end >= last:
                    born += self.aligned(size)
                seen.add(storage)
        return min(dying, born)

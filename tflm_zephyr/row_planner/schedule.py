# SPDX-License-Identifier: Apache-2.0
"""A segment's steps on demand, run dry: the rows that each buffer must hold, and how far outputs lie over inputs.

The rows of the segment's last output are asked for one after the other; before an operation computes rows, it asks for
the rows that it reads. A row buffer keeps its last rows: before new ones are written behind them, the rows that no
longer fit are dropped from its beginning, and the others are moved there.

No row is computed twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tflm_zephyr.row_planner.chain import Chain, Window

Step = tuple[int, int]
"""An operation, and how many of its rows it computes (or takes in, where it gathers)."""


@dataclass(frozen=True, order=True)
class Pace:
    """How many rows are asked for at a time: `rows` of the last output, and of others as many as these need.

    No step has more than `most` rows, 0 for any number.
    """

    rows: int = 1
    most: int = 1


@dataclass(frozen=True)
class Schedule:
    """The steps of the operations first <= k < last.

    `capacities` are the rows that each row buffer holds. `distances` tell by (input, output), both stored whole, how
    many bytes the input must start above the output's start at least, so that no row overwrites unread ones; negative
    where it may start below. `spans` are of row buffers: from which step to which one each of their fillings is needed,
    both included; a filling ends where none of its rows is needed any more. `counts` has by operation how many steps
    there are of each number of rows.
    """

    steps: tuple[Step, ...]
    capacities: Mapping[int, int]
    distances: Mapping[tuple[int, int], int]
    spans: Mapping[int, tuple[tuple[int, int], ...]]
    counts: Mapping[int, Mapping[int, int]]

    def cost(self, chain: Chain, first: int = 0, numbers: Mapping[int, int] | None = None) -> float:
        """The cost of the calls and the moves, with the costs of the operations in `chain`.

        `first` is the operation there that is 0 here, `numbers` has the tensors' numbers here.
        """
        operations, tensors = chain.operations, chain.tensors
        total = 0.0
        for k, counts in self.counts.items():
            operation = operations[first + k]
            total += sum(times * operation.cost(count) for count, times in counts.items())
            output = operation.writes[0]
            held = self.capacities.get(output if numbers is None else numbers[output], 0)
            if 0 < held < tensors[output].rows:
                moved = sum(times * max(0, held - count) for count, times in counts.items())
                total += moved * tensors[output].row_bytes * chain.move_cost
        return total


def scheduled(chain: Chain, first: int, last: int, pace: Pace) -> Schedule:
    """The schedule of a segment whose operations all stream, in the chain's order."""
    return _DryRun(chain, first, last, pace).run()


class _DryRun:
    def __init__(self, chain: Chain, first: int, last: int, pace: Pace) -> None:
        self._chain, self._first, self._last, self._pace = chain, first, last, pace
        operations, tensors = chain.operations, chain.tensors
        made = {operations[k].writes[0]: k for k in range(first, last)}
        self._rolling = frozenset(chain.inner(first, last))
        self._mapped = {k for tensor, k in made.items() if tensor not in self._rolling}
        reads = dict.fromkeys(t for k in range(first, last) for t in operations[k].reads if t not in made)
        self._dying = tuple(t for t in reads if chain.lives[tensors[t].storage][1] < last)
        self._makers = made
        self._rows = {k: chain.rows_of(k) for k in range(first, last)}
        self._next = dict.fromkeys(range(first, last), 0)
        self._windows = {k: _windows(chain, k) for k in range(first, last)}
        self._read = {window.tensor for windows in self._windows.values() for window in windows}
        self._wants = {k: self._demands(k) for k in range(first, last)}
        self._limits = self._paces()
        self._steps: list[Step] = []
        self._most: dict[int, int] = dict.fromkeys(self._rolling, 0)
        self._distances: dict[tuple[int, int], int] = {}
        self._spans: dict[int, list[tuple[int, int]]] = {tensor: [] for tensor in self._rolling}
        self._counts: dict[int, dict[int, int]] = {k: {} for k in range(first, last)}

    def _demands(self, k: int) -> list[tuple[int, Window, int, int]]:
        """Rows of other operations that rows of `k` need: the maker, window, rows, and the maker's if it gathers."""
        found = []
        for window in self._windows[k]:
            maker = self._makers.get(window.tensor)
            if maker is not None:
                whole = self._rows[maker] if self._chain.operations[maker].gathers else 0
                found.append((maker, window, self._chain.tensors[window.tensor].rows, whole))
        return found

    def _paces(self) -> dict[int, int]:
        """The most rows of a step of each operation: what a step of its readers needs when all goes evenly."""
        most = self._pace.most or max(self._rows.values())
        found = {self._last - 1: self._pace.rows}
        for k in range(self._last - 1, self._first - 1, -1):
            own = found.setdefault(k, self._pace.rows)
            for maker, window, _, _ in self._wants[k]:
                found[maker] = max(found.get(maker, 1), own * window.stride)
        return {k: max(1, min(most, rows)) for k, rows in found.items()}

    def run(self) -> Schedule:
        """Ask for all rows of the last output, then for what is left of the others that are stored whole."""
        last = self._last - 1
        for row in range(0, self._rows[last], self._pace.rows):
            self._ensure(last, min(row + self._pace.rows, self._rows[last]))
        for k in sorted(self._mapped):
            self._ensure(k, self._rows[k])
        self._look_back()
        spans = {tensor: tuple(reversed(found)) for tensor, found in self._spans.items()}
        return Schedule(tuple(self._steps), dict(self._most), dict(self._distances), spans, self._counts)

    def _ensure(self, k: int, end: int) -> None:
        """Compute the rows of `k` below `end`."""
        done, limit, wants, counts = self._next, self._limits[k], self._wants[k], self._counts[k]
        row = done[k]
        while row < end:
            count = min(limit, end - row)
            for maker, window, rows, whole in wants:
                need = window.end(row + count - 1, rows)
                if need and done[maker] < (whole or need):
                    self._ensure(maker, whole or need)
            self._steps.append((k, count))
            row = done[k] = row + count
            counts[count] = counts.get(count, 0) + 1

    def _look_back(self) -> None:
        """From the last step to the first: which rows are still read, when new ones are written."""
        chain, tensors = self._chain, self._chain.tensors
        unread = {tensor: tensors[tensor].rows for tensor in self._read}
        used: dict[int, int] = {}  # the last step that reads what is in a buffer
        windows = {k: [(w.tensor, w.stride, w.padding) for w in each] for k, each in self._windows.items()}
        ends = {k: (chain.operations[k].writes[0], chain.operations[k].gathers) for k in windows}
        done, most = self._next, self._most
        for step in range(len(self._steps) - 1, -1, -1):
            k, count = self._steps[step]
            end = done[k]
            row = done[k] = end - count
            for tensor, stride, padding in windows[k]:
                first = row * stride - padding
                if first < unread[tensor]:
                    unread[tensor] = first if first > 0 else 0
                if tensor not in used:
                    used[tensor] = step
            output, gathers = ends[k]
            if gathers:
                row, end = 0, int(end == self._rows[k])
            if not end:
                continue
            if output in most:
                still = unread.get(output, row)
                held = end - (still if still < row else row)
                if held > most[output]:
                    most[output] = held
                used.setdefault(output, step)
                if held == end - row:
                    self._spans[output].append((step, used.pop(output)))
            else:
                self._overlap(output, end * tensors[output].row_bytes, unread)

    def _overlap(self, output: int, reach: int, unread: Mapping[int, int]) -> None:
        """The output is written up to byte `reach`."""
        for given in self._dying:
            source, row = self._chain.tensors[given], unread[given]
            above = reach - row * source.row_bytes if row < source.rows else -source.size
            if above > self._distances.get((given, output), -source.size - 1):
                self._distances[given, output] = above


def _windows(chain: Chain, k: int) -> tuple[Window, ...]:
    """The windows of an operation; each row of its input where it gathers."""
    operation = chain.operations[k]
    return (Window(operation.reads[0]),) if operation.gathers else operation.windows

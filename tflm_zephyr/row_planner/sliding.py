# SPDX-License-Identifier: Apache-2.0
"""Rows that stay when the window of a signal moves: clean rows of each tensor, and the rows that a hop computes.

A row is clean when no row that it depends on is padding. When the window moves by `hop` rows of the source, clean row r
of a tensor of which `stride` source rows make one is clean row r + hop / stride of the window before, as each operation
does the same to each of its rows. The other rows depend on where the window begins or ends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tflm_zephyr.row_planner.chain import Chain, Operation


@dataclass(frozen=True)
class Slide:
    """A tensor that slides: of its `rows`, those from `first` to `last` are clean, and a hop moves them by `shift`."""

    rows: int
    first: int
    last: int
    shift: int
    stride: int

    @property
    def new(self) -> int:
        """The first row that a hop adds to the clean ones."""
        return max(self.first, self.last + 1 - self.shift)

    @property
    def below(self) -> int:
        """The rows behind the clean ones."""
        return self.rows - 1 - self.last


@dataclass(frozen=True)
class Sliding:
    """The tensors that slide, and the operations first < k < end that make them; `why` the one at `end` does not."""

    tensors: Mapping[int, Slide]
    end: int
    why: str


def sliding(chain: Chain, source: int, hop: int) -> Sliding:
    """The operations behind the one that supplies tensor `source`, up to the first one that does not slide by `hop`.

    Nothing slides where a window of the source has no more than `hop` rows.
    """
    rows = chain.tensors[source].rows
    if hop >= rows:
        return Sliding({}, 1, f"a hop of {hop} rows leaves none of the window's {rows}")
    found = {source: Slide(rows, 0, rows - 1, hop, 1)}
    first = chain.makers[source] + 1
    for k in range(first, len(chain.operations)):
        slide = _slide(chain, chain.operations[k], found, hop)
        if isinstance(slide, str):
            return Sliding(found, k, slide)
        found[chain.operations[k].writes[0]] = slide
    return Sliding(found, len(chain.operations), "")


def _slide(chain: Chain, operation: Operation, known: Mapping[int, Slide], hop: int) -> Slide | str:
    """The operation's output, or why it does not slide."""
    if not operation.windows or operation.gathers or len(operation.writes) != 1:
        return "does not run row by row"
    rows = chain.tensors[operation.writes[0]].rows
    if any(window.tensor not in known or window.stride == 0 for window in operation.windows):
        return "reads a tensor whole"
    strides = {known[window.tensor].stride * window.stride for window in operation.windows}
    if len(strides) > 1:
        return "reads tensors of different paces"
    (stride,) = strides
    if hop % stride:
        return f"computes a row for every {stride} rows of the input, of which a hop has to be a multiple"
    first, last, shift = 0, rows - 1, hop // stride
    for window in operation.windows:
        given = known[window.tensor]
        first = max(first, -(-(given.first + window.padding) // window.stride))
        last = min(last, (given.last + window.padding + 1 - window.size) // window.stride)
    if last + 1 - first <= shift:
        return "keeps no row from one window to the next"
    return Slide(rows, first, last, shift, stride)


@dataclass(frozen=True)
class Hop:
    """The rows that operations 0 < k < `end` compute when a window moves, and those of each tensor that are kept.

    `whole` tensors are kept from their first row on, for readers of rows that padding touches or of all rows. Of others
    the `ahead` first rows are computed again for such readers.
    """

    chain: Chain
    slides: Mapping[int, Slide]
    end: int
    whole: frozenset[int]

    @cached_property
    def outside(self) -> frozenset[int]:
        """The tensors that operations from `end` on read, or that are outputs."""
        later = {tensor for operation in self.chain.operations[self.end :] for tensor in operation.reads}
        made = {t for operation in self.chain.operations[: self.end] for t in operation.writes}
        return frozenset(made & (later | set(self.chain.outputs)))

    @property
    def operations(self) -> range:
        """The operations that slide."""
        return range(1, self.end)

    def readers(self, tensor: int) -> Iterator[tuple[int, int, int, int]]:
        """The operations that slide and read a tensor, with its window's size, stride and padding."""
        for k in self.chain.readers.get(tensor, ()):
            if k < self.end:
                for window in self.chain.operations[k].windows:
                    if window.tensor == tensor:
                        yield k, window.size, window.stride, window.padding

    @cached_property
    def ahead(self) -> dict[int, int]:
        """By tensor, the first rows that are computed for each window."""
        found: dict[int, int] = {}
        for k in reversed(range(self.end)):
            (tensor,) = self.chain.operations[k].writes
            found[tensor] = self.slides[tensor].first
            if not self.keeps_all(tensor):
                found[tensor] = max(found[tensor], self.reach(tensor, found))
        return found

    def reach(self, tensor: int, ahead: Mapping[int, int]) -> int:
        """The rows from the first one on that readers' rows `ahead` read."""
        reached = 0
        for k, size, stride, padding in self.readers(tensor):
            rows = ahead[self.chain.operations[k].writes[0]]
            if rows:
                reached = max(reached, (rows - 1) * stride - padding + size)
        return min(reached, self.slides[tensor].rows)

    def keeps_all(self, tensor: int) -> bool:
        """Whether the tensor's clean rows are all there."""
        return tensor in self.whole or tensor in self.outside or self.chain.operations[0].writes[0] == tensor

    def base(self, tensor: int) -> int:
        """The first row of a tensor that is kept, or else the first new one."""
        slide = self.slides[tensor]
        if self.keeps_all(tensor) and (tensor in self.outside or self.reach(tensor, self.ahead)):
            return 0
        read = [
            self.slides[self.chain.operations[k].writes[0]].new * stride - padding
            for k, _, stride, padding in self.readers(tensor)
        ]
        return max(0, min((slide.new, *read)))

    def calls(self, k: int) -> tuple[int, int, int]:
        """The rows of an operation's three calls: new clean ones, the first ones, those behind the clean ones."""
        (tensor,) = self.chain.operations[k].writes
        slide = self.slides[tensor]
        return slide.last + 1 - slide.new, self.ahead[tensor], slide.below


def choices(chain: Chain, slides: Mapping[int, Slide], end: int) -> list[Hop]:
    """Hops from the one with the fewest rows to compute to that with the fewest rows kept.

    Each keeps one tensor less whole: that with the most bytes for the fewest rows more.
    """
    tensors: Collection[int] = [chain.operations[k].writes[0] for k in range(1, end)]
    hop = Hop(chain, slides, end, frozenset(tensors))
    found = [_trimmed(hop)]
    while found[-1].whole:
        hop = found[-1]
        fewer = [_trimmed(Hop(chain, slides, end, hop.whole - {tensor})) for tensor in sorted(hop.whole)]
        found.append(min(fewer, key=lambda one: _rank(hop, one)))
    return found


def _trimmed(hop: Hop) -> Hop:
    """The hop without tensors that need not be whole: no reader computes rows that padding touches from them."""
    needed = {t for t in hop.whole - hop.outside if hop.reach(t, hop.ahead) > hop.slides[t].first}
    return Hop(hop.chain, hop.slides, hop.end, frozenset(needed))


def _rank(before: Hop, after: Hop) -> float:
    """Rows of bytes computed more for each byte that is kept less."""
    more = sum(_ahead_bytes(after)) - sum(_ahead_bytes(before))
    return more / max(1, kept_bytes(before) - kept_bytes(after))


def _ahead_bytes(hop: Hop) -> Sequence[int]:
    return [rows * hop.chain.tensors[tensor].row_bytes for tensor, rows in hop.ahead.items()]


def kept_bytes(hop: Hop) -> int:
    """Bytes of the rows that are kept from one window to the next."""
    return sum(
        (slide.rows - hop.base(tensor)) * hop.chain.tensors[tensor].row_bytes
        for tensor, slide in hop.slides.items()
        if tensor in hop.ahead and (hop.base(tensor) < slide.new or tensor in hop.outside)
    )

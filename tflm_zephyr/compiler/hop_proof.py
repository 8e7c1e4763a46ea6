# SPDX-License-Identifier: Apache-2.0
"""The independent proof of a segment whose window moves: after each hop its outputs are those of the whole window.

It follows moves and calls as they are emitted, hop by hop, and keeps for each byte of the arena the value that is
there. A row's value is named by the operator and by the values of all rows that its window reads, with padding where
there is none: equal names are equal bytes, wherever and whenever they were computed. So it needs no notion of clean
rows, nor of what stays. What a window's rows have to be comes from the rows of its input by the same naming.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

from tflm_zephyr.compiler.ir.layers import KernelLayer, SegmentLayer
from tflm_zephyr.compiler.ir.rows import RowForm
from tflm_zephyr.compiler.owned_bytes import NOTHING, OwnedBytes
from tflm_zephyr.compiler.program import CompiledModel
from tflm_zephyr.compiler.row_program import HOP_STATE_BYTES, HopBuffer, HopCall, HopProgram
from tflm_zephyr.errors import PlanError

_PADDING = -1
_STATE = -3
_WINDOWS = 3
"""Windows in a row that are compared, the first ones and those that come when every row has been replaced."""


class _Names:
    """A number for each value."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def of(self, value: Hashable) -> int:
        """The number of a value: equal ones have the same."""
        return self._numbers.setdefault(value, len(self._numbers))


def prove_hops(compiled: CompiledModel, layer: SegmentLayer) -> None:
    """PlanError, naming layer, row and window, unless the segment's outputs are those of each whole window.

    Everything that other layers write is lost between two windows. Checked besides: all bytes lie in the arena, and no
    call writes over rows that it reads, or has its scratch buffer there.
    """
    hop = layer.segment.hop
    assert hop is not None
    proof = _HopProof(compiled, layer, hop)
    rows = hop.buffers[0].rows
    hops = -(-rows // hop.every)
    shown = {*range(_WINDOWS), *range(hops, hops + _WINDOWS)}
    come = 0
    for number in range(2 * hops + _WINDOWS - 1):
        count = hop.first_rows if number == 0 else hop.every
        proof.push(number, come, count)
        come += count
        window = number + 1 - hops
        if window >= 0:
            proof.invoke()
            if window in shown:
                proof.check(window)
            proof.lose()


class _HopProof:
    """The arena as it is from hop to hop."""

    def __init__(self, compiled: CompiledModel, layer: SegmentLayer, hop: HopProgram) -> None:
        self._compiled, self._layer, self._hop = compiled, layer, hop
        self._memory = OwnedBytes(compiled.planned_bytes)
        self._names = _Names()
        self._forms = list(layer.segment.forms.values())
        places = [compiled.spot(layer, buffer.tensor, buffer.spot) for buffer in hop.buffers]
        self._last = dict(enumerate(places))
        self._ahead = {
            k: places[k] if buffer.ahead == buffer.spot and buffer.base == 0 else self._spot(buffer)
            for k, buffer in enumerate(hop.buffers)
        }
        self._lost = tuple(_others(compiled, layer))
        self._check_state()

    def _spot(self, buffer: HopBuffer) -> int:
        return -1 if buffer.ahead is None else self._compiled.spot(self._layer, buffer.tensor, buffer.ahead)

    def _check_state(self) -> None:
        compiled, hop = self._compiled, self._hop
        first = compiled.kept + hop.state
        if first % 4 or hop.state + HOP_STATE_BYTES > hop.kept_bytes:
            raise self._error("keeps its state not aligned or outside of its memory")
        if any(one < first + HOP_STATE_BYTES and first < end for one, end in self._lost):
            raise self._error("keeps its state where other layers write")
        self._memory.give(first, first + HOP_STATE_BYTES, _STATE)

    def push(self, number: int, come: int, count: int) -> None:
        """A hop of `count` rows, behind `come` ones; the first hop moves nothing."""
        hop, memory = self._hop, self._memory
        for move in hop.moves if number else ():
            first = self._last[move.buffer] + move.to
            self._move(first, first + move.by, move.size)
        source = hop.buffers[0]
        end = self._last[0] + (source.rows - source.base) * source.row_bytes
        for k in range(count):
            first = end - (count - k) * source.row_bytes
            self._give(first, first + source.row_bytes, self._names.of(("input", come + k)))
        nexts = {k: buffer.new for k, buffer in enumerate(hop.buffers)}
        for call in hop.pushed:
            self._call(call, nexts)
        state = self._compiled.kept + hop.state
        if memory.other(state, state + HOP_STATE_BYTES, _STATE) is not None:
            raise self._error("overwrites its state")

    def invoke(self) -> None:
        """The calls of Invoke()."""
        nexts = {k: buffer.end for k, buffer in enumerate(self._hop.buffers)}
        first = dict.fromkeys(nexts, 0)
        for call in self._hop.invoked:
            self._call(call, first if call.ahead else nexts)

    def check(self, window: int) -> None:
        """PlanError unless the segment's outputs are those of the window that begins `window` hops on."""
        wanted = self._window(window)
        for tensor in self._layer.segment.outputs:
            at, buffer = self._compiled.offsets[tensor], self._hop.buffers[self._hop.place(tensor)]
            if buffer.spot is not None or buffer.base:
                raise self._error(f"keeps its output {tensor} elsewhere")
            for row, name in enumerate(wanted[tensor]):
                if self._value(at + row * buffer.row_bytes, buffer.row_bytes) != name:
                    label = self._compiled.model.main.tensors[tensor].label
                    raise self._error(f"leaves another row {row} in {label} than that of window {window}")

    def lose(self) -> None:
        """Bytes that other layers, or the user, may write hold nothing any more."""
        for first, end in self._lost:
            self._memory.give(first, end, NOTHING)

    def _window(self, window: int) -> Mapping[int, list[int]]:
        """All rows of a whole window, by tensor."""
        hop, names = self._hop, self._names
        source = hop.buffers[0]
        begin = window * hop.every
        found = {source.tensor: [names.of(("input", begin + row)) for row in range(source.rows)]}
        for number, form in enumerate(self._forms):
            found[form.output.tensor] = [
                names.of((number, tuple(_taps(form, row, found)))) for row in range(form.output.rows)
            ]
        return found

    def _call(self, call: HopCall, nexts: dict[int, int]) -> None:
        """A call, by the addresses that the code computes."""
        form, hop = self._forms[call.member], self._hop
        member = self._layer.members[call.member]
        target = hop.place(form.output.tensor)
        first, nexts[target] = nexts[target], nexts[target] + call.count
        if not 0 <= first < nexts[target] <= form.output.rows:
            raise self._error(f"computes rows {first} to {nexts[target] - 1} of layer {member.operator}")
        taken = self._rows(target, range(first, first + call.count), call.ahead)
        read: list[tuple[int, int]] = []
        values: list[list[int]] = [[] for _ in range(call.count)]
        for given in form.inputs:
            place, there = hop.place(given.tensor), {}
            window = given.window
            for row in range(window.first(first), window.end(first + call.count - 1, given.rows)):
                ((at, end),) = self._rows(place, range(row, row + 1), call.ahead)
                read.append((at, end))
                there[row] = self._value(at, end - at)
            for k in range(call.count):
                begin = (first + k) * window.stride - window.padding
                values[k] += [there.get(row, _PADDING) for row in range(begin, begin + window.size)]
        self._check_apart(member, read, taken)
        for (at, end), taps in zip(taken, values, strict=True):
            self._give(at, end, self._names.of((call.member, tuple(taps))))

    def _check_apart(self, member: KernelLayer, read: list[tuple[int, int]], taken: list[tuple[int, int]]) -> None:
        scratch = self._compiled.scratch.get(self._layer.operator, 0) + self._layer.segment.scratch
        own = (scratch, scratch + member.scratch_bytes)
        if own[1] > scratch - self._layer.segment.scratch + self._layer.scratch_bytes:
            raise self._error(f"has the scratch buffer of layer {member.operator} outside of its memory")
        for first, end in taken:
            if any(one < end and first < other for one, other in (*read, own)):
                raise self._error(f"writes rows over what the same call of layer {member.operator} reads")
        if any(one < own[1] and own[0] < other for one, other in read):
            raise self._error(f"has the scratch buffer of layer {member.operator} over a row that it reads")
        self._memory.give(*own, NOTHING)

    def _rows(self, place: int, rows: range, ahead: bool) -> list[tuple[int, int]]:
        """The bytes of rows, where the code takes them to be."""
        buffer = self._hop.buffers[place]
        base, at = (0, self._ahead[place]) if ahead else (buffer.base, self._last[place])
        found = []
        for row in rows:
            first = at + (row - base) * buffer.row_bytes
            if at < 0 or first < at or first + buffer.row_bytes > self._compiled.planned_bytes:
                raise self._error(f"has row {row} of tensor {buffer.tensor} outside of its buffer")
            found.append((first, first + buffer.row_bytes))
        return found

    def _value(self, first: int, size: int) -> int:
        """The value of some bytes; NOTHING where they are of several."""
        owner = self._memory.owner(first)
        return owner if self._memory.other(first, first + size, owner) is None else NOTHING

    def _give(self, first: int, end: int, value: int) -> None:
        if first < 0 or end > self._compiled.planned_bytes:
            raise self._error("writes rows outside of the arena")
        self._memory.give(first, end, value)

    def _move(self, to: int, at: int, size: int) -> None:
        """Bytes with their values; from the first to the last, as the code moves them."""
        if to > at or at + size > self._compiled.planned_bytes:
            raise self._error("moves rows up, or from outside of the arena")
        for first, end, owner in list(self._memory.pieces(at, at + size)):
            self._memory.give(first - at + to, end - at + to, owner)

    def _error(self, what: str) -> PlanError:
        who = f"layer {self._layer.operator} ({self._layer.key})"
        return PlanError(f"{who} {what}", where=self._compiled.model.where, hint="Report it with the model")


def _taps(form: RowForm, row: int, known: Mapping[int, list[int]]) -> Iterator[int]:
    """The values that a row's window reads, of all inputs."""
    for given in form.inputs:
        window, rows = given.window, known[given.tensor]
        begin = row * window.stride - window.padding
        for one in range(begin, begin + window.size):
            yield rows[one] if 0 <= one < len(rows) else _PADDING


def _others(compiled: CompiledModel, segment: SegmentLayer) -> Iterator[tuple[int, int]]:
    """The bytes that other layers or the user write: their outputs, scratch buffers and variables, and inputs."""
    main = compiled.model.main
    written = {access.tensor for layer in compiled.layers for call in layer.calls for access in call.writes}
    stream = segment.segment.stream
    written |= {tensor for place, tensor in enumerate(main.inputs) if stream is None or place != stream.input}
    written |= {tensor.index for tensor in main.tensors if tensor.is_variable}
    for tensor in sorted(written & compiled.offsets.keys()):
        first = compiled.offsets[tensor]
        yield first, first + main.tensors[tensor].size_bytes
    for layer in compiled.layers:
        if layer is not segment and layer.operator in compiled.scratch:
            first = compiled.scratch[layer.operator]
            yield first, first + layer.scratch_bytes
    first = compiled.scratch.get(segment.operator, 0)
    yield first, first + segment.scratch_bytes

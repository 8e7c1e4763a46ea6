# SPDX-License-Identifier: Apache-2.0
"""Layers -> the same with a segment at the beginning that computes a window's new rows only, as the window moves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tflm_zephyr.compiler.ir.layers import KernelLayer, Layer, SegmentLayer
from tflm_zephyr.compiler.layer_cycles import LayerCycles
from tflm_zephyr.compiler.memory_plan import MemoryPlan, plan_memory
from tflm_zephyr.compiler.row_plan import chain_of, with_used_parameters, without_code
from tflm_zephyr.compiler.row_program import (
    HOP_STATE_BYTES,
    HopBuffer,
    HopCall,
    HopMove,
    HopProgram,
    RowSegment,
    Spot,
    StreamedInput,
)
from tflm_zephyr.compiler.row_stream import Stream
from tflm_zephyr.errors import ModelError
from tflm_zephyr.kernels import KernelLibrary
from tflm_zephyr.memory_planner import Buffer, Problem, align_up, pack
from tflm_zephyr.model import Model
from tflm_zephyr.row_planner import Chain, Hop, Sliding, choices, sliding
from tflm_zephyr.tflm import ALIGNMENT

T = TypeVar("T")
_MOST_PLANNED = 12
"""Ways that are packed exactly."""


@dataclass(frozen=True)
class HopWay:
    """A way to run a model whose window moves: its memory, and the estimated cycles of a hop."""

    memory: MemoryPlan
    cycles: float


@dataclass(frozen=True)
class HopPlanning:
    """The ways to run `model` with these layers, whose window moves by `every` rows of the `stream`."""

    model: Model
    layers: tuple[Layer, ...]
    libraries: Sequence[KernelLibrary]
    stream: Stream
    costs: LayerCycles
    every: int

    def ways(self) -> tuple[HopWay, ...]:
        """Ways none of which is both no smaller and no slower than another, the smallest first.

        ModelError, naming the layer and the hops that are possible, where the first layer does not slide.
        """
        chain = chain_of(self.model, self.layers, self.libraries, self.stream, self.costs)
        found = sliding(chain, self.stream.tensor, self.every)
        if found.end < 2:
            raise self._refusal(chain, found)
        rough = []
        for end in range(2, found.end + 1):
            for hop in choices(chain, found.tensors, end):
                segment = _Segment(self, hop)
                rough.append((_bytes(hop, segment), self.cycles(hop), segment))
        best = _front(rough)
        if len(best) > _MOST_PLANNED:
            best = [best[k * (len(best) - 1) // (_MOST_PLANNED - 1)] for k in range(_MOST_PLANNED)]
        planned = []
        for _, cycles, segment in best:
            memory = plan_memory(self.model, segment.layers(cycles), self.libraries, slower=0.0)
            planned.append((memory.plan.size_bytes, cycles, HopWay(memory, cycles)))
        return tuple(way for _, _, way in _front(planned))

    def layer(self, k: int) -> KernelLayer:
        """The layer of the chain's operation `k`."""
        found = self.layers[self.stream.skipped + k - 1]
        assert isinstance(found, KernelLayer)
        return found

    def cycles(self, hop: Hop) -> float:
        """Estimated cycles of a hop and of all layers behind it."""
        total = sum(layer.cycles for layer in self.layers[self.stream.skipped + hop.end - 1 :])
        for k in hop.operations:
            total += sum(self.cycles_of_rows(hop.chain, k, count) for count in hop.calls(k))
        return total + sum(size for _, _, size in _moves(hop)) * hop.chain.move_cost

    def cycles_of_rows(self, chain: Chain, k: int, count: int) -> float:
        """Estimated cycles of a call for `count` rows of the chain's operation `k`; 0 for none."""
        layer = self.layer(k)
        assert layer.rows is not None
        return chain.operations[k].cost(count) + count * layer.cycles / layer.rows.steps if count else 0.0

    def _refusal(self, chain: Chain, found: Sliding) -> ModelError:
        """Why no layer slides, with the hops by which the first one does."""
        source, keeps = self.stream.tensor, "no layer keeps rows from one window to the next"
        rows = chain.tensors[source].rows
        layer = self.layer(1)
        why = f"layer {layer.operator} ({layer.key}) {found.why}" if self.every < rows else found.why
        able = [hop for hop in range(1, rows) if sliding(chain, source, hop).end > 1]
        hint = "Leave out --hop"
        if able:
            hint = (
                f"Take a multiple of {able[0]} rows, {able[-1]} at most" if able[0] > 1 else f"Take at most {able[-1]}"
            )
        return ModelError(f"{keeps}, --hop {self.every}: {why}", where=self.model.where, hint=hint)


def _front(found: Sequence[tuple[int, float, T]]) -> list[tuple[int, float, T]]:
    """The ones that none beats in both numbers, sorted by the first one."""
    best: list[tuple[int, float, T]] = []
    for one in sorted(found, key=lambda each: each[:2]):
        if not best or one[1] < best[-1][1]:
            best.append(one)
    return best


def _moves(hop: Hop) -> Iterator[tuple[int, int, int]]:
    """Each tensor with rows that stay: the row that the first of them becomes, and their bytes."""
    for tensor in _tensors(hop):
        slide, base = hop.slides[tensor], hop.base(tensor)
        first = max(base, slide.first)
        if first < slide.new:
            yield tensor, first, (slide.new - first) * hop.chain.tensors[tensor].row_bytes


def _tensors(hop: Hop) -> list[int]:
    """The source, and what the operations write, in their order."""
    return [hop.chain.operations[k].writes[0] for k in range(hop.end)]


def _bytes(hop: Hop, segment: _Segment) -> int:
    """About the bytes of all RAM: kept rows, and the most that is alive besides."""
    chain = hop.chain
    own = {chain.tensors[tensor].storage for tensor in hop.outside}
    kept = sum(chain.aligned(chain.lives[storage][2]) for storage in own) + segment.kept_bytes
    most = segment.scratch_bytes
    for k in range(hop.end, len(chain.operations)):
        alive = (
            size for storage, (born, dead, size) in chain.lives.items() if born <= k <= dead and storage not in own
        )
        most = max(most, sum(map(chain.aligned, alive)) + chain.aligned(chain.operations[k].scratch))
    return kept + most


class _Segment:
    """The segment of a hop: its buffers in memory that is kept and in scratch memory."""

    def __init__(self, planning: HopPlanning, hop: Hop) -> None:
        self._planning, self._hop = planning, hop
        self._kept: dict[int, Spot] = {}
        self._passing: dict[tuple[int, bool], Spot] = {}
        at = HOP_STATE_BYTES
        staying = {tensor for tensor, _, _ in _moves(hop)} | {planning.stream.tensor}
        for tensor in _tensors(hop):
            if tensor in staying and tensor not in hop.outside:
                self._kept[tensor] = Spot(at, True)
                at = align_up(at + self._last_bytes(tensor), ALIGNMENT)
        self.kept_bytes = at
        self._scratch = self._pack()
        scratches = [planning.layer(k).scratch_bytes for k in hop.operations]
        self.scratch_bytes = self._scratch + max(scratches)

    def _last_bytes(self, tensor: int) -> int:
        hop = self._hop
        return (hop.slides[tensor].rows - hop.base(tensor)) * hop.chain.tensors[tensor].row_bytes

    def _is_whole(self, tensor: int) -> bool:
        return self._hop.base(tensor) == 0 and (tensor in self._kept or tensor in self._hop.outside)

    def _pack(self) -> int:
        """Place what is not kept, while it is read: as rows come operation k has step k, afterwards two of its own."""
        hop, behind = self._hop, self._hop.end
        buffers, keys = [], []
        for k in range(hop.end):
            tensor = hop.chain.operations[k].writes[0]
            readers = [(reader, hop.calls(reader)) for reader, _, _, _ in hop.readers(tensor)]
            if tensor not in self._kept and tensor not in hop.outside:
                last = max([k, *(reader for reader, _ in readers)])
                below = [behind + 2 * reader + 1 for reader, (_, _, rows) in readers if rows]
                own = [behind + 2 * k + 1] * (hop.slides[tensor].below > 0)
                upper = max([last, *below, *own]) + 1
                buffers.append(Buffer(f"rows of {tensor}", k, upper, self._last_bytes(tensor)))
                keys.append((tensor, False))
            if hop.ahead[tensor] and not self._is_whole(tensor):
                first = behind + 2 * k
                upper = max([first, *(behind + 2 * reader for reader, (_, rows, _) in readers if rows)]) + 1
                size = hop.ahead[tensor] * hop.chain.tensors[tensor].row_bytes
                buffers.append(Buffer(f"first rows of {tensor}", first, upper, size))
                keys.append((tensor, True))
        if not buffers:
            return 0
        plan = pack(Problem(tuple(buffers), ALIGNMENT, self._planning.model.where), work=100_000)
        self._passing = {key: Spot(at, False) for key, at in zip(keys, plan.offsets, strict=True)}
        return align_up(plan.size_bytes, ALIGNMENT)

    def _buffers(self) -> Iterator[HopBuffer]:
        hop = self._hop
        for tensor in _tensors(hop):
            slide, row_bytes = hop.slides[tensor], hop.chain.tensors[tensor].row_bytes
            spot = self._kept.get(tensor, self._passing.get((tensor, False)))
            ahead = spot if self._is_whole(tensor) else self._passing.get((tensor, True))
            yield HopBuffer(tensor, row_bytes, slide.rows, hop.base(tensor), slide.new, slide.last + 1, spot, ahead)

    def layers(self, cycles: float) -> tuple[Layer, ...]:
        """All layers, with the segment in the place of the last one that slides."""
        planning, hop, stream = self._planning, self._hop, self._planning.stream
        members = tuple(planning.layer(k) for k in hop.operations)
        buffers = tuple(self._buffers())
        numbers = {buffer.tensor: k for k, buffer in enumerate(buffers)}
        rows = {buffer.tensor: (buffer.base, buffer.row_bytes) for buffer in buffers}
        moves = tuple(
            HopMove(
                numbers[tensor], (first - rows[tensor][0]) * rows[tensor][1],
                hop.slides[tensor].shift * rows[tensor][1], size,
            )
            for tensor, first, size in _moves(hop)
        )  # fmt: skip
        pushed = tuple(HopCall(k - 1, hop.calls(k)[0]) for k in hop.operations)
        invoked = tuple(
            HopCall(k - 1, count, ahead)
            for k in hop.operations
            for count, ahead in zip(hop.calls(k)[1:], (True, False), strict=True)
            if count
        )
        program = HopProgram(planning.every, buffers, moves, pushed, invoked, self.kept_bytes, 0, cycles)
        source = buffers[0]
        segment = RowSegment(
            forms={layer.operator: layer.rows for layer in members if layer.rows is not None},
            buffers=(),
            loops=(),
            inputs=(),
            outputs=tuple(sorted(hop.outside)),
            sums={},
            scratch=self._scratch,
            distances={},
            stream=StreamedInput(
                stream.input, stream.tensor, source.rows, source.row_bytes, source.rows, 0, len(buffers), 4
            ),
            hop=program,
        )
        found = list(planning.layers)
        last = stream.skipped + hop.end - 2
        for k in range(last):
            found[k] = without_code(found[k])
        found[last] = SegmentLayer(
            operator=members[-1].operator,
            key=members[-1].key,
            title=members[-1].title,
            scratch_bytes=self.scratch_bytes,
            cycles=members[-1].cycles,
            not_fast=members[-1].not_fast,
            segment=segment,
            members=tuple(with_used_parameters(layer) for layer in members),
        )
        return tuple(found)

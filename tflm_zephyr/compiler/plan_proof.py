# SPDX-License-Identifier: Apache-2.0
"""The independent proof of a compiled model's memory: every byte that a call reads holds what was written for it.

It walks through the calls as they are emitted and keeps, for each byte of the arena, the tensor whose value is there.
It uses neither lifespans nor in-place distances of the plan. Where a call writes over its own input, the kernels'
description of their last reads decides (kernels.why_unsafe), which shares no code with the planner's distances.
"""

from __future__ import annotations

from collections.abc import Sequence

from tflm_zephyr.compiler.hop_proof import prove_hops
from tflm_zephyr.compiler.ir.calls import SCRATCH, Access, KernelCall, View
from tflm_zephyr.compiler.ir.layers import Branch, ControlLayer, Copy, Layer, SegmentLayer
from tflm_zephyr.compiler.owned_bytes import NOTHING, OwnedBytes
from tflm_zephyr.compiler.program import CompiledModel
from tflm_zephyr.compiler.row_program import StreamedInput
from tflm_zephyr.compiler.row_proof import RowAccess, RowStep, SegmentError, steps_of
from tflm_zephyr.errors import PlanError
from tflm_zephyr.kernels import KernelLibrary, why_unsafe
from tflm_zephyr.model import Subgraph

_STATE = -3


def prove(compiled: CompiledModel, libraries: Sequence[KernelLibrary]) -> None:
    """PlanError, naming layer, tensor and byte, unless every read finds its tensor's value.

    Checked besides: all bytes lie within the arena and below the state of TFLM's own kernels, outputs and variables
    hold their values at the end, and no scratch buffer shares a byte with what its layer reads or writes.
    """
    subgraph = compiled.model.main
    memory = OwnedBytes(compiled.planned_bytes)
    proof = _Proof(compiled, subgraph, memory, libraries)
    variables = tuple(tensor.index for tensor in subgraph.tensors if tensor.is_variable)
    for tensor in (*subgraph.inputs, *variables):
        if tensor in compiled.offsets:
            first, end = proof.span(Access(tensor, 0, subgraph.tensors[tensor].size_bytes), None)
            memory.give(first, end, proof.value_of(tensor))
    for layer in compiled.main_layers:
        proof.layer(layer)
    for tensor in (*subgraph.outputs, *variables):
        if tensor in compiled.offsets:
            proof.read(Access(tensor, 0, subgraph.tensors[tensor].size_bytes), None)


class _Proof:
    def __init__(
        self, compiled: CompiledModel, subgraph: Subgraph, memory: OwnedBytes, libraries: Sequence[KernelLibrary]
    ) -> None:
        self.compiled, self.subgraph, self.memory, self._libraries = compiled, subgraph, memory, libraries
        self._views: dict[int, int] = {}
        views = [view for layer in compiled.layers for view in layer.views]
        self._viewed = {tensor for view in views for tensor in (view.part, view.whole)}

    def value_of(self, tensor: int) -> int:
        """The tensor that owns the bytes of `tensor`: itself, or what it is a view of."""
        while tensor in self._views:
            tensor = self._views[tensor]
        return tensor

    def layer(self, layer: Layer) -> None:
        """The layer's views and calls."""
        if isinstance(layer, ControlLayer):
            self._control(layer)
            return
        if layer.key == "VAR_HANDLE":
            return
        if isinstance(layer, SegmentLayer) and layer.segment.hop is not None:
            prove_hops(self.compiled, layer)
            for tensor in layer.segment.outputs:
                span = self.span(Access(tensor, 0, self.subgraph.tensors[tensor].size_bytes), layer)
                self.memory.give(*span, tensor)
        elif isinstance(layer, SegmentLayer):
            _SegmentProof(self, layer).prove()
        for view in layer.views:
            self._view(layer, view)
        for call in layer.calls:
            for reads, writes in call.steps():
                self._step(layer, call, reads, writes)

    def _view(self, layer: Layer, view: View) -> None:
        """The part's bytes are the whole's: from now on where it is taken apart, or handed to it where it is joined."""
        part, whole = self.label(view.part), self.label(view.whole)
        one, other = (self.compiled.offsets[tensor] for tensor in (view.part, view.whole))
        size = self.subgraph.tensors[view.part].size_bytes
        if one != other + view.first:
            raise self.error(layer, f"has no code, but {part} is not at byte {view.first} of {whole}")
        inner = Access(view.whole, view.first, view.first + size)
        if view.part in self.subgraph.operators[layer.operator].outputs:
            self.read(inner, layer)
            self._views[view.part] = self.value_of(view.whole)
            return
        self.read(Access(view.part, 0, size), layer)
        owner = self.value_of(view.part)
        if self.subgraph.tensors[owner].size_bytes != size or owner == self.value_of(view.whole):
            raise self.error(layer, f"joins {part}, which is a part of {self.label(owner)}")
        self.memory.give(*self.span(inner, layer), view.whole)
        self._views[owner] = view.whole

    def _control(self, layer: ControlLayer) -> None:
        """Every way that the run can take; afterwards a byte holds what it holds on all of them."""
        control = layer.control
        self._copy(layer, control.start)
        condition = Access(control.condition, 0, 1)
        if control.kind == "WHILE":
            test, body = control.branches
            self._branch(layer, test)
            for _ in range(2 + len(self.compiled.layers)):
                self.read(condition, layer)
                before = self.memory.copy()
                self._branch(layer, body)
                self._branch(layer, test)
                if not self.memory.merge(before):
                    break
            return
        self.read(condition, layer)
        before = self.memory.copy()
        ends = [before.copy()] if control.kind == "CALL_ONCE" else []
        for branch in control.branches:
            self.memory = before.copy()
            self._branch(layer, branch)
            ends.append(self.memory)
        self.memory = ends[0]
        for end in ends[1:]:
            self.memory.merge(end)

    def _branch(self, layer: Layer, branch: Branch) -> None:
        self._copy(layer, branch.before)
        for inner in self.compiled.body(branch.subgraph):
            self.layer(inner)
        self._copy(layer, branch.after)

    def _copy(self, layer: Layer, copies: Sequence[Copy]) -> None:
        for copy in copies:
            write = Access(copy.target, 0, copy.size)
            if not copy.constant:
                read = Access(copy.source, 0, copy.size)
                self.read(read, layer)
                self._apart(layer, read, write)
            self.memory.give(*self.span(write, layer), copy.target)

    def _apart(self, layer: Layer, read: Access, write: Access) -> None:
        given, taken = self.span(read, layer), self.span(write, layer)
        if given[0] < taken[1] and taken[0] < given[1]:
            raise self.error(layer, f"copies {self.label(read.tensor)} over itself")

    def _step(self, layer: Layer, call: KernelCall, reads: Sequence[Access], writes: Sequence[Access]) -> None:
        for access in reads:
            self.read(access, layer)
        self._check_scratch(layer, (*reads, *writes))
        for write in writes:
            for access in reads:
                self._check_pair(layer, call, access, write)
        for write in writes:
            first, end = self.span(write, layer)
            self.memory.give(first, end, write.tensor)
        scratch = self.scratch(layer)
        if scratch is not None:
            self.memory.give(*scratch, NOTHING)

    def _check_pair(self, layer: Layer, call: KernelCall, read: Access, write: Access) -> None:
        if read.tensor == write.tensor and self.subgraph.tensors[read.tensor].is_variable:
            return
        given, taken = self.span(read, layer), self.span(write, layer)
        if given[1] <= taken[0] or taken[1] <= given[0]:
            return
        labels = f"{self.label(write.tensor)} over {self.label(read.tensor)}"
        if call.copies or call.runs is not None:
            raise self.error(layer, f"writes {labels}, which the same call of {call.kernel.qualified_name}() reads")
        operator = self.subgraph.operators[layer.operator]
        distance = self.compiled.offsets[read.tensor] - self.compiled.offsets[write.tensor]
        for library in self._libraries:
            why = why_unsafe(library, self.compiled.model, self.subgraph, operator, read.tensor, write.tensor, distance)
            if why is not None:
                raise self.error(layer, f"writes {labels}: {why}")

    def _check_scratch(self, layer: Layer, accesses: Sequence[Access]) -> None:
        scratch = self.scratch(layer)
        if scratch is None:
            return
        for access in accesses:
            first, end = self.span(access, layer)
            if first < scratch[1] and scratch[0] < end:
                raise self.error(layer, f"has its scratch buffer over {self.label(access.tensor)}")

    def scratch(self, layer: Layer) -> tuple[int, int] | None:
        """The layer's scratch buffer as bytes of the arena; None where it has none."""
        if not layer.scratch_bytes:
            return None
        first = self.compiled.scratch[layer.operator]
        if first % 16 or first < 0 or first + layer.scratch_bytes > self.compiled.planned_bytes:
            raise self.error(layer, f"has its scratch buffer at byte {first}, not aligned or outside the arena")
        return first, first + layer.scratch_bytes

    def span(self, access: Access, layer: Layer | None) -> tuple[int, int]:
        """The access as bytes of the arena."""
        assert access.tensor != SCRATCH
        offset = self.compiled.offsets[access.tensor]
        first, end = offset + access.first, offset + access.end
        size = self.subgraph.tensors[access.tensor].size_bytes
        if (
            offset % self._alignment(access.tensor)
            or first < 0
            or end > self.compiled.planned_bytes
            or access.end > size
        ):
            raise self.error(layer, f"uses {self.label(access.tensor)} not aligned or outside of its memory")
        return first, end

    def _alignment(self, tensor: int) -> int:
        """Bytes: that of TFLM's arena, and that of a word or an element where a tensor lies in another one."""
        return max(4, self.subgraph.tensors[tensor].type.size_bytes) if tensor in self._viewed else 16

    def read(self, access: Access, layer: Layer | None) -> None:
        """PlanError unless the bytes hold the tensor's value."""
        first, end = self.span(access, layer)
        found = self.memory.other(first, end, self.value_of(access.tensor))
        if found is not None:
            byte, owner = found
            holds = "nothing yet" if owner == NOTHING else "a row" if owner < 0 else self.label(owner)
            what = f"reads {self.label(access.tensor)} at byte {byte} of the arena, which holds {holds}"
            raise self.error(layer, what)

    def label(self, tensor: int) -> str:
        """The tensor for a message."""
        return self.subgraph.tensors[tensor].label

    def error(self, layer: Layer | None, what: str) -> PlanError:
        """The error that names the layer, None for the end of the run."""
        who = "the end of the run" if layer is None else f"layer {layer.operator} ({layer.key})"
        return PlanError(f"{who} {what}", where=self.compiled.model.where, hint="Report it with the model")


class _SegmentProof:
    """Every call of a segment, row by row; its outputs are whole at the end."""

    def __init__(self, proof: _Proof, layer: SegmentLayer) -> None:
        self._proof, self._layer = proof, layer

    def prove(self) -> None:
        """PlanError, naming the layer and the row, unless every row that is read is there."""
        proof, layer = self._proof, self._layer
        segment = layer.segment
        scratch = proof.scratch(layer)
        if segment.stream is not None:
            self._begin_stream(segment.stream)
        try:
            steps = steps_of(layer, scratch[0] if scratch else 0, proof.compiled.offsets.__getitem__)
            for step in steps:
                self._row_step(step)
                self._check_stream()
        except SegmentError as error:
            raise proof.error(layer, str(error)) from None
        if segment.stream is not None:
            # The others may be written at any time before the last row.
            for tensor in set(proof.subgraph.inputs) & proof.compiled.offsets.keys():
                proof.read(Access(tensor, 0, proof.subgraph.tensors[tensor].size_bytes), layer)
        for tensor in segment.outputs:
            size = proof.subgraph.tensors[tensor].size_bytes
            first, end = proof.span(Access(tensor, 0, size), layer)
            (buffer,) = [buffer for buffer in segment.buffers if buffer.tensor == tensor]
            for row in range(size // buffer.row_bytes):
                at = first + row * buffer.row_bytes
                self._read_row(RowAccess(tensor, row, at, at + buffer.row_bytes))
            proof.memory.give(first, end, tensor)

    def _begin_stream(self, stream: StreamedInput) -> None:
        """The segment's state, which it has to find again at each push of rows. It is as the first layer that runs."""
        proof, layer = self._proof, self._layer
        if any(other.has_code for other in proof.compiled.main_layers[: proof.compiled.main_layers.index(layer)]):
            raise proof.error(layer, "takes rows of the input, and is not the first one that runs")
        first = proof.compiled.scratch[layer.operator] + stream.state
        if first % 4 or first + stream.state_bytes > proof.compiled.scratch[layer.operator] + layer.scratch_bytes:
            raise proof.error(layer, "keeps its state not aligned or outside of its memory")
        proof.memory.give(first, first + stream.state_bytes, _STATE)

    def _check_stream(self) -> None:
        proof, layer = self._proof, self._layer
        stream = layer.segment.stream
        if stream is not None:
            first = proof.compiled.scratch[layer.operator] + stream.state
            if proof.memory.other(first, first + stream.state_bytes, _STATE) is not None:
                raise proof.error(layer, "overwrites its state between rows of the input")

    def _row_step(self, step: RowStep) -> None:
        proof = self._proof
        # Rows that nobody reads any more are moved as well; other buffers may have taken their bytes.
        there = [self._holds(old) for old, _ in step.moves]
        for (_, new), moved in zip(step.moves, there, strict=True):
            if moved:
                self._give_row(new)
            else:
                proof.memory.give(new.first, new.end, NOTHING)
        for access in step.reads:
            self._read_row(access)
        for write in step.writes:
            touched = [(read.first, read.end) for read in step.reads if read.tensor != write.tensor]
            if any(first < write.end and write.first < end for first, end in (*touched, step.scratch)):
                raise proof.error(self._layer, f"writes rows over what the same call of layer {step.operator} reads")
        if any(read.first < step.scratch[1] and step.scratch[0] < read.end for read in step.reads):
            raise proof.error(self._layer, f"has the scratch buffer of layer {step.operator} over a row that it reads")
        proof.memory.give(*step.scratch, NOTHING)
        for write in step.writes:
            self._give_row(write)

    def _row_owner(self, access: RowAccess) -> int:
        """The owner of a row: the tensor where it was there before the segment, else a number of its own."""
        proof, layer = self._proof, self._layer
        if access.tensor in layer.segment.inputs:
            return proof.value_of(access.tensor)
        return -(4 + (access.row + 1) * 2 * len(proof.subgraph.tensors) + access.tensor + len(proof.subgraph.tensors))

    def _holds(self, access: RowAccess) -> bool:
        proof = self._proof
        return proof.memory.other(access.first, access.end, self._row_owner(access)) is None

    def _read_row(self, access: RowAccess) -> None:
        proof = self._proof
        found = proof.memory.other(access.first, access.end, self._row_owner(access))
        if found is not None:
            label = proof.label(access.tensor) if access.tensor >= 0 else "sums"
            raise proof.error(
                self._layer, f"reads row {access.row} of {label} at byte {found[0]}, which holds something else"
            )

    def _give_row(self, access: RowAccess) -> None:
        proof = self._proof
        if access.first < 0 or access.end > proof.compiled.planned_bytes:
            raise proof.error(self._layer, f"writes row {access.row} outside of the arena")
        proof.memory.give(access.first, access.end, self._row_owner(access))

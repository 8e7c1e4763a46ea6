# SPDX-License-Identifier: Apache-2.0
"""What TFLM's planner is asked to place, in its order, with the lifespans it goes by and those that must hold.

TFLM takes offsets for tensors only. Scratch buffers, and tensors without an offset, are placed by its greedy
planner around the rest (tensorflow/lite/micro/micro_allocator.cc and micro_allocation_info.cc, revision
8d404de7).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from tflm_zephyr.arena.in_place_check import OverlapSafety
from tflm_zephyr.arena.in_place_pairs import offered_overlaps
from tflm_zephyr.errors import PlanError
from tflm_zephyr.kernels import KernelLibrary
from tflm_zephyr.memory_planner import Buffer, InPlacePair, Problem, WhyUnsafe, greedy
from tflm_zephyr.model import NEVER, Graph, Lifespan, Model, PlannedScratch, PlannedTensor, analyse, shown

ALIGNMENT = 16
"""Of TFLM's arena, offsets and sizes: MicroArenaBufferAlignment()."""
ONLINE = -1
"""TFLM's kOnlinePlannedBuffer: no offset given."""


@dataclass(frozen=True)
class Requests:
    """Tensors (variables among them when they are to have offsets), then scratch buffers.

    `told` are the lifespans that TFLM goes by, `wanted` those that must hold. `online` marks what TFLM must
    place itself, `rows` gives each tensor's row in the metadata, None for scratch. `overlaps` are those of tensors,
    by index; `why_unsafe` is the checker's own word on them.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    told: tuple[Lifespan, ...]
    wanted: tuple[Lifespan, ...]
    online: tuple[bool, ...]
    rows: tuple[int | None, ...]
    alignment: int
    where: str
    overlaps: tuple[InPlacePair, ...]
    why_unsafe: WhyUnsafe

    def problem(self, lifespans: Sequence[Lifespan], offsets: Sequence[int | None] | None = None) -> Problem:
        """The packing problem, with some buffers fixed when `offsets` are given."""
        offsets = offsets or [None] * len(self.sizes)
        buffers = (
            Buffer(name, lifespan.first, lifespan.last + 1, size, offset)
            for name, lifespan, size, offset in zip(self.names, lifespans, self.sizes, offsets, strict=True)
        )
        return Problem(tuple(buffers), self.alignment, self.where)

    def whole(self) -> Problem:
        """All that has to be placed, with the lifespans that must hold and all that may overlap."""
        return replace(self.problem(self.wanted), overlaps=self.overlaps)

    def play(self, offsets: Sequence[int | None]) -> tuple[int, ...]:
        """Where TFLM puts everything, given offsets for some."""
        given = tuple(offset for offset in offsets if offset is not None)
        if len(given) == len(self.sizes):
            return given
        return greedy(replace(self.problem(self.told, offsets), alignment=ALIGNMENT)).offsets

    def metadata(self, model: Model, offsets: Sequence[int | None]) -> tuple[int, ...]:
        """`offsets` as the rows of the model's offline plan, -1 for all else."""
        table = [ONLINE] * model.tensor_count
        for row, offset in zip(self.rows, offsets, strict=True):
            if row is not None and offset is not None:
                table[row] = offset
        return tuple(table)


def requests_of(
    model: Model,
    library: KernelLibrary,
    graph: Graph,
    *,
    plan_variables: bool = False,
    alignment: int = ALIGNMENT,
    overlap: Sequence[KernelLibrary] = (),
    kept: Collection[int] = (),
) -> Requests:
    """Everything that TFLM's planner is asked to place, in its order (CreatePlan: tensors, then scratch).

    `graph` says which lifespans must hold. `overlap`: the kernel libraries that must all allow an overlap, `kept` the
    tensors of the main subgraph that nothing may overlap. PlanError for variables with offsets where TFLM cannot take
    them.
    """
    if plan_variables and len(model.subgraphs) > 1 and graph.variables:
        raise PlanError(
            "variable tensors cannot be given offsets in a model of several subgraphs",
            where=model.where,
            hint="TFLM looks their offsets up by the index in their own subgraph; leave them in the tail.",
        )
    first_row = [0]
    for subgraph in model.subgraphs:
        first_row.append(first_row[-1] + len(subgraph.tensors))
    plain = analyse(model, library.scratch, preallocated=graph.preallocated) if kept else graph
    told = {(t.subgraph, t.tensor): t.lifespan for t in plain.tensors}
    tensors = list(graph.tensors)
    if plan_variables:
        tensors = sorted([*tensors, *graph.variables], key=lambda t: (t.subgraph, t.tensor))
        told |= {(t.subgraph, t.tensor): _told_of_variable(model, t) for t in graph.variables}
    # AllocateVariables reads the offset of a variable at its index within its own subgraph, that is, from
    # the rows of subgraph 0: a tensor there with an offset would leave the variable without memory.
    reserved = {t.tensor for t in graph.variables if t.subgraph > 0}
    entries: list[PlannedTensor | PlannedScratch] = [*tensors, *graph.scratch]
    rows = [first_row[t.subgraph] + t.tensor for t in tensors]
    online = tuple(row in reserved for row in rows) + (True,) * len(graph.scratch)
    wanted = tuple(entry.lifespan for entry in entries)
    keys = [(t.subgraph, t.tensor) for t in tensors]
    places = {key: i for i, key in enumerate(keys) if not online[i]}
    return Requests(
        names=tuple(_name(entry) for entry in entries),
        sizes=tuple(entry.size_bytes for entry in entries),
        told=tuple(told[t.subgraph, t.tensor] for t in tensors) + tuple(s.lifespan for s in graph.scratch),
        wanted=wanted,
        online=online,
        rows=(*rows, *(None for _ in graph.scratch)),
        alignment=alignment,
        where=model.where,
        overlaps=offered_overlaps(graph, overlap, places, wanted, kept),
        why_unsafe=OverlapSafety(model, overlap, [*keys, *(None for _ in graph.scratch)], kept),
    )


def kept_tensors(model: Model, preserve_inputs: bool, preserve_intermediates: bool) -> Collection[int]:
    """The tensors of the main subgraph that nothing may overlap; see memory.plan_head."""
    if preserve_intermediates:
        return range(len(model.main.tensors))
    return model.main.inputs if preserve_inputs else ()


def places_variables(model: Model, rows: Sequence[int]) -> bool:
    """Whether a plan with an offset for each tensor of all subgraphs gives one to a variable tensor."""
    return any(row != ONLINE and t.is_variable for row, (_, t) in zip(rows, model.tensors(), strict=True))


def _name(entry: PlannedTensor | PlannedScratch) -> str:
    if isinstance(entry, PlannedScratch):
        return entry.name
    return f"tensor {entry.tensor} '{shown(entry.name)}'" + (f" of subgraph {entry.subgraph}" if entry.subgraph else "")


def _told_of_variable(model: Model, variable: PlannedTensor) -> Lifespan:
    """The lifespan that MarkAllocationLifetimes gives a variable: as if a tensor, mostly never created."""
    subgraph = model.main
    first = last = 0 if variable.tensor in subgraph.inputs else NEVER
    for scope, operator in enumerate(subgraph.operators, start=1):
        if variable.tensor in operator.outputs and first == NEVER:
            first = scope
        if variable.tensor in (*operator.inputs, *operator.outputs):
            last = scope
    if variable.tensor in subgraph.outputs:
        last = len(subgraph.operators)
        first = last if first == NEVER else first
    return Lifespan(first, last)

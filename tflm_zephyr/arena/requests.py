# SPDX-License-Identifier: Apache-2.0
"""Buffer requests: every buffer that TFLM's planner is asked to place, in its order, with lifespans.

TFLM takes offsets for tensors only. Scratch buffers, and tensors without an offset, are placed by its greedy
planner around the rest (tensorflow/lite/micro/micro_allocator.cc and micro_allocation_info.cc, revision
8d404de7).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from tflm_zephyr.arena.in_place_check import InPlaceCheck
from tflm_zephyr.arena.in_place_pairs import in_place_pairs
from tflm_zephyr.errors import PlanError
from tflm_zephyr.kernels import KernelLibrary
from tflm_zephyr.memory_planner import Buffer, InPlacePair, Problem, greedy
from tflm_zephyr.model import NEVER, Graph, Lifespan, Model, PlannedScratch, PlannedTensor, analyse, shown
from tflm_zephyr.tflm import ALIGNMENT

ONLINE = -1
"""TFLM's kOnlinePlannedBuffer: no offset given."""


@dataclass(frozen=True)
class Constraints:
    """Constraints on a plan besides those of the model and its kernels.

    preserve_inputs: the model's inputs hold their values to the end of the run. preserve_intermediates: every
    tensor does, for debugging. plan_variables: variable tensors get offsets in the head, alive for the whole
    run, instead of TFLM's place in the tail; for models of one subgraph only. preallocated: tensors of the main
    subgraph that the app's own buffers hold; they stay at -1 and out of the head. alignment: the alignment of the
    tensors' offsets in bytes, a multiple of TFLM's own 16.
    """

    preserve_inputs: bool = False
    preserve_intermediates: bool = False
    plan_variables: bool = False
    preallocated: tuple[int, ...] = ()
    alignment: int = ALIGNMENT

    @property
    def tflm_meets_all(self) -> bool:
        """Whether TFLM's own planner meets these constraints for any model."""
        return self == Constraints(preallocated=self.preallocated)

    def preserved(self, model: Model) -> Collection[int]:
        """Tensors of the main subgraph that must hold their values to the end of the run."""
        if self.preserve_intermediates:
            return range(len(model.main.tensors))
        return model.main.inputs if self.preserve_inputs else ()


@dataclass(frozen=True)
class Requests:
    """Buffer requests of one model with one kernel library: tensors (with variables when these get offsets), then
    scratch buffers.

    `entries` are the buffers. `assumed` are the lifespans by which TFLM places buffers, `required` those that must
    hold. `online` marks the buffers that TFLM must place itself, `rows` gives each tensor's row in the metadata,
    None for scratch. `keys` are (subgraph, tensor), None for scratch. `unknown` has the operators whose scratch is
    not known. `pairs` are the in-place pairs that a planner may use, by index; `in_place_check` is the checker's
    own rule for them.
    """

    graph: Graph
    library: KernelLibrary
    constraints: Constraints
    entries: tuple[PlannedTensor | PlannedScratch, ...]
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    assumed: tuple[Lifespan, ...]
    required: tuple[Lifespan, ...]
    online: tuple[bool, ...]
    rows: tuple[int | None, ...]
    keys: tuple[tuple[int, int] | None, ...]
    unknown: tuple[str, ...]
    pairs: tuple[InPlacePair, ...]
    in_place_check: InPlaceCheck

    @property
    def model(self) -> Model:
        """The model, with its operators in the order in which they run."""
        return self.graph.model

    @property
    def alignment(self) -> int:
        """Alignment of the tensors' offsets, in bytes."""
        return self.constraints.alignment

    @property
    def places_variables(self) -> bool:
        """Whether variable tensors are among the buffers, so that TFLM must be given offsets."""
        return self.constraints.plan_variables and bool(self.graph.variables)

    @property
    def tflm_meets_all(self) -> bool:
        """Whether TFLM's own planner keeps every lifespan and alignment that is required."""
        return self.assumed == self.required and self.alignment == ALIGNMENT

    def allowing(self, libraries: Sequence[KernelLibrary]) -> Requests:
        """The same requests with the in-place pairs that all of `libraries` allow, none for no library."""
        places = {key: i for i, key in enumerate(self.keys) if key is not None and not self.online[i]}
        preserved = self.constraints.preserved(self.model)
        return replace(
            self,
            pairs=in_place_pairs(self.graph, libraries, places, self.required, preserved),
            in_place_check=InPlaceCheck(self.model, libraries, self.keys, preserved),
        )

    def problem(self, lifespans: Sequence[Lifespan], offsets: Sequence[int | None] | None = None) -> Problem:
        """The packing problem without in-place pairs; buffers with one of `offsets` are fixed there."""
        offsets = offsets or [None] * len(self.sizes)
        buffers = (
            Buffer(name, lifespan.first, lifespan.last + 1, size, offset)
            for name, lifespan, size, offset in zip(self.names, lifespans, self.sizes, offsets, strict=True)
        )
        return Problem(tuple(buffers), self.alignment, self.model.where)

    def in_place_problem(self) -> Problem:
        """The packing problem of all buffers, with the required lifespans and the in-place pairs."""
        return replace(self.problem(self.required), pairs=self.pairs)

    def placed_by_tflm(self, offsets: Sequence[int | None]) -> tuple[int, ...]:
        """The offset at which TFLM places each buffer when `offsets` are given for some."""
        given = tuple(offset for offset in offsets if offset is not None)
        if len(given) == len(self.sizes):
            return given
        return greedy(replace(self.problem(self.assumed, offsets), alignment=ALIGNMENT)).offsets

    def metadata(self, offsets: Sequence[int | None]) -> tuple[int, ...]:
        """`offsets` as the rows of the model's offline plan, -1 for all other tensors."""
        table = [ONLINE] * self.model.tensor_count
        for row, offset in zip(self.rows, offsets, strict=True):
            if row is not None and offset is not None:
                table[row] = offset
        return tuple(table)

    def given_offsets(self, rows: Sequence[int] | None) -> list[int | None]:
        """Offsets by buffer from the rows of an offline plan, None where TFLM places the buffer."""
        return [None if rows is None or row is None or rows[row] == ONLINE else rows[row] for row in self.rows]


def requests_of(
    model: Model,
    library: KernelLibrary,
    constraints: Constraints | None = None,
    *,
    in_place: Sequence[KernelLibrary] = (),
) -> Requests:
    """Everything that TFLM's planner is asked to place, in its order (CreatePlan: tensors, then scratch).

    `in_place`: the kernel libraries that must all allow an in-place pair; none for no such pair. ModelError for a
    graph that TFLM cannot plan, PlanError for an alignment or for variables with offsets where TFLM cannot take them.
    """
    constraints = constraints or Constraints()
    if constraints.alignment < ALIGNMENT or constraints.alignment % ALIGNMENT:
        raise PlanError(f"alignment {constraints.alignment} is not a multiple of {ALIGNMENT}", where=model.where)
    graph = analyse(
        model,
        library.scratch,
        preserve_inputs=constraints.preserve_inputs,
        preserve_intermediates=constraints.preserve_intermediates,
        preallocated=constraints.preallocated,
    )
    plain = graph
    if constraints.preserved(model):
        plain = analyse(model, library.scratch, preallocated=constraints.preallocated)
    assumed = {(t.subgraph, t.tensor): t.lifespan for t in plain.tensors}
    tensors = list(graph.tensors)
    if constraints.plan_variables:
        _check_variables(graph)
        tensors = sorted([*tensors, *graph.variables], key=lambda t: (t.subgraph, t.tensor))
        assumed |= {(t.subgraph, t.tensor): _assumed_of_variable(model, t) for t in graph.variables}
    # AllocateVariables reads the offset of a variable at its index within its own subgraph, that is, from
    # the rows of subgraph 0: a tensor there with an offset would leave the variable without memory.
    reserved = {t.tensor for t in graph.variables if t.subgraph > 0}
    first_row = _first_rows(model)
    rows = [first_row[t.subgraph] + t.tensor for t in tensors]
    entries: list[PlannedTensor | PlannedScratch] = [*tensors, *graph.scratch]
    keys = (*((t.subgraph, t.tensor) for t in tensors), *(None for _ in graph.scratch))
    requests = Requests(
        graph=graph,
        library=library,
        constraints=constraints,
        entries=tuple(entries),
        names=tuple(_name(entry) for entry in entries),
        sizes=tuple(entry.size_bytes for entry in entries),
        assumed=tuple(assumed[t.subgraph, t.tensor] for t in tensors) + tuple(s.lifespan for s in graph.scratch),
        required=tuple(entry.lifespan for entry in entries),
        online=tuple(row in reserved for row in rows) + (True,) * len(graph.scratch),
        rows=(*rows, *(None for _ in graph.scratch)),
        keys=keys,
        unknown=tuple(key for key in graph.operators if not library.knows(key)),
        pairs=(),
        in_place_check=InPlaceCheck(model, (), keys, constraints.preserved(model)),
    )
    return requests.allowing(in_place) if in_place else requests


def places_variables(model: Model, rows: Sequence[int]) -> bool:
    """Whether a plan with an offset for each tensor of all subgraphs gives one to a variable tensor."""
    return any(row != ONLINE and t.is_variable for row, (_, t) in zip(rows, model.tensors(), strict=True))


def _check_variables(graph: Graph) -> None:
    """PlanError for a model whose variable tensors cannot have offsets."""
    if len(graph.model.subgraphs) > 1 and graph.variables:
        raise PlanError(
            "variable tensors cannot be given offsets in a model of several subgraphs",
            where=graph.model.where,
            hint="TFLM looks their offsets up by the index in their own subgraph; leave them in the tail.",
        )


def _first_rows(model: Model) -> list[int]:
    """By subgraph, the row of its first tensor in the offline plan."""
    first = [0]
    for subgraph in model.subgraphs:
        first.append(first[-1] + len(subgraph.tensors))
    return first


def _name(entry: PlannedTensor | PlannedScratch) -> str:
    if isinstance(entry, PlannedScratch):
        return entry.name
    return f"tensor {entry.tensor} '{shown(entry.name)}'" + (f" of subgraph {entry.subgraph}" if entry.subgraph else "")


def _assumed_of_variable(model: Model, variable: PlannedTensor) -> Lifespan:
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

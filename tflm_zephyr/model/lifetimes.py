# SPDX-License-Identifier: Apache-2.0
"""Tensor lifetimes, scratch buffers and operators of a model, as TFLM hands them to its memory planner.

The rules are those of AllocationInfoBuilder (tensorflow/lite/micro/micro_allocation_info.cc, revision
8d404de7). Time is counted in its allocation scopes: 0 holds the inputs, and each operator and each entry into
a called subgraph opens the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from tflm_zephyr.errors import ModelError
from tflm_zephyr.model.types import Model, Operator, Subgraph

Scratch = Callable[[Model, Subgraph, Operator], Sequence[int]]
"""Bytes of each scratch buffer that a kernel library requests, in call order."""

NEVER = -1
"""TFLM's kUninitializedLifetime: never created or never used."""

_MAX_DEPTH = 64
_MAX_MARKS = 500_000


@dataclass(frozen=True)
class Lifespan:
    """From allocation scope `first` to `last`, both included; NEVER where TFLM leaves them unset."""

    first: int
    last: int


@dataclass(frozen=True)
class PlannedTensor:
    """A tensor that needs memory; `size_bytes` before alignment."""

    subgraph: int
    tensor: int
    name: str
    size_bytes: int
    lifespan: Lifespan


@dataclass(frozen=True)
class PlannedScratch:
    """A kernel's scratch buffer; `size_bytes` as requested."""

    subgraph: int
    operator: int
    name: str
    size_bytes: int
    lifespan: Lifespan


@dataclass(frozen=True)
class Graph:
    """The input of TFLM's planner, in its order: `tensors` (no constants, variables, empty ones), `scratch`.

    `variables` live for the whole run, in the tail unless planned offline. `operator_order` is every
    (subgraph, operator) by first execution, those of subgraphs that are never called last; `operators` are
    their distinct keys, all of which the resolver must know. `scopes` gives the (subgraph, operator) that
    opens each allocation scope, None for the inputs' and for entries into a called subgraph. `preallocated` are
    tensors of the main subgraph that were left out, as they have memory of their own.
    """

    model: Model
    tensors: tuple[PlannedTensor, ...]
    scratch: tuple[PlannedScratch, ...]
    variables: tuple[PlannedTensor, ...]
    operators: tuple[str, ...]
    operator_order: tuple[tuple[int, int], ...]
    scopes: tuple[tuple[int, int] | None, ...]
    preallocated: tuple[int, ...] = ()

    @property
    def resource_variables(self) -> int:
        """The number of distinct resource variables that the model's VAR_HANDLE operators name."""
        names = {
            (operator.options.get("container"), operator.options.get("shared_name"))
            for subgraph in self.model.subgraphs
            for operator in subgraph.operators
            if operator.name == "VAR_HANDLE"
        }
        return len(names)


def no_scratch(model: Model, subgraph: Subgraph, operator: Operator) -> Sequence[int]:
    """The scratch function of a kernel library without scratch buffers."""
    return ()


def analyse(
    model: Model,
    scratch: Scratch = no_scratch,
    *,
    preserve_inputs: bool = False,
    preserve_intermediates: bool = False,
    preallocated: Collection[int] = (),
) -> Graph:
    """Lifespans and operators of `model`, whatever offline plan it carries.

    The options are those of TFLite's ArenaPlanner: keep the main inputs, or for debugging every tensor, to
    the end of the run. `preallocated` are tensors of the main subgraph that have memory already, so that TFLM plans
    none for them. ModelError for models that crash TFLM's planner: recursion, types without a size,
    intermediate tensors with data, and scratch buffers of operators that are never called.
    """
    walk = _Walk(model, scratch)
    walk.visit(0, ())
    end = len(walk.scopes) - 1
    tensors: list[PlannedTensor] = []
    variables: list[PlannedTensor] = []
    elsewhere = _handles(model) | {(0, tensor) for tensor in preallocated}
    inputs = {(0, tensor) for tensor in model.main.inputs}
    for subgraph, tensor in model.tensors():
        key = (subgraph.index, tensor.index)
        size = _size(model, subgraph, tensor.index)
        lifespan = Lifespan(walk.first.get(key, NEVER), walk.last.get(key, NEVER))
        keep = preserve_intermediates or (preserve_inputs and key in inputs)
        if keep and lifespan.last != NEVER:
            lifespan = Lifespan(lifespan.first, end)
        if tensor.is_variable:
            variables.append(PlannedTensor(*key, tensor.name, size, Lifespan(0, end)))
        elif not tensor.is_constant and size > 0 and key not in elsewhere:
            tensors.append(PlannedTensor(*key, tensor.name, size, lifespan))
    order = [key for key in dict.fromkeys(walk.scopes) if key is not None]
    seen = set(order)
    order += [(s.index, o.index) for s in model.subgraphs for o in s.operators if (s.index, o.index) not in seen]
    return Graph(
        model=model,
        tensors=tuple(tensors),
        scratch=walk.planned_scratch(),
        variables=tuple(variables),
        operators=tuple(dict.fromkeys(model.subgraphs[s].operators[o].key for s, o in order)),
        operator_order=tuple(order),
        scopes=tuple(walk.scopes),
        preallocated=tuple(sorted(preallocated)),
    )


def resource_handles(subgraph: Subgraph) -> set[int]:
    """Outputs of VAR_HANDLE: it points them at its own state in Prepare, so they are not planned."""
    return {o.outputs[0] for o in subgraph.operators if o.key == "VAR_HANDLE" and o.outputs}


def _handles(model: Model) -> set[tuple[int, int]]:
    return {(subgraph.index, tensor) for subgraph in model.subgraphs for tensor in resource_handles(subgraph)}


def _size(model: Model, subgraph: Subgraph, tensor: int) -> int:
    try:
        return subgraph.tensors[tensor].size_bytes
    except ModelError as error:
        raise ModelError(error.what, where=model.where, hint=error.hint) from None


class _Walk:
    """MarkAllocationLifetimes(): the walk through all subgraphs, and its marks."""

    def __init__(self, model: Model, scratch: Scratch) -> None:
        self.model = model
        self.scopes: list[tuple[int, int] | None] = [None]
        self._marks = 0
        self.first: dict[tuple[int, int], int] = {}
        self.last: dict[tuple[int, int], int] = {}
        self._requests: dict[tuple[int, int], tuple[int, ...]] = {}
        self._scratch: dict[tuple[int, int], Lifespan] = {}
        for subgraph in model.subgraphs:
            for operator in subgraph.operators:
                self._check_intermediates(subgraph, operator)
                self._requests[subgraph.index, operator.index] = tuple(scratch(model, subgraph, operator))

    def visit(self, index: int, callers: tuple[int, ...]) -> None:
        """Mark one run of a subgraph, beginning in the present scope."""
        if index in callers:
            raise self._fail(f"subgraph {index} calls itself through subgraphs {list(callers)}")
        if len(callers) > _MAX_DEPTH:
            raise self._fail(f"its subgraphs call each other more than {_MAX_DEPTH} deep")
        subgraph = self.model.subgraphs[index]
        for tensor in subgraph.inputs:
            self._create(index, tensor)
            self._use(index, tensor)
        for operator in subgraph.operators:
            self._open((index, operator.index))
            for tensor in operator.outputs:
                self._create(index, tensor)
            start = len(self.scopes) - 1
            for called in operator.subgraphs:
                self._open(None)
                self.visit(called, (*callers, index))
            for tensor in (*operator.inputs, *operator.outputs):
                if tensor >= 0:
                    self._use(index, tensor)
            key = (index, operator.index)
            begun = self._scratch.get(key, Lifespan(start, start)).first
            self._scratch[key] = Lifespan(begun, len(self.scopes) - 1)
        for tensor in subgraph.outputs:
            self._create(index, tensor)
            self._use(index, tensor)

    def planned_scratch(self) -> tuple[PlannedScratch, ...]:
        """All requests in the order in which Prepare makes them: by subgraph, operator and call."""
        planned = []
        for (subgraph, operator), sizes in self._requests.items():
            asking = self.model.subgraphs[subgraph].operators[operator]
            if sizes and (subgraph, operator) not in self._scratch:
                raise self._fail(
                    f"{asking.label} needs scratch memory but nothing calls its subgraph {subgraph}; "
                    "TFLM would write through a stray pointer",
                    "Convert the model with only this signature",
                )
            for number, size in enumerate(sizes):
                if not 0 <= size < 2**31:
                    raise self._fail(f"{asking.label} of subgraph {subgraph} needs {size} bytes of scratch")
                name = f"{asking.key} {operator} scratch {number}"
                planned.append(PlannedScratch(subgraph, operator, name, size, self._scratch[subgraph, operator]))
        return tuple(planned)

    def _open(self, opener: tuple[int, int] | None) -> None:
        self._count()
        self.scopes.append(opener)

    def _count(self) -> None:
        # A chain of subgraphs that each call the next one twice doubles at every link.
        self._marks += 1
        if self._marks > _MAX_MARKS:
            raise self._fail("its subgraphs call each other too many times")

    def _create(self, subgraph: int, tensor: int) -> None:
        self._count()
        self.first.setdefault((subgraph, tensor), len(self.scopes) - 1)

    def _use(self, subgraph: int, tensor: int) -> None:
        self._count()
        self.last[subgraph, tensor] = len(self.scopes) - 1

    def _check_intermediates(self, subgraph: Subgraph, operator: Operator) -> None:
        for tensor in operator.intermediates:
            if _size(self.model, subgraph, tensor) != 0:
                raise self._fail(
                    f"{operator.label} of subgraph {subgraph.index} has data in intermediate "
                    f"{subgraph.tensors[tensor].label}, which TFLM refuses"
                )

    def _fail(self, what: str, hint: str = "Export the model again") -> ModelError:
        return ModelError(what, where=self.model.where, hint=hint)

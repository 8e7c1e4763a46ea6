# SPDX-License-Identifier: Apache-2.0
"""The arena's tail, and the memory that TFLM needs while it plans, from the steps of its own allocation.

Followed step by step at revision 8d404de7: MicroAllocator::Create(), MicroInterpreter::AllocateTensors(),
MicroAllocator::FinishModelAllocation() (tensorflow/lite/micro/micro_allocator.cc, micro_interpreter.cc). The
tail grows down from the arena's end: each allocation takes its size, then moves down to its alignment. Head and
tail must not meet at any of these steps:

- while the kernels prepare, the head holds requests for scratch buffers (with room for 12 more than requested so
  far), and above them the temporary TfLiteTensors that the present operator looks at;
- while the memory is planned, it holds the requests, AllocationInfo for every tensor and scratch buffer, and
  the planner's records of those that need memory; variables and scratch handles are in the tail by then;
- at the end it holds the planned head, and the inputs' and outputs' TfLiteTensors are in the tail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tflm_zephyr.kernels import KernelLibrary, looks_twice
from tflm_zephyr.memory_planner import align_up
from tflm_zephyr.model import Graph, Operator, Subgraph, Tensor
from tflm_zephyr.tflm import ALIGNMENT, StructSizes, cortex_m_sizes

SLACK_BYTES = 64
"""Bytes added to the estimated arena for allocations that the steps above may miss; none is known."""
_SCRATCH_REQUESTS_PER_OPERATOR = 12  # kMaxScratchBuffersPerOp


@dataclass(frozen=True)
class TailEstimate:
    """Bytes of the tail by section, in the order of allocation, and the arena's size that the earlier steps need.

    `sections` sum up to `tail_bytes`, alignment included. `planning_bytes` is the smallest arena in which the
    steps before the last one fit, whatever the head. `unknown` has the operators whose kernels' data is not
    known; they are counted with a fixed allowance.
    """

    sections: tuple[tuple[str, int], ...]
    planning_bytes: int
    slack_bytes: int
    unknown: tuple[str, ...]

    @property
    def tail_bytes(self) -> int:
        """The tail that TFLM reports, as arena_used_bytes() counts it."""
        return sum(size for _, size in self.sections)

    def arena_bytes(self, head_bytes: int) -> int:
        """The arena for this tail and a head: the larger of their sum and the planning need, with the slack."""
        need = max(head_bytes + self.tail_bytes, self.planning_bytes) + self.slack_bytes
        return align_up(need, ALIGNMENT)


def shared_arena_bytes(models: Sequence[tuple[TailEstimate, int]], sizes: StructSizes | None = None) -> int:
    """One arena for several models with their heads' bytes, prepared one after the other by one MicroAllocator.

    The head is as large as the largest of them (CommitStaticMemoryPlan() reserves the most of all so far). The tails
    add up, except for the allocator's and planner's own objects, which exist once; a model is planned above the tails
    of the models before it.
    """
    arena, sizes = _Arena(), sizes or cortex_m_sizes()
    for name in sizes.own_objects:
        arena.take(*sizes.of(name))
    before = own = arena.tail
    for tail, _ in models:
        arena.meets(tail.planning_bytes - own + before - arena.tail)
        before += tail.tail_bytes - own
    need = max(arena.needed, before + max((head for _, head in models), default=0)) + SLACK_BYTES
    return align_up(need, ALIGNMENT)


class _Arena:
    """Both ends of the arena: the tail as it grows, and the largest sum with what stands in the head."""

    def __init__(self) -> None:
        self.tail = 0
        self.needed = 0
        self.sections: list[tuple[str, int]] = []
        self._begun = 0

    def take(self, size: int, alignment: int) -> None:
        """AllocatePersistentBuffer()."""
        self.tail = align_up(self.tail + size, alignment)

    def close(self, section: str) -> None:
        """Add the bytes taken since the last call to `section`."""
        self.sections.append((section, self.tail - self._begun))
        self._begun = self.tail

    def meets(self, head: int) -> None:
        """Record that the head is this high now."""
        self.needed = max(self.needed, head + self.tail)


def estimate_tail(
    graph: Graph, library: KernelLibrary, sizes: StructSizes | None = None, *, variables_planned: bool = False
) -> TailEstimate:
    """The tail for `graph` with the kernels of `library` on a device whose structs have these `sizes`.

    `variables_planned`: the model's plan gives variable tensors offsets, so that they are in the head.
    """
    model, arena, sizes = graph.model, _Arena(), sizes or cortex_m_sizes()
    subgraphs = model.subgraphs
    operators = [(subgraph, operator) for subgraph in subgraphs for operator in subgraph.operators]
    for name in sizes.own_objects:
        arena.take(*sizes.of(name))
    if graph.resource_variables:
        arena.take(sizes.of("MicroResourceVariables")[0], ALIGNMENT)
        arena.take(sizes.of("MicroResourceVariable")[0] * graph.resource_variables, ALIGNMENT)
    arena.take(*sizes.of("MicroBuiltinDataAllocator"))
    arena.close("allocator and planner")
    _take_array(arena, sizes, "SubgraphAllocations", len(subgraphs))
    arena.close("subgraphs")
    for subgraph in subgraphs:
        _take_array(arena, sizes, "TfLiteEvalTensor", len(subgraph.tensors))
    arena.close("eval tensors")
    for subgraph in subgraphs:
        _take_array(arena, sizes, "NodeAndRegistration", len(subgraph.operators))
    arena.close("nodes and registrations")
    for _, operator in operators:
        if operator.key in sizes.builtin_data and operator.custom_code is None:
            arena.take(*sizes.of(sizes.builtin_data[operator.key]))
    arena.close("builtin data")
    for subgraph, operator in operators:
        for size in library.persistent(model, subgraph, operator):
            arena.take(size, ALIGNMENT)
    arena.close("operator data")
    request, _ = sizes.of("ScratchBufferRequest")
    requests = request * _SCRATCH_REQUESTS_PER_OPERATOR
    for subgraph, operator in operators:
        arena.meets(requests + _looked_at(subgraph, operator, sizes, library))
        requests += request * len(library.scratch(model, subgraph, operator))
        arena.meets(requests)  # FinishPrepareNodeAllocations()
    if graph.scratch:
        _take_array(arena, sizes, "ScratchBufferHandle", len(graph.scratch))
    arena.close("scratch handles")
    for variable in () if variables_planned else graph.variables:
        arena.take(variable.size_bytes, ALIGNMENT)
    arena.close("variables")
    _plan(arena, graph, sizes, requests, len(graph.variables) if variables_planned else 0)
    main = model.main
    for tensors in (main.inputs, main.outputs):
        arena.take(sizes.pointer_bytes * len(tensors), ALIGNMENT)
        for index in tensors:
            for size, alignment in _tensor_parts(main.tensors[index], sizes):
                arena.take(size, alignment)
    arena.close("input and output tensors")
    unknown = dict.fromkeys(operator.key for _, operator in operators if not library.knows(operator.key))
    return TailEstimate(tuple(arena.sections), arena.needed, SLACK_BYTES, tuple(unknown))


def _take_array(arena: _Arena, sizes: StructSizes, name: str, count: int) -> None:
    size, alignment = sizes.of(name)
    arena.take(size * count, alignment)


def _plan(arena: _Arena, graph: Graph, sizes: StructSizes, requests: int, planned_variables: int) -> None:
    """CommitStaticMemoryPlan(): everything temporary above the scratch requests."""
    info, info_alignment = sizes.of("AllocationInfo")
    everything = graph.model.tensor_count + len(graph.scratch)
    head = align_up(requests, sizes.pointer_bytes) + sizes.pointer_bytes * len(graph.model.subgraphs)
    head = align_up(head, info_alignment) + info * everything
    head = align_up(head, ALIGNMENT)
    planned = len(graph.tensors) + len(graph.scratch) + planned_variables
    # The planner gets the bytes up to the last multiple of 16 below the tail.
    arena.meets(head + sizes.planner_record_bytes * planned + -arena.tail % ALIGNMENT)


def _looked_at(subgraph: Subgraph, operator: Operator, sizes: StructSizes, library: KernelLibrary) -> int:
    """Temporary TfLiteTensors of one Prepare: none is given back before it ends. No kernel of TFLM looks at
    intermediate tensors (AllocateTempIntermediateTensor() has no caller)."""
    total, known = 0, library.knows(operator.key)
    for index in (*operator.inputs, *operator.outputs, *(() if known else operator.intermediates)):
        if index >= 0:
            for size, alignment in _tensor_parts(subgraph.tensors[index], sizes):
                total += align_up(size, alignment)
    twice = operator.custom_code is not None or looks_twice(operator.key, library.core.revision)
    return 2 * total if twice else total


def _tensor_parts(tensor: Tensor, sizes: StructSizes) -> list[tuple[int, int]]:
    """A TfLiteTensor, and when quantised its parameters and an array of zero points: (size, alignment)."""
    parts = [sizes.of("TfLiteTensor")]
    if tensor.quantization is not None:
        parts.append(sizes.of("TfLiteAffineQuantization"))
        parts.append((4 * (1 + len(tensor.quantization.scales)), 4))
    return parts

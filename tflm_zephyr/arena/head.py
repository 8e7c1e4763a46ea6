# SPDX-License-Identifier: Apache-2.0
"""Model and kernel library -> the planned head, the estimated tail, the arena's size.

Scratch buffers are placed by TFLM itself around the offsets that a model carries, so every candidate is played
through TFLM's greedy rule, and what counts is the head that comes out. That head is the planner's maximum:
sizes are multiples of 16 and ReserveNonPersistentOverlayMemory() sets the head to it (CommitStaticMemoryPlan
in tensorflow/lite/micro/micro_allocator.cc, revision 8d404de7).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from tflm_zephyr.arena.requests import ALIGNMENT, ONLINE, Requests, kept_tensors, places_variables, requests_of
from tflm_zephyr.arena.simulation import candidates, packed, played
from tflm_zephyr.arena.tail import estimate_tail
from tflm_zephyr.errors import PlanError
from tflm_zephyr.kernels import KernelLibrary
from tflm_zephyr.memory_planner import Plan, Problem, WhyUnsafe, check_plan, greedy, linear
from tflm_zephyr.model import Graph, Model, analyse
from tflm_zephyr.tflm import CORTEX_M, StructSizes

ADDRESSABLE_BYTES = 2**31 - 1
"""TFLM's planner counts in int."""
OFFLINE = ("auto", "always", "never")


@dataclass(frozen=True)
class HeadPlan:
    """The head of a model's arena, in bytes.

    `plan` places every buffer of `problem` (tensors, variables if planned, scratch) as TFLM will with the
    metadata `offsets`: one for each tensor of all subgraphs, -1 where TFLM places it. `offsets` is None when
    TFLM's own placing serves; then the model must carry no plan at all. `unknown` has the operators whose
    scratch is not known: the head is then a guess that leaves it out. The sizes of the other plans are for
    comparison; `packed_bytes` and `overlapped_bytes` have scratch placed freely, too, the one without any overlap.
    `why_unsafe` is the checker's word on the overlaps of `problem`.
    """

    graph: Graph
    problem: Problem
    plan: Plan
    offsets: tuple[int, ...] | None
    linear_bytes: int
    greedy_bytes: int
    packed_bytes: int
    overlapped_bytes: int
    lower_bound_bytes: int
    unknown: tuple[str, ...]
    variables_planned: bool
    why_unsafe: WhyUnsafe = field(compare=False, repr=False)

    @property
    def head_bytes(self) -> int:
        """What TFLM reports as the arena's head with this plan."""
        return self.plan.size_bytes

    @cached_property
    def overlapping(self) -> int:
        """How many outputs share bytes with an input, whoever placed them."""
        spans = [(at, at + size) for at, size in zip(self.plan.offsets, self.problem.sizes, strict=True)]
        dying: dict[int, list[tuple[int, int]]] = {}
        for buffer, span in zip(self.problem.buffers, spans, strict=True):
            if buffer.lower < buffer.upper - 1 and span[0] < span[1]:
                dying.setdefault(buffer.upper - 1, []).append(span)
        return sum(
            any(max(start, one) < min(end, other) for one, other in dying.get(buffer.lower, ()))
            for buffer, (start, end) in zip(self.problem.buffers, spans, strict=True)
        )

    @property
    def optimal(self) -> bool:
        """Whether it is proven that no plan can be smaller."""
        return self.head_bytes == self.lower_bound_bytes


@dataclass(frozen=True)
class ArenaSize:
    """How large the arena is, in bytes, and where the number comes from: estimated, measured or given.

    `unknown` has the operators of which an estimate does not know what their kernels ask for.
    """

    bytes: int
    source: str
    head_bytes: int
    tail_bytes: int
    note: str
    unknown: tuple[str, ...] = ()


def plan_head(
    model: Model,
    library: KernelLibrary,
    *,
    preserve_inputs: bool = False,
    preserve_intermediates: bool = False,
    plan_variables: bool = False,
    preallocated: Collection[int] = (),
    alignment: int = ALIGNMENT,
    offline: str = "auto",
    overlap: Sequence[KernelLibrary] = (),
) -> HeadPlan:
    """The smallest head found for `model` with the kernels of `library`; never above TFLM's own placing.

    preserve_inputs: the model's inputs hold their values to the end of the run. preserve_intermediates: every
    tensor does, for debugging. plan_variables: variable tensors get offsets in the head, alive for the whole
    run, instead of TFLM's place in the tail; for models of one subgraph only. preallocated: tensors of the main
    subgraph that the app's own buffers hold; they stay at -1 and out of the head. alignment: of the tensors'
    offsets, a multiple of 16, which is TFLM's own. offline: "auto" gives offsets where they make the head
    smaller or an option needs them, "always" also where they change nothing, "never" leaves all to TFLM. overlap: the
    kernel libraries that the plan is to run with, which must all allow it where an output overlaps an input; none
    for no overlap at all.

    A plan that the model carries is left out of account: `given_plan` looks at that one. ModelError for a
    graph that TFLM cannot plan, PlanError for options that cannot be met.
    """
    if alignment < ALIGNMENT or alignment % ALIGNMENT:
        raise PlanError(f"alignment {alignment} is not a multiple of {ALIGNMENT}", where=model.where)
    if offline == "never" and plan_variables:
        raise PlanError("variables cannot be planned when all is left to TFLM", where=model.where)
    if offline not in OFFLINE:
        raise PlanError(f"offline={offline!r} is none of {', '.join(OFFLINE)}", where=model.where)
    graph = analyse(
        model,
        library.scratch,
        preserve_inputs=preserve_inputs,
        preserve_intermediates=preserve_intermediates,
        preallocated=preallocated,
    )
    unknown = tuple(key for key in graph.operators if not library.knows(key))
    kept = kept_tensors(model, preserve_inputs, preserve_intermediates)
    requests = requests_of(
        model, library, graph, plan_variables=plan_variables, alignment=alignment, overlap=overlap, kept=kept
    )
    problem, whole = requests.problem(requests.wanted), requests.whole()
    stock = greedy(problem)
    plans = [packed(problem, stock)]
    if whole.overlaps and offline != "never":
        plans.append(packed(whole, stock))
    smallest = min(plan.size_bytes for plan in plans)
    best: Plan | None = None
    given: list[int | None] = []
    if plan_variables and graph.variables:
        offline = "always"
    for offsets in candidates(requests, plans, offline, known=not unknown):
        plan = played(requests, whole, offsets, stock, below=None if best is None else best.size_bytes)
        if plan is not None and (best is None or plan.size_bytes < best.size_bytes):
            best, given = plan, offsets
        if best is not None and best.size_bytes == smallest:
            break
    if best is None:
        what = "TFLM's own placing leaves no way to keep what is to be preserved or aligned"
        raise PlanError(what, where=model.where, hint="Plan with offsets, or with fewer options.")
    return HeadPlan(
        graph=graph,
        problem=whole,
        plan=best,
        offsets=None if best.method == "greedy" else requests.metadata(model, given),
        linear_bytes=linear(problem).size_bytes,
        greedy_bytes=stock.size_bytes,
        packed_bytes=plans[0].size_bytes,
        overlapped_bytes=smallest,
        lower_bound_bytes=plans[-1].proven_bytes,
        unknown=unknown,
        variables_planned=plan_variables,
        why_unsafe=requests.why_unsafe,
    )


def with_offsets(
    head: HeadPlan, model: Model, library: KernelLibrary, offsets: tuple[int, ...] | None
) -> HeadPlan | None:
    """`head` (planned without options) with other metadata `offsets`, None for TFLM's own placing.

    The result is None when they do not hold, an overlap that the kernels of `library` do not allow included.
    """
    requests = requests_of(model, library, head.graph, overlap=(library,))
    given = [
        None if offsets is None or row is None or offsets[row] == ONLINE else offsets[row] for row in requests.rows
    ]
    plan = played(requests, head.problem, given)
    return None if plan is None else replace(head, plan=plan, offsets=offsets, why_unsafe=requests.why_unsafe)


def given_plan(model: Model, library: KernelLibrary) -> Plan | None:
    """Where TFLM puts everything with the plan that `model` carries, None when it carries none.

    ModelError when the plan is for another number of tensors, PlanError when it corrupts memory: TFLM itself
    checks neither overlap nor alignment. An overlap that the kernels of `library` allow is none.
    """
    rows = model.offline_plan
    if rows is None:
        return None
    graph = analyse(model, library.scratch)
    requests = requests_of(model, library, graph, plan_variables=places_variables(model, rows), overlap=(library,))
    return _given(model, requests, rows, None)


def head_with_plan(
    model: Model,
    library: KernelLibrary,
    rows: Sequence[int] | None,
    *,
    preserve_inputs: bool = False,
    preserve_intermediates: bool = False,
    preallocated: Collection[int] = (),
    arena_bytes: int | None = None,
    overlap: bool = True,
) -> HeadPlan:
    """The head of `model` with the user's own plan: an offset for each tensor of all subgraphs, -1 = placed by TFLM, as
    all are for None.

    What is to be preserved, and what is preallocated: see plan_head. overlap: False where no output may overlap an
    input, whatever the kernels of `library` allow. PlanError naming tensors and offsets when there are not as many as
    tensors, one is for a tensor that no plan can place, some overlap where that is not allowed, are not aligned, or end
    past `arena_bytes`.
    """
    placed = rows is not None and any(row != ONLINE for row in rows)
    rows = [ONLINE] * model.tensor_count if rows is None else rows
    if len(rows) != model.tensor_count:
        what = f"the plan has {len(rows)} offsets, the model {model.tensor_count} tensors"
        raise PlanError(what, where=model.where, hint="A plan gives one offset for each tensor, -1 for TFLM's choice")
    for row, (subgraph, tensor) in zip(rows, model.tensors(), strict=True):
        own = subgraph.index == 0 and tensor.index in preallocated
        if row != ONLINE and (own or tensor.is_constant):
            kind = "preallocated" if own else "a constant"
            what = f"{tensor.label} is {kind}, but the plan gives it the offset {row}"
            raise PlanError(what, where=model.where, hint="Give -1 there")
    variables = places_variables(model, rows)
    allowing = (library,) if overlap else ()
    head = plan_head(
        model,
        library,
        preserve_inputs=preserve_inputs,
        preserve_intermediates=preserve_intermediates,
        plan_variables=variables,
        preallocated=preallocated,
        overlap=allowing,
    )
    kept = kept_tensors(model, preserve_inputs, preserve_intermediates)
    requests = requests_of(model, library, head.graph, plan_variables=variables, overlap=allowing, kept=kept)
    plan = _given(model, requests, rows, arena_bytes)
    return replace(head, plan=plan, offsets=tuple(rows) if placed else None, why_unsafe=requests.why_unsafe)


def _given(model: Model, requests: Requests, rows: Sequence[int], arena_bytes: int | None) -> Plan:
    offsets = [None if row is None or rows[row] == ONLINE else rows[row] for row in requests.rows]
    for name, offset in zip(requests.names, offsets, strict=True):
        if offset is not None and offset < 0:
            raise PlanError(f"{name} has the negative offset {offset}", where=model.where)
        if offset is not None and offset % ALIGNMENT:  # before TFLM places others around it, as badly
            raise PlanError(f"{name} at offset {offset} is not aligned to {ALIGNMENT} bytes", where=model.where)
    plan = Plan(requests.whole(), requests.play(offsets), "given")
    placed = zip(requests.names, plan.offsets, requests.sizes, strict=True)
    for name, offset, size in sorted(placed, key=lambda one: one[1]):  # TFLM's own choices lie above what they follow
        end = offset + size + -size % ALIGNMENT
        if end > ADDRESSABLE_BYTES:
            what = f"{name} at offset {offset} ends at {end}, past the {ADDRESSABLE_BYTES} bytes that TFLM can address"
            raise PlanError(what, where=model.where, hint="Give a smaller offset, or -1 for TFLM's choice")
    check_plan(plan, why_unsafe=requests.why_unsafe, arena_bytes=arena_bytes)
    return plan


def arena_size(
    head: HeadPlan,
    library: KernelLibrary,
    *,
    given: int | None = None,
    measured: int | None = None,
    sizes: StructSizes = CORTEX_M,
) -> ArenaSize:
    """The arena of a 32-bit device: `given` by the user, else `measured` on one, else estimated, in bytes.

    `sizes` are the structs of the build. PlanError for a given arena that is smaller than the head and cannot
    possibly do.
    """
    tail = estimate_tail(head.graph, library, sizes, variables_planned=head.variables_planned)
    ends = head.head_bytes, tail.tail_bytes
    estimate = tail.arena_bytes(head.head_bytes)
    if given is not None:
        if given < head.head_bytes:
            what = f"an arena of {given} bytes cannot hold the head of {head.head_bytes} bytes"
            raise PlanError(what, where=head.graph.model.where, hint=f"Estimated need: {estimate} bytes.")
        return ArenaSize(given, "given", *ends, f"given; estimated need {estimate} bytes")
    if measured is not None:
        return ArenaSize(measured, "measured", *ends, "smallest arena that allocated and ran")
    parts = f"head {head.head_bytes} + tail {tail.tail_bytes}"
    if tail.planning_bytes > head.head_bytes + tail.tail_bytes:
        parts += f", raised to the {tail.planning_bytes} that TFLM needs while it plans"
    note = f"{parts}, with {tail.slack_bytes} bytes of slack"
    unknown = tuple(sorted({*head.unknown, *tail.unknown}))
    if unknown:
        note += f"; not known, so not counted in full: what {', '.join(unknown)} asks for"
    return ArenaSize(estimate, "estimated", *ends, note, unknown)

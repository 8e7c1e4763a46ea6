# SPDX-License-Identifier: Apache-2.0
"""Model and kernel library -> the planned head, the estimated tail, the arena's size.

Scratch buffers are placed by TFLM itself around the offsets that a model carries, so every candidate is played
through TFLM's greedy rule, and what counts is the head that comes out. That head is the planner's maximum:
sizes are multiples of 16 and ReserveNonPersistentOverlayMemory() sets the head to it (CommitStaticMemoryPlan
in tensorflow/lite/micro/micro_allocator.cc, revision 8d404de7).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from tflm_zephyr.errors import PlanError
from tflm_zephyr.graph import Graph, analyse
from tflm_zephyr.kernels import KernelLibrary
from tflm_zephyr.model import Model
from tflm_zephyr.placing import ALIGNMENT, ONLINE, Requests, requests_of
from tflm_zephyr.plan.check import check
from tflm_zephyr.plan.greedy import greedy
from tflm_zephyr.plan.linear import linear
from tflm_zephyr.plan.problem import Buffer, Plan, Problem
from tflm_zephyr.plan.search import pack
from tflm_zephyr.struct_sizes import CORTEX_M, StructSizes
from tflm_zephyr.tail import TailEstimate, estimate_tail

__all__ = [
    "ArenaSize",
    "HeadPlan",
    "TailEstimate",
    "arena_size",
    "estimate_tail",
    "given_plan",
    "plan_head",
    "with_offsets",
]

OFFLINE = ("auto", "always", "never")
SEARCH_WORK = 4_000_000
"""Of `pack`, for each packing of a model: about a second where the lower bound is not reached."""
_WORK_OF_LARGE = 300, 1200
"""With more buffers than this, less: so much for each, so that planning takes no longer than n log n."""


@dataclass(frozen=True)
class HeadPlan:
    """The head of a model's arena, in bytes.

    `plan` places every buffer of `problem` (tensors, variables if planned, scratch) as TFLM will with the
    metadata `offsets`: one for each tensor of all subgraphs, -1 where TFLM places it. `offsets` is None when
    TFLM's own placing serves; then the model must carry no plan at all. `unknown` has the operators whose
    scratch is not known: the head is then a guess that leaves it out. The sizes of the other plans are for
    comparison; `packed_bytes` has scratch placed freely, too.
    """

    graph: Graph
    problem: Problem
    plan: Plan
    offsets: tuple[int, ...] | None
    linear_bytes: int
    greedy_bytes: int
    packed_bytes: int
    lower_bound_bytes: int
    unknown: tuple[str, ...]
    variables_planned: bool

    @property
    def head_bytes(self) -> int:
        """What TFLM reports as the arena's head with this plan."""
        return self.plan.size_bytes

    @property
    def scratch_known(self) -> bool:
        """Whether the scratch of every operator's kernel is known."""
        return not self.unknown

    @property
    def optimal(self) -> bool:
        """Whether it is proven that no plan can be smaller."""
        return self.head_bytes == self.lower_bound_bytes


@dataclass(frozen=True)
class ArenaSize:
    """How large the arena is, in bytes, and where the number comes from: estimated, measured or given."""

    bytes: int
    source: str
    head_bytes: int
    tail_bytes: int
    note: str


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
) -> HeadPlan:
    """The smallest head found for `model` with the kernels of `library`; never above TFLM's own placing.

    preserve_inputs: the model's inputs hold their values to the end of the run. preserve_intermediates: every
    tensor does, for debugging. plan_variables: variable tensors get offsets in the head, alive for the whole
    run, instead of TFLM's place in the tail; for models of one subgraph only. preallocated: tensors of the main
    subgraph that the app's own buffers hold; they stay at -1 and out of the head. alignment: of the tensors'
    offsets, a multiple of 16, which is TFLM's own. offline: "auto" gives offsets where they make the head
    smaller or an option needs them, "always" also where they change nothing, "never" leaves all to TFLM.

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
    requests = requests_of(model, library, graph, plan_variables=plan_variables, alignment=alignment)
    problem = requests.problem(requests.wanted)
    stock = greedy(problem)
    packed = _packed(problem, stock)
    best: Plan | None = None
    given: list[int | None] = []
    if plan_variables and graph.variables:
        offline = "always"
    for offsets in _candidates(requests, packed, offline, known=not unknown):
        plan = _played(requests, problem, offsets, stock)
        if plan is not None and (best is None or plan.size_bytes < best.size_bytes):
            best, given = plan, offsets
        if best is not None and best.size_bytes == packed.size_bytes:
            break
    if best is None:
        what = "TFLM's own placing leaves no way to keep what is to be preserved or aligned"
        raise PlanError(what, where=model.where, hint="Plan with offsets, or with fewer options.")
    return HeadPlan(
        graph=graph,
        problem=problem,
        plan=best,
        offsets=None if best.method == "greedy" else requests.metadata(model, given),
        linear_bytes=linear(problem).size_bytes,
        greedy_bytes=stock.size_bytes,
        packed_bytes=packed.size_bytes,
        lower_bound_bytes=packed.proven_bytes,
        unknown=unknown,
        variables_planned=plan_variables,
    )


def with_offsets(
    head: HeadPlan, model: Model, library: KernelLibrary, offsets: tuple[int, ...] | None
) -> HeadPlan | None:
    """`head` (planned without options) with other metadata `offsets`, None for TFLM's own placing.

    The result is None when they do not hold.
    """
    requests = requests_of(model, library, head.graph)
    given = [
        None if offsets is None or row is None or offsets[row] == ONLINE else offsets[row] for row in requests.rows
    ]
    plan = _played(requests, head.problem, given)
    return None if plan is None else replace(head, plan=plan, offsets=offsets)


def given_plan(model: Model, library: KernelLibrary) -> Plan | None:
    """Where TFLM puts everything with the plan that `model` carries, None when it carries none.

    ModelError when the plan is for another number of tensors, PlanError when it corrupts memory: TFLM itself
    checks neither overlap nor alignment.
    """
    rows = model.offline_plan
    if rows is None:
        return None
    graph = analyse(model, library.scratch)
    planned = any(row != ONLINE and t.is_variable for row, (_, t) in zip(rows, model.tensors(), strict=True))
    requests = requests_of(model, library, graph, plan_variables=planned)
    offsets = [None if row is None or rows[row] == ONLINE else rows[row] for row in requests.rows]
    for name, offset in zip(requests.names, offsets, strict=True):
        if offset is not None and offset < 0:
            raise PlanError(f"{name} has the negative offset {offset}", where=model.where)
    plan = Plan(requests.problem(requests.wanted), requests.play(offsets), "given")
    check(plan)
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
    known = {"head_bytes": head.head_bytes, "tail_bytes": tail.tail_bytes}
    estimate = tail.arena_bytes(head.head_bytes)
    if given is not None:
        if given < head.head_bytes:
            what = f"an arena of {given} bytes cannot hold the head of {head.head_bytes} bytes"
            raise PlanError(what, where=head.graph.model.where, hint=f"Estimated need: {estimate} bytes.")
        return ArenaSize(given, "given", note=f"given; estimated need {estimate} bytes", **known)
    if measured is not None:
        return ArenaSize(measured, "measured", note="smallest arena that allocated and ran", **known)
    parts = f"head {head.head_bytes} + tail {tail.tail_bytes}"
    if tail.planning_bytes > head.head_bytes + tail.tail_bytes:
        parts += f", raised to the {tail.planning_bytes} that TFLM needs while it plans"
    note = f"{parts}, with {tail.slack_bytes} bytes of slack"
    if head.unknown or tail.unknown:
        keys = ", ".join(sorted({*head.unknown, *tail.unknown}))
        note += f"; not known, so not counted in full: what {keys} asks for"
    return ArenaSize(estimate, "estimated", note=note, **known)


def _packed(problem: Problem, known: Plan | None = None) -> Plan:
    few, each = _WORK_OF_LARGE
    count = len(problem.buffers)
    return pack(problem, work=SEARCH_WORK if count <= few else min(SEARCH_WORK, each * count), known=known)


def _played(
    requests: Requests, problem: Problem, offsets: Sequence[int | None], stock: Plan | None = None
) -> Plan | None:
    """What TFLM makes of the offsets (of none of them: `stock`), None if that does not hold what is wanted."""
    online = requests.told == requests.wanted and requests.alignment == ALIGNMENT and set(offsets) <= {None}
    places = stock.offsets if stock is not None and online else requests.play(offsets)
    for place, row in zip(places, requests.rows, strict=True):
        if row is not None and place % requests.alignment:
            return None
    method = "greedy" if all(offset is None for offset in offsets) else "packed"
    plan = Plan(replace(problem, alignment=ALIGNMENT), places, method)
    try:
        check(plan)
    except PlanError:
        return None
    return plan


def _candidates(requests: Requests, packed: Plan, offline: str, *, known: bool) -> Iterator[list[int | None]]:
    """Offsets to try: none, the packed plan's, one with scratch in one piece, one with scratch lowest.

    Without knowing all scratch, offsets could do harm and are given only where an option asks for them.
    """
    if offline != "always":
        yield [None] * len(requests.sizes)
    needed = offline == "always" or requests.told != requests.wanted or requests.alignment != ALIGNMENT
    if offline == "never" or not (known or needed):
        return
    yield _fixed(requests, packed.offsets)
    yield _fixed(requests, _pack_scratch_whole(requests))
    yield _fixed(requests, _pack_above_scratch(requests))
    if offline == "always":
        yield _fixed(requests, requests.play([None] * len(requests.sizes)))


def _fixed(requests: Requests, offsets: Sequence[int]) -> list[int | None]:
    return [None if online else at for online, at in zip(requests.online, offsets, strict=True)]


def _pack_scratch_whole(requests: Requests) -> list[int]:
    """Offsets from a packing in which buffers that TFLM places and that live equally long form one block.

    TFLM puts the pieces, largest first, into the lowest gaps; whatever order that is, they fit in the block.
    """
    problem = requests.problem(requests.wanted)
    kept = [i for i, online in enumerate(requests.online) if not online]
    blocks: dict[tuple[int, int], int] = {}
    for i, online in enumerate(requests.online):
        if online:
            span = (problem.buffers[i].lower, problem.buffers[i].upper)
            blocks[span] = blocks.get(span, 0) + problem.sizes[i]
    merged = [problem.buffers[i] for i in kept]
    merged += [Buffer(f"scratch {n}", *span, size) for n, (span, size) in enumerate(sorted(blocks.items()))]
    found = _packed(replace(problem, buffers=tuple(merged))).offsets
    offsets = [0] * len(requests.sizes)
    for i, offset in zip(kept, found, strict=False):
        offsets[i] = offset
    return offsets


def _pack_above_scratch(requests: Requests) -> list[int]:
    """Offsets above the room that TFLM needs for what it places, so that it never lands on anything else."""
    told, wanted = requests.problem(requests.told), requests.problem(requests.wanted)
    online = tuple(b for b, is_online in zip(told.buffers, requests.online, strict=True) if is_online)
    kept = tuple(b for b, is_online in zip(wanted.buffers, requests.online, strict=True) if not is_online)
    room = greedy(replace(told, buffers=online, alignment=ALIGNMENT)).size_bytes
    room += -room % requests.alignment
    found = iter(_packed(replace(wanted, buffers=kept)).offsets)
    return [0 if is_online else room + next(found) for is_online in requests.online]

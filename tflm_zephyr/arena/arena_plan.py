# SPDX-License-Identifier: Apache-2.0
"""The one planner of arenas: a model and a request -> the operators' order, one plan, and an arena by kernel library.

An app is compiled with one kernel library or another (or for one core or another), and carries one model with one
plan. Kernels differ in their scratch buffers, which TFLM places around the plan's offsets, so a plan is valid with
every library. But a plan that is good with one library's scratch buffers may be worse than no plan with another's.
Hence every candidate is simulated with every library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tflm_zephyr.arena.arena_size import ArenaSize, arena_size
from tflm_zephyr.arena.given_offsets import head_with_offsets
from tflm_zephyr.arena.head import HeadPlan, Placing, plan_head, with_offsets
from tflm_zephyr.arena.plan_file import PlanFile
from tflm_zephyr.arena.requests import Constraints, Requests, requests_of
from tflm_zephyr.arena.scheduling import Order, better_order, reordered
from tflm_zephyr.arena.tail import TailEstimate, estimate_tail
from tflm_zephyr.errors import PlanError
from tflm_zephyr.kernels import KernelLibrary
from tflm_zephyr.memory_planner import Plan, greedy, linear
from tflm_zephyr.model import Model, analyse
from tflm_zephyr.tflm import StructSizes

_MANY_OPERATORS = 1_000
"""Operators from which on pairs and orders are left out where they cannot make an arena smaller."""


@dataclass(frozen=True)
class PlanRequest:
    """A request for the arena of one model.

    libraries: the kernel libraries that will run the plan, one for each kind of core; at least one. sizes: sizes of
    TFLM's structs in the build. in_place: an output may overlap an input where all libraries allow it and the arena
    gets smaller. scheduling: "auto" reorders operators where the arena gets smaller, "model" keeps the file's order.
    offline: see plan_head. given: the user's own plan, which decides order and offsets. arena_bytes: the arena's size
    that the user gives, None for the estimate.
    """

    libraries: tuple[KernelLibrary, ...]
    sizes: StructSizes
    in_place: bool = True
    scheduling: str = "auto"
    offline: str = "auto"
    constraints: Constraints = field(default_factory=Constraints)
    given: PlanFile | None = None
    arena_bytes: int | None = None


@dataclass(frozen=True)
class LibraryArena:
    """Head, tail and estimated arena with the kernels of one library."""

    library: KernelLibrary
    head: HeadPlan
    tail: TailEstimate
    size: ArenaSize


@dataclass(frozen=True)
class ArenaPlan:
    """The plan of one model for all kernel libraries of a request.

    `model` is the model as in its file, `running` the same with its operators in `order` (their indices in the file;
    None for the file's order). `arenas` has one arena for each library, the largest first; all heads have the same
    offsets. `size` is the arena of the app: the largest, or the one that the user gives.
    """

    request: PlanRequest
    model: Model
    running: Model
    order: tuple[int, ...] | None
    arenas: tuple[LibraryArena, ...]
    size: ArenaSize

    @property
    def largest(self) -> LibraryArena:
        """The arena of the library that needs the most bytes."""
        return self.arenas[0]

    @property
    def head(self) -> HeadPlan:
        """The head in the largest arena."""
        return self.arenas[0].head

    @property
    def offsets(self) -> tuple[int, ...] | None:
        """The rows of the offline plan; None where TFLM plans at start-up."""
        return self.head.offsets


def plan(model: Model, request: PlanRequest) -> ArenaPlan:
    """The arena of `model`: order, offsets, and head, tail and size with each library of `request`.

    The candidates are each library's best offsets and no offsets; the one with the smallest largest arena is taken.
    No head gets larger than with TFLM's own planner, where that meets the constraints. A plan that the model carries
    is ignored. ModelError for a graph that TFLM cannot plan; PlanError for constraints or a given plan that cannot be
    met, and for a given arena that is smaller than the head.
    """
    if request.given is not None:
        return _given(model, request, request.given)
    better, arenas = _scheduled(_requests(model, request), request)
    if better is None:
        return _planned(model, model, None, arenas, request)
    return _planned(model, better[0], better[1].operators, arenas, request)


def on_target(planned: ArenaPlan, target: str) -> ArenaPlan | None:
    """`planned`, its order and offsets, on cores whose structs have the sizes of `target`: one of tflm.TARGETS.

    None where none of its kernel libraries is for them: CMSIS-NN is Arm's alone.
    """
    request = planned.request
    if target == request.sizes.target:
        return planned
    sizes, found = request.sizes.on(target), []
    for arena in planned.arenas:
        if arena.library.name == "reference":
            core = replace(arena.library.core, pointer_bytes=sizes.pointer_bytes)
            library = replace(arena.library, core=core)
            head = _with_its_scratch(planned.running, arena.head, library, request)
            tail = estimate_tail(head.graph, library, sizes, variables_planned=head.variables_planned)
            found.append(LibraryArena(library, head, tail, arena_size(head, tail, given=request.arena_bytes)))
    if not found:
        return None
    there = replace(request, sizes=sizes, libraries=tuple(arena.library for arena in found))
    arenas = _largest_first(found)
    return replace(planned, request=there, arenas=arenas, size=arenas[0].size)


def _with_its_scratch(running: Model, head: HeadPlan, library: KernelLibrary, request: PlanRequest) -> HeadPlan:
    """`head` with the scratch buffers of `library`, which TFLM places around the same offsets."""
    if analyse(running, library.scratch).scratch == head.graph.scratch:
        return head
    constraints = replace(request.constraints, plan_variables=head.variables_planned)
    requests = requests_of(running, library, constraints, in_place=(library,))
    offsets = requests.placed_by_tflm(requests.given_offsets(head.offsets))
    return replace(head, graph=requests.graph, plan=Plan(requests.in_place_problem(), offsets, "given"))


def _given(model: Model, request: PlanRequest, given: PlanFile) -> ArenaPlan:
    given.check_use(model, [library.name for library in request.libraries])
    running = reordered(model, request.libraries[0], given.order)
    arenas = []
    for library in request.libraries:
        head = head_with_offsets(
            running,
            library,
            given.offsets,
            request.constraints,
            arena_bytes=request.arena_bytes,
            in_place=request.in_place,
        )
        tail = estimate_tail(head.graph, library, request.sizes, variables_planned=head.variables_planned)
        arenas.append(LibraryArena(library, head, tail, arena_size(head, tail)))
    return _planned(model, running, given.order, _largest_first(arenas), request)


def _planned(
    model: Model,
    running: Model,
    order: tuple[int, ...] | None,
    arenas: Sequence[LibraryArena],
    request: PlanRequest,
) -> ArenaPlan:
    if order is not None or not request.constraints.tflm_meets_all or arenas[0].head.variables_planned:
        arenas = [replace(arena, head=_with_stock_figures(model, arena, request)) for arena in arenas]
    size = arena_size(arenas[0].head, arenas[0].tail, given=request.arena_bytes)
    return ArenaPlan(request, model, running, order, tuple(arenas), size)


def _with_stock_figures(model: Model, arena: LibraryArena, request: PlanRequest) -> HeadPlan:
    """The head of `arena`, with the linear and greedy plans of the model as it is in its file, for comparison."""
    constraints = Constraints(preallocated=request.constraints.preallocated)
    requests = requests_of(model, arena.library, constraints)
    problem = requests.problem(requests.required)
    stock = Placing(requests.graph, requests.entries, greedy(problem))
    return replace(arena.head, linear_bytes=linear(problem).size_bytes, stock=stock)


def _largest_first(arenas: Sequence[LibraryArena]) -> tuple[LibraryArena, ...]:
    return tuple(sorted(arenas, key=lambda arena: -arena.size.bytes))


def _requests(model: Model, request: PlanRequest) -> list[Requests]:
    """The buffer requests of `model` with each library, in its own order of operators."""
    own = [requests_of(model, library, request.constraints) for library in request.libraries]
    return [requests.allowing((requests.library,)) for requests in own] if request.in_place else own


def _scheduled(
    own: Sequence[Requests], request: PlanRequest
) -> tuple[tuple[Model, Order] | None, tuple[LibraryArena, ...]]:
    """A better order of the operators, None for the file's; and the arenas with it.

    The library with the largest arena decides whether an order is better. With one library, the file's order is not
    planned when its lower bound is above the arena of the better order.
    """
    if request.scheduling == "model" or _no_head_matters(own, request):
        return None, _arenas(own, request)
    arenas = _arenas(own, request) if len(own) > 1 else None
    first = own[0] if arenas is None else next(one for one in own if one.library is arenas[0].library)
    better = better_order(first.graph, first.library, in_place=request.in_place)
    if better is None:
        return None, arenas or _arenas(own, request)
    others = _arenas(_requests(better[0], request), request)
    if arenas is None:
        planned = request.constraints.plan_variables
        tail = estimate_tail(first.graph, first.library, request.sizes, variables_planned=planned)
        if others[0].size.bytes < tail.arena_bytes(better[1].model_bytes):
            return better, others
        arenas = _arenas(own, request)
    return (better, others) if others[0].size.bytes < arenas[0].size.bytes else (None, arenas)


def _arenas(own: Sequence[Requests], request: PlanRequest) -> tuple[LibraryArena, ...]:
    """The arenas with the best common offsets, the largest first; the operators stay in the order of the model."""
    planned = request.constraints.plan_variables
    tails = [estimate_tail(one.graph, one.library, request.sizes, variables_planned=planned) for one in own]
    best: list[LibraryArena] | None = None
    in_place = request.in_place and not _no_head_matters(own, request)
    for allowed_by in (request.libraries, ()) if in_place else ((),):
        heads = _best_heads(own, allowed_by, request.offline)
        online = [
            None if requests.places_variables else with_offsets(head, requests, None)
            for head, requests in zip(heads, own, strict=True)
        ]
        if best is None and request.offline != "always":
            best = _sized([head for head in online if head is not None], own, tails)
        for offsets in dict.fromkeys(head.offsets for head in heads if head.offsets is not None):
            found = _sized(_with_common_offsets(heads, own, online, offsets), own, tails)
            if found is not None and (best is None or _cost(found) < _cost(best)):
                best = found
        if best is not None and (best[0].head.offsets is not None or all(arena.head.optimal for arena in best)):
            break  # a plan without in-place pairs is no better
    if best is None:
        what = "no plan meets the preserve and alignment options with the kernels of all these boards"
        raise PlanError(
            what, where=own[0].model.where, hint="Plan for one kernel library and core, or with fewer options."
        )
    return _largest_first(best)


def _no_head_matters(own: Sequence[Requests], request: PlanRequest) -> bool:
    """Whether no order and no in-place pair makes an arena of a large model smaller.

    With TFLM's own planner, too, each arena is then as large as TFLM needs it while it plans. Small models are planned
    all the same, for the figures that `plan` prints.
    """
    if request.offline != "auto" or request.constraints.plan_variables:
        return False
    for requests in own:
        if len(requests.model.main.operators) < _MANY_OPERATORS or not requests.tflm_meets_all:
            return False
        tail = estimate_tail(requests.graph, requests.library, request.sizes)
        head = greedy(requests.problem(requests.required)).size_bytes
        if tail.arena_bytes(head) > tail.arena_bytes(0):
            return False
    return True


def _best_heads(own: Sequence[Requests], allowed_by: Sequence[KernelLibrary], offline: str) -> list[HeadPlan]:
    """The best head of each library; those that ask for the same scratch buffers are planned once."""
    planned: dict[object, HeadPlan] = {}
    found = []
    for requests in own:
        same = (requests.graph.scratch, requests.unknown)
        if same not in planned:
            alone = len(own) == 1 and len(allowed_by) == 1
            planned[same] = plan_head(requests if alone else requests.allowing(allowed_by), offline=offline)
        found.append(planned[same])
    return found


def _with_common_offsets(
    heads: Sequence[HeadPlan],
    own: Sequence[Requests],
    online: Sequence[HeadPlan | None],
    offsets: tuple[int, ...],
) -> list[HeadPlan]:
    """The heads with these offsets; fewer than `heads` when some library is worse off than without."""
    found = []
    for head, requests, without in zip(heads, own, online, strict=True):
        given = with_offsets(head, requests, offsets)
        if given is not None and (without is None or given.head_bytes <= without.head_bytes):
            found.append(given)
    return found


def _sized(
    heads: Sequence[HeadPlan], own: Sequence[Requests], tails: Sequence[TailEstimate]
) -> list[LibraryArena] | None:
    """Arenas with these heads; None when there is not one head for each library."""
    if len(heads) < len(own):
        return None
    return [
        LibraryArena(requests.library, head, tail, arena_size(head, tail))
        for head, requests, tail in zip(heads, own, tails, strict=True)
    ]


def _cost(arenas: Sequence[LibraryArena]) -> tuple[int, bool, int]:
    in_place = any(arena.head.in_place_count for arena in arenas)  # no use where it makes no arena smaller
    return max(arena.size.bytes for arena in arenas), in_place, sum(arena.head.head_bytes for arena in arenas)

# SPDX-License-Identifier: Apache-2.0
"""The head of the arena: the smallest plan found for one model with one kernel library.

TFLM itself places scratch buffers around the offsets that a model carries, so every candidate is simulated with
TFLM's greedy rule, and candidates are compared by the simulated head. That head is the planner's maximum:
sizes are multiples of 16 and ReserveNonPersistentOverlayMemory() sets the head to it (CommitStaticMemoryPlan
in tensorflow/lite/micro/micro_allocator.cc, revision 8d404de7).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tflm_zephyr.arena.candidate_offsets import candidate_offsets, packed
from tflm_zephyr.arena.in_place_check import InPlaceCheck
from tflm_zephyr.arena.requests import Requests
from tflm_zephyr.arena.simulation import simulate
from tflm_zephyr.errors import PlanError
from tflm_zephyr.memory_planner import Plan, Problem, greedy, linear
from tflm_zephyr.model import Graph, PlannedScratch, PlannedTensor

OFFLINE = ("auto", "always", "never")


@dataclass(frozen=True)
class Placing:
    """A plan for the buffers of `graph`; `entries` has the tensor or scratch buffer that is the plan's buffer."""

    graph: Graph
    entries: tuple[PlannedTensor | PlannedScratch, ...]
    plan: Plan


@dataclass(frozen=True)
class HeadPlan:
    """The head of a model's arena, in bytes.

    `plan` places every buffer of `problem` (tensors, variables if planned, scratch) as TFLM will with the
    metadata `offsets`: one for each tensor of all subgraphs, -1 where TFLM places it. `offsets` is None when
    TFLM plans at start-up; then the model must carry no plan at all. `unknown` has the operators whose scratch
    buffers are not known: the head is then a guess without them.

    The other plans are for comparison. `linear_bytes` and `stock` (TFLM's own planner) are for the model as it is in
    its file, with its operators in the file's order. `packing` and `in_place_packing` have scratch buffers placed
    freely, too, the first without in-place pairs. `entries` are the problem's buffers as tensors and scratch buffers.
    `in_place_check` is the checker's rule for in-place pairs.
    """

    graph: Graph
    entries: tuple[PlannedTensor | PlannedScratch, ...]
    problem: Problem
    plan: Plan
    offsets: tuple[int, ...] | None
    linear_bytes: int
    stock: Placing
    packing: Plan
    in_place_packing: Plan
    lower_bound_bytes: int
    unknown: tuple[str, ...]
    variables_planned: bool
    in_place_check: InPlaceCheck = field(compare=False, repr=False)

    @property
    def head_bytes(self) -> int:
        """The head that TFLM reports with this plan."""
        return self.plan.size_bytes

    @property
    def greedy_bytes(self) -> int:
        """The head that TFLM's own planner makes of the model as it is."""
        return self.stock.plan.size_bytes

    @property
    def packed_bytes(self) -> int:
        """The head with all buffers placed freely."""
        return self.packing.size_bytes

    @property
    def in_place_bytes(self) -> int:
        """The head with all buffers placed freely and in-place operators."""
        return self.in_place_packing.size_bytes

    @property
    def placings(self) -> dict[str, Placing]:
        """The plans to compare, by name: TFLM's own, packed, in place, and the one that ships."""
        return {
            "greedy": self.stock,
            "packed": Placing(self.graph, self.entries, self.packing),
            "in_place": Placing(self.graph, self.entries, self.in_place_packing),
            "shipped": Placing(self.graph, self.entries, self.plan),
        }

    @property
    def in_place_count(self) -> int:
        """The number of outputs that share bytes with an input, whoever placed them."""
        return len({pair.output for pair in self.plan.shared})

    @property
    def optimal(self) -> bool:
        """Whether it is proven that no plan can be smaller."""
        return self.head_bytes == self.lower_bound_bytes


def plan_head(requests: Requests, *, offline: str = "auto") -> HeadPlan:
    """The smallest head found for `requests`; never above TFLM's own, where that meets the constraints.

    offline: "auto" gives offsets where they make the head smaller or a constraint needs them, "always" also where they
    change nothing, "never" leaves all to TFLM. A plan that the model carries is ignored: `given_plan` checks that one.
    PlanError for constraints that cannot be met.
    """
    where = requests.model.where
    plan_variables = requests.constraints.plan_variables
    if offline == "never" and plan_variables:
        raise PlanError("variables cannot be planned when all is left to TFLM", where=where)
    if offline not in OFFLINE:
        raise PlanError(f"offline={offline!r} is none of {', '.join(OFFLINE)}", where=where)
    problem, in_place_problem = requests.problem(requests.required), requests.in_place_problem()
    stock = greedy(problem)
    packings = [packed(problem, stock)]
    if in_place_problem.pairs and offline != "never":
        packings.append(packed(in_place_problem, stock))
    if requests.places_variables:
        offline = "always"
    best = _smallest(requests, in_place_problem, packings, stock, offline)
    if best is None:
        what = "TFLM's own planner cannot meet the preserve and alignment options"
        raise PlanError(what, where=where, hint="Plan with offsets, or with fewer options.")
    plan, given = best
    return HeadPlan(
        graph=requests.graph,
        entries=requests.entries,
        problem=in_place_problem,
        plan=plan,
        offsets=None if plan.method == "greedy" else requests.metadata(given),
        linear_bytes=linear(problem).size_bytes,
        stock=Placing(requests.graph, requests.entries, stock),
        packing=packings[0],
        in_place_packing=min(packings, key=lambda packing: packing.size_bytes),
        lower_bound_bytes=packings[-1].proven_bytes,
        unknown=requests.unknown,
        variables_planned=plan_variables,
        in_place_check=requests.in_place_check,
    )


def _smallest(
    requests: Requests, problem: Problem, packings: list[Plan], stock: Plan, offline: str
) -> tuple[Plan, list[int | None]] | None:
    """The smallest simulated plan of all candidates, and its offsets; None when none meets the constraints."""
    least = min(plan.size_bytes for plan in packings)
    best: tuple[Plan, list[int | None]] | None = None
    for offsets in candidate_offsets(requests, packings, offline):
        below = None if best is None else best[0].size_bytes
        plan = simulate(requests, problem, offsets, stock=stock, below=below)
        if plan is not None:
            best = plan, offsets
        if best is not None and best[0].size_bytes == least:
            break
    return best


def with_offsets(head: HeadPlan, requests: Requests, rows: tuple[int, ...] | None) -> HeadPlan | None:
    """`head` with the metadata `rows` instead of its own, None for TFLM's own placing.

    `requests` are those of the kernel library to simulate, whose in-place check decides. None when the plan violates
    a constraint.
    """
    plan = simulate(requests, head.problem, requests.given_offsets(rows))
    return None if plan is None else replace(head, plan=plan, offsets=rows, in_place_check=requests.in_place_check)

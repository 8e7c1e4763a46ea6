# SPDX-License-Identifier: Apache-2.0
"""Heads and arenas of one model with one kernel library, without the choice between orders and libraries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tflm_zephyr.arena import Constraints, LibraryArena, PlanRequest, head, plan, scheduling
from tflm_zephyr.arena.arena_size import ArenaSize
from tflm_zephyr.arena.arena_size import arena_size as size_of
from tflm_zephyr.arena.requests import requests_of
from tflm_zephyr.arena.tail import estimate_tail
from tflm_zephyr.kernels import KernelLibrary
from tflm_zephyr.model import Model, analyse
from tflm_zephyr.tflm import StructSizes, cortex_m_sizes


def plan_head(
    model: Model,
    library: KernelLibrary,
    *,
    in_place: Sequence[KernelLibrary] = (),
    offline: str = "auto",
    preallocated: Iterable[int] = (),
    **constraints: Any,
) -> head.HeadPlan:
    """The smallest head with the kernels of `library`, and in-place pairs as far as all of `in_place` allow them."""
    wanted = Constraints(preallocated=tuple(preallocated), **constraints)
    return head.plan_head(requests_of(model, library, wanted, in_place=in_place), offline=offline)


def arena_size(
    planned: head.HeadPlan, library: KernelLibrary, *, given: int | None = None, sizes: StructSizes | None = None
) -> ArenaSize:
    """The arena for a head and its tail with the kernels of `library`."""
    tail = estimate_tail(planned.graph, library, sizes, variables_planned=planned.variables_planned)
    return size_of(planned, tail, given=given)


def better_order(
    model: Model, library: KernelLibrary, *, in_place: bool = False
) -> tuple[Model, scheduling.Order] | None:
    """The model in a better order of its operators, None where there is none."""
    return scheduling.better_order(analyse(model, library.scratch), library, in_place=in_place)


def best_order(model: Model, library: KernelLibrary, *, in_place: bool = False) -> scheduling.Order:
    """The order of the model's operators that needs fewest bytes at once."""
    graph = analyse(model, library.scratch)
    return scheduling._best_order(graph, library, scheduling._dependencies(graph.model, library), in_place)


def arenas(
    model: Model, libraries: Sequence[KernelLibrary], *, in_place: bool = False, offline: str = "auto"
) -> tuple[LibraryArena, ...]:
    """The arenas of one common plan for `libraries`, the operators in the model's order."""
    request = PlanRequest(tuple(libraries), cortex_m_sizes(), in_place=in_place, scheduling="model", offline=offline)
    return plan(model, request).arenas

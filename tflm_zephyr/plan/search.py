# SPDX-License-Identifier: Apache-2.0
"""The packing planner: never worse than TFLM's greedy rule, the same plan for the same problem and seed."""

from __future__ import annotations

from collections.abc import Callable

from tflm_zephyr.plan.greedy import first_fit, greedy
from tflm_zephyr.plan.problem import Plan, Problem, lower_bound

_Key = Callable[[int], tuple[int, ...]]


def pack(problem: Problem, *, capacity: int | None = None, seed: int = 0) -> Plan:
    """The smallest plan found; optimal, and proven so, when its size is `lower_bound(problem)`.

    The search ends there, or at `capacity` bytes when that is given, or when its work budget is spent.
    """
    goal = max(lower_bound(problem), capacity or 0)
    best = greedy(problem)
    for order in _orders(problem):
        if best.size_bytes <= goal:
            break
        plan = first_fit(problem, order, "packed")
        if plan.size_bytes < best.size_bytes:
            best = plan
    return best


def _orders(problem: Problem) -> list[list[int]]:
    sizes, buffers = problem.sizes, problem.buffers
    free = [i for i, buffer in enumerate(buffers) if buffer.offset is None]
    life = [buffer.upper - buffer.lower for buffer in buffers]
    keys: tuple[_Key, ...] = (
        lambda i: (-sizes[i] * life[i],),
        lambda i: (-life[i], -sizes[i]),
        lambda i: (-sizes[i], -life[i]),
        lambda i: (buffers[i].lower, -life[i]),
        lambda i: (-buffers[i].upper, -life[i]),
    )
    return [sorted(free, key=key) for key in keys]

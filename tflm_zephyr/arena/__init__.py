# SPDX-License-Identifier: Apache-2.0
"""Model + kernels -> the planned head, the tail and the arena's size."""

from __future__ import annotations

from tflm_zephyr.arena.common_plan import Need, needs, needs_of_plan
from tflm_zephyr.arena.head import ArenaSize, HeadPlan, arena_size, given_plan, head_with_plan, plan_head
from tflm_zephyr.arena.plan_file import load_plan
from tflm_zephyr.arena.preallocated import preallocated_tensors
from tflm_zephyr.arena.scheduling import better_order, reordered
from tflm_zephyr.arena.simulation import SEARCH_WORK
from tflm_zephyr.arena.tail import SLACK_BYTES, TailEstimate, estimate_tail, shared_arena_bytes

__all__ = [
    "SEARCH_WORK",
    "SLACK_BYTES",
    "ArenaSize",
    "HeadPlan",
    "Need",
    "TailEstimate",
    "arena_size",
    "better_order",
    "estimate_tail",
    "given_plan",
    "head_with_plan",
    "load_plan",
    "needs",
    "needs_of_plan",
    "plan_head",
    "preallocated_tensors",
    "reordered",
    "shared_arena_bytes",
]

# SPDX-License-Identifier: Apache-2.0
"""Model + kernels -> ArenaPlan: the operators' order, the planned head, the tail and the arena's size."""

from tflm_zephyr.arena.arena_plan import ArenaPlan, LibraryArena, PlanRequest, on_target, plan
from tflm_zephyr.arena.arena_size import ArenaSize
from tflm_zephyr.arena.candidate_offsets import SEARCH_WORK
from tflm_zephyr.arena.given_offsets import given_plan
from tflm_zephyr.arena.head import HeadPlan
from tflm_zephyr.arena.plan_file import load_plan
from tflm_zephyr.arena.preallocated import preallocated_tensors
from tflm_zephyr.arena.requests import Constraints
from tflm_zephyr.arena.shared_arena import shared_arena
from tflm_zephyr.arena.static_plan import static_arena
from tflm_zephyr.arena.tail import SLACK_BYTES

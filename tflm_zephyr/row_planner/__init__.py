# SPDX-License-Identifier: Apache-2.0
"""Chain -> operations that run row by row, their order, and the rows that are kept. Knows nothing of models."""

from __future__ import annotations

from tflm_zephyr.row_planner.chain import Chain, Operation, RowTensor, Way, Window
from tflm_zephyr.row_planner.front import Cut, Segment, front
from tflm_zephyr.row_planner.loops import Loop, folded, unfolded
from tflm_zephyr.row_planner.places import row_places
from tflm_zephyr.row_planner.schedule import Pace, Schedule, Step, scheduled

__all__ = [
    "Chain",
    "Cut",
    "Loop",
    "Operation",
    "Pace",
    "RowTensor",
    "Schedule",
    "Segment",
    "Step",
    "Way",
    "Window",
    "folded",
    "front",
    "row_places",
    "scheduled",
    "unfolded",
]

# SPDX-License-Identifier: Apache-2.0
"""Chain -> operations that run row by row, their order, and the rows that are kept. Knows nothing of models."""

from tflm_zephyr.row_planner.chain import Chain, Operation, RowTensor, Way, Window
from tflm_zephyr.row_planner.dry_runs import DryRuns
from tflm_zephyr.row_planner.front import Cut, Segment, front
from tflm_zephyr.row_planner.loops import Loop, folded, unfolded
from tflm_zephyr.row_planner.schedule import Pace, Schedule, Step
from tflm_zephyr.row_planner.sliding import Hop, Sliding, choices, sliding

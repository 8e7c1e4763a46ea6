# SPDX-License-Identifier: Apache-2.0
"""Packs buffers with lifespans into one arena: Problem -> Plan. Knows nothing of models or TFLM."""

from tflm_zephyr.memory_planner import csv_files
from tflm_zephyr.memory_planner.checker import check_plan
from tflm_zephyr.memory_planner.greedy_planner import greedy
from tflm_zephyr.memory_planner.linear_planner import linear
from tflm_zephyr.memory_planner.packing import pack
from tflm_zephyr.memory_planner.problem import (
    Buffer,
    InPlacePair,
    Plan,
    Problem,
    align_up,
    lower_bound,
    most_saved,
)

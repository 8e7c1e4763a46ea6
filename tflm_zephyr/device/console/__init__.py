# SPDX-License-Identifier: Apache-2.0
"""The app's line protocol -> results of its self-test."""

from tflm_zephyr.device.console.arena_search import (
    MeasuredArena,
    SelfTestEnding,
    measure_arenas,
    self_test_endings,
)
from tflm_zephyr.device.console.gather import gather_results
from tflm_zephyr.device.console.result import Arena, Check, Output, RunResult, SelfTestRun

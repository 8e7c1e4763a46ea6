# SPDX-License-Identifier: Apache-2.0
"""The app's line protocol -> results of its self-test."""

from __future__ import annotations

from tflm_zephyr.device.console.arena_search import Ended, MeasuredArena, endings, measure_arenas
from tflm_zephyr.device.console.gather import gather_results
from tflm_zephyr.device.console.result import Arena, Check, InvocationRecord, Output, RunResult

__all__ = [
    "Arena",
    "Check",
    "Ended",
    "InvocationRecord",
    "MeasuredArena",
    "Output",
    "RunResult",
    "endings",
    "gather_results",
    "measure_arenas",
]

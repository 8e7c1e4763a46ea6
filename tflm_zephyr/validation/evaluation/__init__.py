# SPDX-License-Identifier: Apache-2.0
"""A labelled data set through one device or several at once."""

from __future__ import annotations

from tflm_zephyr.validation.evaluation.data import load_labelled
from tflm_zephyr.validation.evaluation.pool import Opener, Pool
from tflm_zephyr.validation.evaluation.running import Effort, effort, run_all
from tflm_zephyr.validation.evaluation.state import SampleResult

__all__ = [
    "Effort",
    "Opener",
    "Pool",
    "SampleResult",
    "effort",
    "load_labelled",
    "run_all",
]

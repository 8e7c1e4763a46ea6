# SPDX-License-Identifier: Apache-2.0
"""A labelled data set through one device or several at once."""

from tflm_zephyr.validation.evaluation.data import Labelled, load_labelled
from tflm_zephyr.validation.evaluation.pool import Opener, Pool
from tflm_zephyr.validation.evaluation.running import RunEvents, TickStatistics, run_all, tick_statistics
from tflm_zephyr.validation.evaluation.state import SampleResult

# SPDX-License-Identifier: Apache-2.0
"""The result of an app with one model."""

from __future__ import annotations

from typing import Any

from tflm_zephyr.device.console.gather import gather_results
from tflm_zephyr.device.console.result import RunResult
from tflm_zephyr.device.transport.link import Link


def gather_result(link: Link, **more: Any) -> RunResult:
    """The one result that comes over `link`; see gather_results."""
    return gather_results(link, models=1, **more)[0]

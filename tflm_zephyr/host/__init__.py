# SPDX-License-Identifier: Apache-2.0
"""TFLM and LiteRT on this machine, each run in a child process."""

from tflm_zephyr.host import golden_outputs
from tflm_zephyr.host.golden_outputs import OnRun, seeded_inputs
from tflm_zephyr.host.run import (
    NAMES,
    PACKAGES,
    HostLimits,
    HostRun,
    TailSection,
    available,
    recorded_sections,
    run_many,
)

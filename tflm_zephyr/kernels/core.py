# SPDX-License-Identifier: Apache-2.0
"""The build of kernels: core, TFLM revision and compile-time choices that their sizes depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tflm_zephyr.tflm import PINNED_REVISION


@dataclass(frozen=True)
class Core:
    """The build's facts that kernels' sizes depend on, besides tensors; `libraries.kernel_library` explains the fields.

    `revision` is one of revisions.REVISIONS.
    """

    dsp: bool = False
    mve: bool = False
    pointer_bytes: int = 4
    optimise_for: str = ""
    transpose_conv: bool = False
    revision: str = PINNED_REVISION


# Extensions by core, which CMSIS-NN reads from __ARM_FEATURE_DSP and __ARM_FEATURE_MVE. A Cortex-M33 has DSP
# where its maker chose it (nRF9160: yes; QEMU's mps2/an521 CPU 0: only with its option).
CORES: Mapping[str, Core] = MappingProxyType(
    {
        "cortex-m0": Core(),
        "cortex-m0plus": Core(),
        "cortex-m23": Core(),
        "cortex-m3": Core(),
        "cortex-m33": Core(dsp=True),
        "cortex-m33+nodsp": Core(),
        "cortex-m4": Core(dsp=True),
        "cortex-m55": Core(dsp=True, mve=True),
        "cortex-m7": Core(dsp=True),
        "cortex-m85": Core(dsp=True, mve=True),
    }
)

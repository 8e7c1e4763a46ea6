# SPDX-License-Identifier: Apache-2.0
"""TFLM's kernel libraries by name and core.

"reference" are TFLM's own kernels, "cmsis_nn" those that Zephyr's tflite-micro module compiles with
CONFIG_TENSORFLOW_LITE_MICRO_CMSIS_NN_KERNELS: all of micro/kernels/cmsis_nn but transpose_conv.cc, and the reference
kernels of the other operators.
"""

from __future__ import annotations

from types import MappingProxyType

from tflm_zephyr.errors import AppError
from tflm_zephyr.kernels.core import Core
from tflm_zephyr.kernels.library import KernelLibrary
from tflm_zephyr.kernels.registry import kernels_of
from tflm_zephyr.kernels.revisions import PACKAGE, REVISIONS
from tflm_zephyr.tflm import known_revision

NAMES = ("cmsis_nn", "reference")


def kernel_library(
    name: str,
    *,
    dsp: bool = False,
    mve: bool = False,
    pointer_bytes: int = 4,
    optimise_for: str = "",
    transpose_conv: bool = False,
    revision: str = "",
) -> KernelLibrary:
    """The library `name` ("reference" or "cmsis_nn") for a core; AppError for any other name.

    dsp, mve: the core has the DSP extension, or Helium (core.CORES has both by core name). pointer_bytes: 8 for TFLM
    on a 64-bit host. For cmsis_nn: optimise_for, "speed" or "size" when the build defines
    KERNELS_OPTIMIZED_FOR_..., which Zephyr's does not; transpose_conv, True when the build takes
    kernels/cmsis_nn/transpose_conv.cc, where Zephyr's module takes the reference kernel. revision: the TFLM commit,
    "" for the pinned one; an unknown commit gets the facts of the newest known kernels (tflm.known_revision).
    """
    if name not in NAMES:
        raise AppError(f"no kernel library '{name}'", hint=f"Choose one of {', '.join(NAMES)}")
    core = Core(dsp or mve, mve, pointer_bytes, optimise_for, transpose_conv, known_revision(revision, REVISIONS))
    return KernelLibrary(name, core, MappingProxyType(dict(kernels_of(name, core.revision))))


def host() -> KernelLibrary:
    """The reference kernels of TFLM on this machine: the tflite-micro package, 64 bits."""
    return kernel_library("reference", pointer_bytes=8, revision=PACKAGE)

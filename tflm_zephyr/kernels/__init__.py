# SPDX-License-Identifier: Apache-2.0
"""Kernel libraries: scratch, persistent bytes, in-place distances and their check, MACs, code size."""

from __future__ import annotations

from tflm_zephyr.kernels import libraries
from tflm_zephyr.kernels.base import CORES, Core, KernelLibrary
from tflm_zephyr.kernels.code_size import FPU, RESOLVER_ENTRY_BYTES, KernelNeed, all_tables, kernel_need, load_table
from tflm_zephyr.kernels.in_place.allowed import (
    CMSIS_NN_REVISION,
    TensorOverlap,
    kind_of,
    other_kernels,
    overlaps,
    rules_of,
    untried,
)
from tflm_zephyr.kernels.in_place.checker import why_unsafe
from tflm_zephyr.kernels.in_place.rules import Rule
from tflm_zephyr.kernels.libraries import every_core, kernel_library, on_core
from tflm_zephyr.kernels.variants import (
    OperatorUse,
    has_cmsis_nn,
    miscomputed,
    typed_registration,
    uses_of,
    why_reference,
)
from tflm_zephyr.kernels.work import cmsis_nn_work

__all__ = [
    "CMSIS_NN_REVISION",
    "CORES",
    "FPU",
    "RESOLVER_ENTRY_BYTES",
    "Core",
    "KernelLibrary",
    "KernelNeed",
    "OperatorUse",
    "Rule",
    "TensorOverlap",
    "all_tables",
    "cmsis_nn_work",
    "every_core",
    "has_cmsis_nn",
    "kernel_library",
    "kernel_need",
    "kind_of",
    "libraries",
    "load_table",
    "miscomputed",
    "on_core",
    "other_kernels",
    "overlaps",
    "rules_of",
    "typed_registration",
    "untried",
    "uses_of",
    "why_reference",
    "why_unsafe",
]

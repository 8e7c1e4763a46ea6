# SPDX-License-Identifier: Apache-2.0
"""Kernels of TFLM by library, core and revision: memory, in-place distances and their check, types, MACs, code size."""

from __future__ import annotations

from tflm_zephyr.kernels import libraries
from tflm_zephyr.kernels.code_size import (
    FPU,
    RESOLVER_ENTRY_BYTES,
    KernelNeed,
    KernelTable,
    all_tables,
    kernel_need,
    load_table,
)
from tflm_zephyr.kernels.core import CORES, Core
from tflm_zephyr.kernels.in_place.checker import why_unsafe
from tflm_zephyr.kernels.in_place.tensors import InPlaceTensors, in_place_tensors, kind_of, untried
from tflm_zephyr.kernels.libraries import kernel_library
from tflm_zephyr.kernels.library import KernelLibrary
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.kernels.operators.padding import AxisSlice, axis_slices
from tflm_zephyr.kernels.operators.resize import takes_half_pixels
from tflm_zephyr.kernels.quantisation import scale_of, zero_point_of
from tflm_zephyr.kernels.revisions import CMSIS_NN_REVISION, other_kernels, same_cmsis_nn
from tflm_zephyr.kernels.type_rules import check_types
from tflm_zephyr.kernels.uses import (
    cmsis_nn_work,
    has_cmsis_nn,
    keeps_state,
    looks_twice,
    macs,
    miscomputed,
    reads_positions,
    typed_registration,
    uses_of,
    why_reference,
)

__all__ = [
    "CMSIS_NN_REVISION",
    "CORES",
    "FPU",
    "RESOLVER_ENTRY_BYTES",
    "AxisSlice",
    "Core",
    "InPlaceTensors",
    "KernelLibrary",
    "KernelNeed",
    "KernelTable",
    "Node",
    "all_tables",
    "axis_slices",
    "check_types",
    "cmsis_nn_work",
    "has_cmsis_nn",
    "in_place_tensors",
    "keeps_state",
    "kernel_library",
    "kernel_need",
    "kind_of",
    "libraries",
    "load_table",
    "looks_twice",
    "macs",
    "miscomputed",
    "other_kernels",
    "reads_positions",
    "same_cmsis_nn",
    "scale_of",
    "takes_half_pixels",
    "typed_registration",
    "untried",
    "uses_of",
    "why_reference",
    "why_unsafe",
    "zero_point_of",
]

# SPDX-License-Identifier: Apache-2.0
"""Kernels of TFLM by library, core and revision: memory, in-place distances and their check, types, MACs, code size."""

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
from tflm_zephyr.kernels.type_rules import HINTS, check_types
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

# SPDX-License-Identifier: Apache-2.0
"""TFLM revisions as values, op resolver, sources, struct sizes."""

from tflm_zephyr.tflm import op_resolver, sources
from tflm_zephyr.tflm.op_resolver import CustomOperator, shipped_operator_table
from tflm_zephyr.tflm.pins import (
    BOARD_SIZES_FILE,
    KERNEL_SIZES_FILE,
    KNOWN_PINS,
    PINNED_REVISION,
    PINNED_ZEPHYR,
    ZEPHYR_4_4_REVISION,
    data_folder,
    known_revision,
    sized_revision,
)
from tflm_zephyr.tflm.revision import TflmRevision, tflm_of
from tflm_zephyr.tflm.struct_sizes import ALIGNMENT, ARM, ILP32, LP64, TARGETS, StructSizes, cortex_m_sizes
from tflm_zephyr.tflm.zephyr_version import ZephyrVersion

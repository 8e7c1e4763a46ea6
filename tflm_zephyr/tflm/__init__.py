# SPDX-License-Identifier: Apache-2.0
"""What a TensorFlow Lite Micro is: op resolver, sources, struct sizes."""

from __future__ import annotations

from tflm_zephyr.tflm import op_resolver, sources
from tflm_zephyr.tflm.op_resolver import CustomOperator, shipped_operator_table
from tflm_zephyr.tflm.pins import PINNED_REVISION, ZEPHYR_4_4_REVISION
from tflm_zephyr.tflm.struct_sizes import (
    BUILTIN_DATA,
    CORTEX_M,
    CORTEX_M_STATIC,
    PREALLOCATED_ALLOCATOR,
    StructSizes,
    with_layout,
)
from tflm_zephyr.tflm.typed_registrations import typed_for

__all__ = [
    "BUILTIN_DATA",
    "CORTEX_M",
    "CORTEX_M_STATIC",
    "PINNED_REVISION",
    "PREALLOCATED_ALLOCATOR",
    "ZEPHYR_4_4_REVISION",
    "CustomOperator",
    "StructSizes",
    "op_resolver",
    "shipped_operator_table",
    "sources",
    "typed_for",
    "with_layout",
]

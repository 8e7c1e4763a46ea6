# SPDX-License-Identifier: Apache-2.0
"""What a board is, and the kernels and the main stack that an app for it gets."""

from __future__ import annotations

from tflm_zephyr.boards.board import Board, QemuSpec, known_boards, load_board, stem_of
from tflm_zephyr.boards.kernel_choice import (
    AUTO,
    CMSIS_NN,
    REFERENCE,
    KernelChoice,
    choose,
    kernel_libraries,
    libraries_of,
)
from tflm_zephyr.boards.main_stack import DEBUG_BYTES, UNMEASURED_BYTES, least_main_stack_bytes, main_stack_bytes
from tflm_zephyr.boards.zephyr_version import PINNED_ZEPHYR, ZephyrVersion

__all__ = [
    "AUTO",
    "CMSIS_NN",
    "DEBUG_BYTES",
    "PINNED_ZEPHYR",
    "REFERENCE",
    "UNMEASURED_BYTES",
    "Board",
    "KernelChoice",
    "QemuSpec",
    "ZephyrVersion",
    "choose",
    "kernel_libraries",
    "known_boards",
    "least_main_stack_bytes",
    "libraries_of",
    "load_board",
    "main_stack_bytes",
    "stem_of",
]

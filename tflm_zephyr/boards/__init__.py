# SPDX-License-Identifier: Apache-2.0
"""Boards, and the kernels and the main stack of an app for them."""

from tflm_zephyr.boards.board import Board, QemuSpec, hal_of, known_boards, load_board, stem_of
from tflm_zephyr.boards.kernel_choice import (
    AUTO,
    CMSIS_NN,
    REFERENCE,
    KernelChoice,
    choose,
    kernel_libraries,
    libraries_of,
)
from tflm_zephyr.boards.main_stack import (
    DEBUG_BYTES,
    UNMEASURED_BYTES,
    kernel_stack_bytes,
    least_main_stack_bytes,
    main_stack_bytes,
)

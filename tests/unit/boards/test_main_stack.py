# SPDX-License-Identifier: Apache-2.0
"""The main stack follows from the kernels' measured depths."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tflm_zephyr.boards.board import Board, load_board
from tflm_zephyr.boards.main_stack import APP_BYTES, DEBUG_BYTES, MARGIN, UNMEASURED_BYTES, main_stack_bytes
from tflm_zephyr.kernels.code_size import load_table

M3 = load_board("mps2/an385")
REFERENCE, BOTH = ("reference",), ("cmsis_nn", "reference")


def test_the_deepest_of_tflm_and_its_kernels_counts() -> None:
    table = load_table("reference", "cortex-m3")
    deep = max(table.rows, key=lambda name: table.rows[name].stack_bytes)
    want = (APP_BYTES + table.to_kernels_bytes + table.rows[deep].stack_bytes) * (1 + MARGIN)
    assert want <= main_stack_bytes([deep, "Register_ABS"], REFERENCE, [M3])
    shallow = main_stack_bytes(["Register_ZEROS_LIKE"], REFERENCE, [M3])
    assert (APP_BYTES + table.own_bytes) * (1 + MARGIN) <= shallow < main_stack_bytes([deep], REFERENCE, [M3])


def test_a_multiple_of_64_and_debug_adds() -> None:
    plain = main_stack_bytes(["Register_CONV_2D"], REFERENCE, [M3])
    assert plain % 64 == 0
    assert main_stack_bytes(["Register_CONV_2D"], REFERENCE, [M3], debug=True) == plain + DEBUG_BYTES


def test_the_most_over_boards_and_libraries() -> None:
    boards = [M3, load_board("mps2/an521/cpu0")]
    each = [main_stack_bytes(["Register_CONV_2D_INT8"], ("cmsis_nn",), [board]) for board in boards]
    assert main_stack_bytes(["Register_CONV_2D_INT8"], ("cmsis_nn",), boards) == max(each)


@pytest.mark.parametrize(
    "board", [Board("native_sim"), replace(M3, core="cortex-m55"), Board("qemu_riscv32", arch="riscv")]
)
def test_what_was_not_measured_gets_ample_room(board: Board) -> None:
    assert main_stack_bytes(["Register_CONV_2D"], BOTH, [board]) == UNMEASURED_BYTES


@pytest.mark.parametrize("revision", ["", "f" * 40])
def test_another_tflm_gets_ample_room(revision: str) -> None:
    measured = main_stack_bytes(["Register_CONV_2D"], REFERENCE, [M3])
    other = main_stack_bytes(["Register_CONV_2D"], REFERENCE, [M3], revision=revision)
    assert measured < other == UNMEASURED_BYTES
    table = load_table("reference", "cortex-m3")
    deep = max(table.rows, key=lambda name: table.rows[name].stack_bytes)
    assert main_stack_bytes([deep], REFERENCE, [M3], revision=revision) >= main_stack_bytes([deep], REFERENCE, [M3])


def test_a_kernel_of_the_users_gets_ample_room() -> None:
    assert main_stack_bytes(["Register_ABS", "Register_MY_OP()"], REFERENCE, [M3]) == UNMEASURED_BYTES

# SPDX-License-Identifier: Apache-2.0
"""Described boards against the devicetrees of a real Zephyr."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tflm_zephyr.boards import Board, known_boards, load_board
from tflm_zephyr.build.board_targets import in_workspace
from tflm_zephyr.build.workspace import Workspace

pytestmark = pytest.mark.zephyr


@pytest.mark.parametrize("name", known_boards())
def test_a_described_board_is_zephyrs(workspace: Workspace, name: str) -> None:
    """Core, flash and RAM, with the board's overlay."""
    if not workspace.zephyr_version.startswith("4.1."):
        pytest.skip("board.yaml has the numbers of Zephyr 4.1; those of others come from their devicetree")
    board = load_board(name)
    if board.hal and board.hal not in workspace.modules:
        pytest.skip(f"{name}'s devicetree needs the module {board.hal}, which the workspace lacks")
    assert in_workspace(board, workspace) == replace(board, arch="" if board.cortex_m else "riscv")
    assert in_workspace(Board(name), workspace).core == (board.core if board.cortex_m else "")


def test_boards_that_are_not_described(workspace: Workspace) -> None:
    assert in_workspace(Board("qemu_cortex_m0"), workspace).core == "cortex-m0"
    assert in_workspace(Board("nrf5340dk/nrf5340/cpunet"), workspace).ram_kib == 64
    assert in_workspace(Board("qemu_riscv64"), workspace).core == ""

# SPDX-License-Identifier: Apache-2.0
"""The shipped table of boards."""

from __future__ import annotations

import json

import pytest

from tflm_zephyr.boards.board import known_boards, load_board
from tflm_zephyr.footprint import board_sizes
from tflm_zephyr.footprint.board_sizes import board_base, dump_bases, measured_boards
from tflm_zephyr.kernels.code_size import load_table


def test_every_described_board_was_measured() -> None:
    assert measured_boards() == known_boards()


@pytest.mark.parametrize("name", known_boards())
def test_a_base_is_an_app_that_fits(name: str) -> None:
    base, board = board_base(name), load_board(name)
    assert base is not None and board.flash_kib is not None and board.ram_kib is not None
    assert base.board == name
    assert 8_000 < base.flash_bytes < board.flash_kib * 1024
    assert 1_000 < base.ram_bytes + base.main_stack_bytes < board.ram_kib * 1024
    assert base.main_stack_bytes >= 1024
    assert base.core.startswith(board.core.partition("+")[0])
    assert base.off_flash_bytes[0] <= 0 <= base.off_flash_bytes[1]
    assert all(name.startswith("lib") and ".a(" in name for name in base.linked)
    # Some of what kernels need of the compiler's libraries is in every app.
    assert base.linked & load_table("reference", base.core).library.keys()


def test_a_board_that_was_not_measured() -> None:
    assert board_base("qemu_cortex_m3") is None


def test_the_table_reads_back(monkeypatch: pytest.MonkeyPatch) -> None:
    bases = {name: base for name in measured_boards() if (base := board_base(name)) is not None}
    text = dump_bases(bases)
    json.loads(text)
    monkeypatch.setattr(board_sizes, "package_data", lambda name: text)
    board_sizes._bases.cache_clear()
    try:
        assert board_sizes._bases() == bases
    finally:
        board_sizes._bases.cache_clear()

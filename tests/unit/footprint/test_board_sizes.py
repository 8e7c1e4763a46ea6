# SPDX-License-Identifier: Apache-2.0
"""The shipped table of boards."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tflm_zephyr.boards.board import known_boards, load_board
from tflm_zephyr.footprint import board_sizes
from tflm_zephyr.footprint.board_sizes import board_base, dump_bases, measured_boards
from tflm_zephyr.kernels.code_size import load_table
from tflm_zephyr.tflm.pins import KNOWN_PINS, PINNED_REVISION, sized_revision

SIZED = [revision for revision in KNOWN_PINS if sized_revision(revision) == revision]


MEASURED = [(name, revision) for revision in SIZED for name in measured_boards(revision)]


@pytest.mark.parametrize("revision", SIZED)
def test_measured_boards_are_described(revision: str) -> None:
    assert set(measured_boards(revision)) <= set(known_boards())
    assert {"mps2/an385", "mps2/an386", "mps2/an521/cpu0", "nrf9160dk/nrf9160/ns"} <= set(measured_boards(revision))


@pytest.mark.parametrize(("name", "revision"), MEASURED)
def test_a_base_is_an_app_that_fits(name: str, revision: str) -> None:
    base, board = board_base(name, revision), load_board(name)
    assert base is not None and board.flash_kib is not None and board.ram_kib is not None
    assert base.board == name
    assert 8_000 < base.flash_bytes < board.flash_kib * 1024
    assert 1_000 < base.ram_bytes + base.main_stack_bytes < board.ram_kib * 1024
    assert base.main_stack_bytes >= 1024
    assert base.core.startswith(board.core.partition("+")[0])
    assert base.off_flash_bytes[0] <= 0 <= base.off_flash_bytes[1]
    assert all(name.startswith("lib") and ".a(" in name for name in base.linked)
    # Some of what kernels need of the compiler's libraries is in every app.
    assert base.linked & load_table("reference", base.core, revision).library.keys()


def test_a_board_that_was_not_measured() -> None:
    assert board_base("qemu_cortex_m3") is None


def test_the_base_is_of_the_zephyr_series_if_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    one = board_sizes.all_bases()[0]
    newer = replace(one, zephyr="4.1.99", flash_bytes=one.flash_bytes + 1)
    monkeypatch.setattr(board_sizes, "all_bases", lambda revision: (one, newer))
    assert board_base(one.board, series="4.1") is one
    assert board_base(one.board, series="4.1.99") is newer
    assert board_base(one.board, series="4.0") is newer


def test_the_table_reads_back(monkeypatch: pytest.MonkeyPatch) -> None:
    bases = board_sizes.all_bases()
    text = dump_bases(reversed(bases), PINNED_REVISION)
    assert json.loads(text)["revision"] == PINNED_REVISION
    monkeypatch.setattr(board_sizes, "package_data", lambda name: text)
    board_sizes.all_bases.cache_clear()
    try:
        assert board_sizes.all_bases() == bases
    finally:
        board_sizes.all_bases.cache_clear()

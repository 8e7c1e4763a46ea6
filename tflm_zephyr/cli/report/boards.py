# SPDX-License-Identifier: Apache-2.0
"""The tables of `boards` and `ports`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tflm_zephyr.boards import Board
    from tflm_zephyr.device.transport import SerialPort


def boards(found: Sequence[Board]) -> str:
    """The table of `boards`."""
    rows: list[tuple[str, ...]] = [("board", "core", "flash KiB", "RAM KiB", "runs")]
    sizes = [[str(kib or "-") for kib in (board.flash_kib, board.ram_kib)] for board in found]
    rows += [(b.name, b.core, *kib, "QEMU" if b.qemu else "serial port") for b, kib in zip(found, sizes, strict=True)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)


def board_json(board: Board) -> dict[str, Any]:
    """A described board."""
    return {key: value for key, value in asdict(board).items() if key != "files"}


def ports(found: Sequence[SerialPort]) -> str:
    """The table of `ports`."""
    if not found:
        return "No serial ports."
    return "\n".join(
        f"{p.device}  {p.description}{f'  serial number {p.serial_number}' if p.serial_number else ''}" for p in found
    )

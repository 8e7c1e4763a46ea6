# SPDX-License-Identifier: Apache-2.0
"""The main thread's stack: the bytes of the interpreter and the deepest kernel, and a margin.

The bytes of TFLM and of each kernel come from their machine code (see kernels.code_size). They are upper bounds, so the
margin is only for the app's own frames. A Cortex-M that was not measured takes the deeper of the two measured cores
that are nearest to it, one without and one with a floating point unit; the margin covers that, too.
"""

from __future__ import annotations

from collections.abc import Iterable

from tflm_zephyr.boards.board import Board
from tflm_zephyr.boards.kernel_choice import libraries_of
from tflm_zephyr.kernels import CORES, FPU, KernelNeed, KernelTable, all_tables, kernel_need, load_table
from tflm_zephyr.memory_planner import align_up
from tflm_zephyr.tflm import PINNED_REVISION, sized_revision

# main(), the self-test and the model's Init() or Invoke() up to TFLM, printing, and the frame of an interrupt, which a
# Cortex-M with a floating point unit stores in 104 bytes.
APP_BYTES = 256
MARGIN = 1 / 8
_STEP = 64
UNMEASURED_BYTES = 4096
"""For kernels that were not measured and cores that no measured one is like: kernels of the user's, Helium's, other
architectures'."""
DEBUG_BYTES = 1024
"""Added by printf where TFLM's messages are kept."""

LINK_BYTES = 512
"""Taken by answering a host in the middle of an invocation."""


def least_main_stack_bytes(revision: str = PINNED_REVISION) -> int:
    """Bytes of stack of the interpreter without any kernel, the least of all measured cores: no app runs in less.

    revision: the commit of TFLM, "" when git cannot tell.
    """
    return min(table.own_bytes for table in all_tables(sized_revision(revision)))


def main_stack_bytes(
    registrations: Iterable[str],
    names: tuple[str, ...],
    boards: Iterable[Board],
    *,
    revision: str = PINNED_REVISION,
    debug: bool = False,
    host_link: bool = False,
) -> int:
    """Bytes for an app that adds `registrations` ("Register_CONV_2D"), the most over its boards.

    names: the kernel libraries that the app carries. revision: the commit of TFLM, "" when git cannot tell; for one
    that was not measured the result is at least UNMEASURED_BYTES.
    """
    wanted = tuple(registrations)
    needs = [_need(wanted, library, board, revision) for library, board in _pairs(names, boards)]
    return max(needs, default=UNMEASURED_BYTES) + (DEBUG_BYTES if debug else 0) + (LINK_BYTES if host_link else 0)


def kernel_stack_bytes(
    registrations: Iterable[str], names: tuple[str, ...], boards: Iterable[Board], *, revision: str = PINNED_REVISION
) -> int | None:
    """Bytes that the deepest kernel of `registrations` takes, the most over the boards; None where one is unmeasured.

    Parameters as for main_stack_bytes.
    """
    wanted = tuple(registrations)
    found = [_measured(wanted, library, board, revision) for library, board in _pairs(names, boards)]
    if not found or not all(found) or sized_revision(revision) != revision:
        return None
    needs = [need for rows in found for _, need in rows]
    return None if any(need.unknown for need in needs) else max(need.stack_bytes for need in needs)


def _pairs(names: tuple[str, ...], boards: Iterable[Board]) -> list[tuple[str, Board]]:
    """The libraries that each board takes."""
    return [
        (library, board) for board in boards for library in names if library in libraries_of(board) or len(names) == 1
    ]


def _measured(
    registrations: tuple[str, ...], library: str, board: Board, revision: str
) -> list[tuple[KernelTable, KernelNeed]]:
    """The needs on the measured cores nearest to the board's, with their tables; none for Helium and other cores."""
    core = CORES.get(board.core)
    if core is None or core.mve:
        return []
    measured = sized_revision(revision)
    tables = [load_table(library, name, measured) for name in (board.core, f"{board.core}{FPU}")]
    return [(table, kernel_need(registrations, library, table.core, revision=measured)) for table in tables]


def _need(registrations: tuple[str, ...], library: str, board: Board, revision: str) -> int:
    found = _measured(registrations, library, board, revision)
    if not found or any(need.unknown for _, need in found):
        return UNMEASURED_BYTES
    deepest = max(max(table.own_bytes, table.to_kernels_bytes + need.stack_bytes) for table, need in found)
    bytes_ = (APP_BYTES + deepest) * (1 + MARGIN)
    rounded = align_up(int(bytes_), _STEP)
    return rounded if revision == sized_revision(revision) else max(rounded, UNMEASURED_BYTES)

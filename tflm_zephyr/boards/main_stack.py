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
from tflm_zephyr.kernels import CORES, FPU, all_tables, kernel_need, load_table
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
    needs = [
        _need(wanted, library, board, revision)
        for board in boards
        for library in names
        if library in libraries_of(board) or len(names) == 1
    ]
    return max(needs, default=UNMEASURED_BYTES) + (DEBUG_BYTES if debug else 0) + (LINK_BYTES if host_link else 0)


def _need(registrations: tuple[str, ...], library: str, board: Board, revision: str) -> int:
    core = CORES.get(board.core)
    if core is None or core.mve:
        return UNMEASURED_BYTES
    measured = sized_revision(revision)
    tables = [load_table(library, name, measured) for name in (board.core, f"{board.core}{FPU}")]
    deepest = 0
    for table in tables:
        need = kernel_need(registrations, library, table.core, revision=measured)
        if need.unknown:
            return UNMEASURED_BYTES
        deepest = max(deepest, table.own_bytes, table.to_kernels_bytes + need.stack_bytes)
    bytes_ = (APP_BYTES + deepest) * (1 + MARGIN)
    rounded = align_up(int(bytes_), _STEP)
    return rounded if revision == measured else max(rounded, UNMEASURED_BYTES)

# SPDX-License-Identifier: Apache-2.0
"""The kernel libraries that an app carries, and for which cores, by the user's choice and the boards. Pure.

CMSIS-NN is for Cortex-M, and for models with operators that it computes: its kernels take at least 4 KB more flash
than the reference ones, and leave float tensors to those anyway. Where a board's core is not known before Zephyr
configures it, the app carries both libraries, and its Kconfig (CPU_CORTEX_M) decides.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from tflm_zephyr.boards.board import Board
from tflm_zephyr.errors import AppError
from tflm_zephyr.kernels import CORES, Core, KernelLibrary, kernel_library, same_cmsis_nn

AUTO, REFERENCE, CMSIS_NN = "auto", "reference", "cmsis_nn"
ALLOW_CMSIS_NN = "Allow cmsis-nn in the manifest, then west update"


LEAST_WORK = 1000
"""Fewest multiply-accumulates for which "auto" takes CMSIS-NN: about 1.5 ms of the reference kernels' time
at 64 MHz (person_detect has 7.2 million and takes them 700 million instructions on a Cortex-M3)."""


@dataclass(frozen=True)
class KernelChoice:
    """`names` of the libraries, sorted: one, or both when the build decides. `notes` are remarks for the user."""

    names: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The library's name, or "auto" when the build decides."""
        return self.names[0] if len(self.names) == 1 else AUTO


def choose(
    asked: str, boards: Sequence[Board], available: Collection[str], *, work: int = LEAST_WORK, wrong: str = ""
) -> KernelChoice:
    """The libraries for `boards`. `asked` is "auto" or a library's name, `available` has those of the workspace.

    `work`: the multiply-accumulates that CMSIS-NN would compute in the app's models (kernels.uses). `wrong`: the first
    operator that it would compute wrongly (kernels.uses), "" for none.

    Raises AppError for CMSIS-NN on a board that surely has no Cortex-M, in a workspace without it, or with `wrong`.
    """
    if asked == REFERENCE:
        return KernelChoice((REFERENCE,))
    if asked == CMSIS_NN:
        for board in boards:
            if board.cortex_m is False:
                raise AppError(
                    f"CMSIS-NN is for Cortex-M, and this board's core is none ({board.arch or board.core})",
                    where=board.name,
                    hint="Use --kernels auto, which takes the reference kernels there",
                )
        if CMSIS_NN not in available:
            raise AppError("the workspace has no cmsis-nn module", where="--kernels cmsis_nn", hint=ALLOW_CMSIS_NN)
        if wrong:
            raise AppError(wrong, where="--kernels cmsis_nn", hint="Use --kernels reference")
        return KernelChoice((CMSIS_NN,))
    names = {name for board in boards for name in libraries_of(board)}
    if CMSIS_NN in names and wrong:
        return KernelChoice((REFERENCE,), (f"reference kernels: {wrong}",))
    if CMSIS_NN in names and work < LEAST_WORK:
        what = f"just {work} multiply-accumulates" if work else "nothing"
        return KernelChoice((REFERENCE,), (f"reference kernels: CMSIS-NN would have {what} to compute",))
    if CMSIS_NN in names and CMSIS_NN not in available:
        return KernelChoice(
            (REFERENCE,), (f"reference kernels, as the workspace has no cmsis-nn module. {ALLOW_CMSIS_NN}",)
        )
    return KernelChoice(tuple(sorted(names)))


def libraries_of(board: Board) -> tuple[str, ...]:
    """The libraries that "auto" may give for `board`, sorted."""
    if board.cortex_m is None:
        return (CMSIS_NN, REFERENCE)
    return (CMSIS_NN,) if board.cortex_m else (REFERENCE,)


def kernel_libraries(
    names: Sequence[str], boards: Sequence[Board], *, transpose_conv: bool, revision: str, cmsis_nn: str = ""
) -> tuple[KernelLibrary, ...]:
    """The libraries `names` for each kind of core among `boards` that may get them; no two alike.

    For a board whose core is not known, for every kind that it may be. `transpose_conv`, `revision`: see
    kernels.kernel_library. `cmsis_nn`: the commit of CMSIS-NN, "" where it is not known.
    """
    kinds: dict[tuple[str, Core], set[str]] = {}
    for name in names:
        for board in boards:
            if name in libraries_of(board) or len(names) == 1:
                for core in _cores(board) if name == CMSIS_NN else (Core(),):
                    kinds.setdefault((name, core), set()).update([board.core] if board.core in CORES else [])
    order = sorted(kinds, key=lambda item: (item[0], item[1].dsp, item[1].mve))
    libraries = (
        kernel_library(name, dsp=core.dsp, mve=core.mve, transpose_conv=transpose_conv, revision=revision)
        for name, core in order
    )
    return tuple(
        replace(
            library,
            cores=tuple(sorted(kinds[kind])),
            commit=same_cmsis_nn(cmsis_nn) if library.name == CMSIS_NN else "",
        )
        for kind, library in zip(order, libraries, strict=True)
    )


def _cores(board: Board) -> tuple[Core, ...]:
    """The kinds of core that the board may have, the likeliest first."""
    known = CORES.get(board.core)
    if known is None:
        return tuple(dict.fromkeys(CORES.values()))
    if board.extensions_known:
        return (known,)
    return tuple(dict.fromkeys((known, replace(known, mve=False), replace(known, mve=False, dsp=False))))

# SPDX-License-Identifier: Apache-2.0
"""Base and kernels of an app on a board from the size tables, with an error bound for approximations. Pure.

The tables are those of the app's TFLM revision; an unknown revision takes the newest known one's. A board that was not
measured takes the base of one with its core, or of any Cortex-M where its core is not known, and the kernels of the
nearest core. The error bound is then the largest difference between measured boards or cores, at least a tenth.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tflm_zephyr.boards import CMSIS_NN, Board, stem_of
from tflm_zephyr.codegen import AppSpec
from tflm_zephyr.footprint.board_sizes import BoardBase, board_base, measured_boards
from tflm_zephyr.kernels import CORES, FPU, KernelNeed, all_tables, kernel_need
from tflm_zephyr.tflm import KNOWN_PINS, ZephyrVersion, sized_revision

# Apps give described boards CONFIG_ISR_STACK_SIZE=768 in boards/, any other keeps Zephyr's default of 2048.
_LARGER_INTERRUPT_STACK_BYTES = 2048 - 768
_SHARE = 10  # the error of a number from another board or core is at least 1/10 of it


@dataclass(frozen=True)
class BaseFound:
    """A board's base, its error bounds in bytes of flash and RAM, and remarks.

    `same_core`: whether the board's core is known; `base.core` is then the board's.
    """

    base: BoardBase
    spread_flash: int = 0
    spread_ram: int = 0
    notes: tuple[str, ...] = ()
    same_core: bool = True


@dataclass(frozen=True)
class KernelsFound:
    """The kernels' bytes with error bounds: `spread` for another core's numbers, `unknown` for unmeasured kernels."""

    need: KernelNeed
    spread_flash: int
    spread_ram: int
    unknown_flash: int
    unknown_ram: int
    notes: tuple[str, ...]


def base_for(spec: AppSpec, board: Board) -> BaseFound | None:
    """The base for `board`; None without any for its core or, where that is not known, its architecture."""
    facts, series = sized_revision(spec.tflm.revision), spec.zephyr.series
    name = re.sub(r"@[^/]*", "", board.name)
    found = board_base(name, facts, series)
    if found is not None:
        return BaseFound(found)
    if board.core not in CORES and (board.core or board.arch != "arm"):
        return None
    measured = (board_base(other, facts, series) for other in measured_boards(facts))
    bases = [base for base in measured if base is not None]
    if not bases:
        return None
    nearest = min(bases, key=lambda base: (base.core.removesuffix(FPU) != board.core, base.board))
    core = board.core + (FPU if nearest.core.endswith(FPU) and nearest.core.removesuffix(FPU) == board.core else "")
    notes = [f"this board was not measured: {nearest.board} stands in"]
    if not board.core:
        notes.append("its core is known only after a build: these numbers are for a Cortex-M")
    ram = nearest.ram_bytes + (0 if board.known else _LARGER_INTERRUPT_STACK_BYTES)
    return BaseFound(
        replace(nearest, board=stem_of(name), core=core if board.core else nearest.core, ram_bytes=ram),
        _span(base.flash_bytes for base in bases),
        _span(base.ram_bytes for base in bases),
        tuple(notes),
        same_core=bool(board.core),
    )


def kernels_for(spec: AppSpec, library: str, found: BaseFound, names: tuple[str, ...]) -> KernelsFound:
    """All kernels of the app, of `library` and by registration `names`, on the board whose base was `found`."""
    base = found.base
    facts = sized_revision(spec.tflm.revision)
    need = kernel_need(names, library, base.core, linked=base.linked, revision=facts)
    notes: list[str] = []
    spread = (0, 0)
    if need.measured_core != base.core:
        notes.append(f"kernels were not measured for {base.core}: those for {need.measured_core} stand in")
    if need.measured_core != base.core or not found.same_core:
        others = [
            kernel_need(names, library, table.core, linked=base.linked, revision=facts)
            for table in all_tables(facts)
            if table.library_name == library
        ]
        least = need.flash_bytes // _SHARE, need.ram_bytes // _SHARE
        spread = (
            max(least[0], _span(n.flash_bytes for n in others)),
            max(least[1], _span(n.ram_bytes for n in others)),
        )
    largest = _largest(library, need.measured_core, facts) if need.unknown else (0, 0)
    own = [name.removesuffix("()") for name in need.unknown if name.endswith("()")]
    other = [name for name in need.unknown if not name.endswith("()")]
    if own:
        notes.append(f"the sources of your own operators ({', '.join(own)}) are not counted, only bounded")
    if other:
        notes.append(f"not measured, so not counted, only bounded: {', '.join(other)}")
    count = len(need.unknown)
    return KernelsFound(need, *spread, count * largest[0], count * largest[1], tuple(notes))


def revisions_for(spec: AppSpec, library: str, base: BoardBase, need: KernelNeed) -> tuple[int, int, tuple[str, ...]]:
    """Error bounds in bytes of flash and RAM where other revisions stand in for the app's, and remarks."""
    notes = []
    facts = sized_revision(spec.tflm.revision)
    cmsis_nn = KNOWN_PINS[facts].cmsis_nn
    if spec.tflm.revision != facts:
        which = spec.tflm.revision[:12] or "of no known revision"
        notes.append(f"TFLM {which} was not measured: {facts[:12]} stands in")
    if library == CMSIS_NN and spec.tflm.cmsis_nn_revision not in ("", cmsis_nn):
        notes.append(f"CMSIS-NN {spec.tflm.cmsis_nn_revision[:12]} was not measured: {cmsis_nn[:12]} stands in")
    if spec.zephyr.series != ZephyrVersion(base.zephyr).series:
        notes.append(f"Zephyr {spec.zephyr.version} was not measured: {base.zephyr} stands in")
    if not notes:
        return 0, 0, ()
    return (base.flash_bytes + need.flash_bytes) // _SHARE, (base.ram_bytes + need.ram_bytes) // _SHARE, tuple(notes)


def _largest(library: str, core: str, revision: str) -> tuple[int, int]:
    """Flash and RAM of the largest kernel in the table."""
    table = next(t for t in all_tables(revision) if (t.library_name, t.core) == (library, core))
    alone = [kernel_need([name], library, core, revision=revision) for name in table.rows]
    return max(n.flash_bytes for n in alone), max(n.ram_bytes for n in alone)


def _span(values: Iterable[int]) -> int:
    found = tuple(values)
    return max(found) - min(found)

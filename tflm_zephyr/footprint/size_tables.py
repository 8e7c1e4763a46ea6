# SPDX-License-Identifier: Apache-2.0
"""What the tables of sizes have for an app on a board, and by how much it may differ where another stands in. Pure.

A board that was not measured takes the base of one with its core, or of any Cortex-M where its core is not known, and
kernels those of the nearest core. Another revision of TFLM or of Zephyr than the tables' takes theirs. Beside each
number stands how much measured boards and cores differ, a tenth at least.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tflm_zephyr.boards import CMSIS_NN, PINNED_ZEPHYR, Board, ZephyrVersion, stem_of
from tflm_zephyr.codegen import AppSpec
from tflm_zephyr.footprint.board_sizes import BoardBase, board_base, measured_boards
from tflm_zephyr.kernels import CMSIS_NN_REVISION, CORES, FPU, KernelNeed, all_tables, kernel_need, load_table

# Apps give described boards CONFIG_ISR_STACK_SIZE=768 in boards/, any other keeps Zephyr's default of 2048.
_LARGER_INTERRUPT_STACK_BYTES = 2048 - 768
_SHARE = 10  # what stands in is a tenth off at least, whatever those that were measured differ by


@dataclass(frozen=True)
class BaseFound:
    """A board's base, by how many bytes of flash and RAM it may be off, and remarks.

    `same_core`: whether the board's core is known, so that `base.core` is its own.
    """

    base: BoardBase
    spread_flash: int = 0
    spread_ram: int = 0
    notes: tuple[str, ...] = ()
    same_core: bool = True


@dataclass(frozen=True)
class KernelsFound:
    """What the kernels take; `spread` where others stand in, `unknown` for those that no table has."""

    need: KernelNeed
    spread_flash: int
    spread_ram: int
    unknown_flash: int
    unknown_ram: int
    notes: tuple[str, ...]


def base_for(board: Board) -> BaseFound | None:
    """The base for `board`; None without any for its core or, where that is not known, its architecture."""
    name = re.sub(r"@[^/]*", "", board.name)
    found = board_base(name)
    if found is not None:
        return BaseFound(found)
    if board.core not in CORES and (board.core or board.arch != "arm"):
        return None
    bases = [base for measured in measured_boards() if (base := board_base(measured)) is not None]
    if not bases:
        return None
    nearest = min(bases, key=lambda base: (base.core.removesuffix(FPU) != board.core, base.board))
    core = board.core + (FPU if nearest.core.endswith(FPU) and nearest.core.removesuffix(FPU) == board.core else "")
    notes = [f"this board was not measured: {nearest.board} stands in"]
    if not board.core:
        notes.append("which core it has only a build tells: these numbers are for a Cortex-M")
    ram = nearest.ram_bytes + (0 if board.known else _LARGER_INTERRUPT_STACK_BYTES)
    return BaseFound(
        replace(nearest, board=stem_of(name), core=core if board.core else nearest.core, ram_bytes=ram),
        _span(base.flash_bytes for base in bases),
        _span(base.ram_bytes for base in bases),
        tuple(notes),
        same_core=bool(board.core),
    )


def kernels_for(spec: AppSpec, library: str, found: BaseFound) -> KernelsFound:
    """All kernels of the app, of `library`, on the board whose base was `found`."""
    base = found.base
    names = tuple(sorted({name for model in spec.models for name in model.runtime.registrations}))
    need = kernel_need(names, library, base.core, linked=base.linked)
    notes: list[str] = []
    spread = (0, 0)
    if need.measured_core != base.core:
        notes.append(f"kernels were not measured for {base.core}: those for {need.measured_core} stand in")
    if need.measured_core != base.core or not found.same_core:
        others = [
            kernel_need(names, library, table.core, linked=base.linked)
            for table in all_tables()
            if table.library_name == library
        ]
        least = need.flash_bytes // _SHARE, need.ram_bytes // _SHARE
        spread = (
            max(least[0], _span(n.flash_bytes for n in others)),
            max(least[1], _span(n.ram_bytes for n in others)),
        )
    largest = _largest(library, need.measured_core) if need.unknown else (0, 0)
    own = [name.removesuffix("()") for name in need.unknown if name.endswith("()")]
    other = [name for name in need.unknown if not name.endswith("()")]
    if own:
        notes.append(f"the sources of your own operators ({', '.join(own)}) are not counted, just bounded")
    if other:
        notes.append(f"not measured, so not counted, just bounded: {', '.join(other)}")
    count = len(need.unknown)
    return KernelsFound(need, *spread, count * largest[0], count * largest[1], tuple(notes))


def revisions_for(spec: AppSpec, library: str, base: BoardBase, need: KernelNeed) -> tuple[int, int, tuple[str, ...]]:
    """How many bytes of flash and RAM the numbers may be off as they are of other revisions, and remarks."""
    notes = []
    measured = load_table(library, need.measured_core).revision
    if spec.tflm_revision != measured:
        which = spec.tflm_revision[:12] or "of no known revision"
        notes.append(f"TFLM {which} was not measured: {measured[:12]} stands in")
    if library == CMSIS_NN and spec.cmsis_nn_revision not in ("", CMSIS_NN_REVISION):
        notes.append(f"CMSIS-NN {spec.cmsis_nn_revision[:12]} was not measured: {CMSIS_NN_REVISION[:12]} stands in")
    if ZephyrVersion(spec.zephyr_version).series != PINNED_ZEPHYR.series:
        notes.append(f"Zephyr {spec.zephyr_version} was not measured: {PINNED_ZEPHYR.version} stands in")
    if not notes:
        return 0, 0, ()
    return (base.flash_bytes + need.flash_bytes) // _SHARE, (base.ram_bytes + need.ram_bytes) // _SHARE, tuple(notes)


def _largest(library: str, core: str) -> tuple[int, int]:
    """Flash and RAM of the largest kernel in the table."""
    table = next(t for t in all_tables() if (t.library_name, t.core) == (library, core))
    alone = [kernel_need([name], library, core) for name in table.rows]
    return max(n.flash_bytes for n in alone), max(n.ram_bytes for n in alone)


def _span(values: Iterable[int]) -> int:
    found = tuple(values)
    return max(found) - min(found)

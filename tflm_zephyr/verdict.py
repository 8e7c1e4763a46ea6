# SPDX-License-Identifier: Apache-2.0
"""Flash and RAM of an app on a board before anything is built, and whether it fits there. Pure.

A sum of parts: the board's base (board_sizes), the kernels (kernel_sizes), each model's bytes, reference data and
arena, and the main stack. What is known to the byte has no error; the rest has the bounds that the tables' own
measurements give: how far apps of real models were off, a hundredth of the kernels, how much cores and boards differ
where another stands in, and the largest kernel of all for one that was not measured. The tables are of GNU Arm
Embedded 12.2 with picolibc.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tflm_zephyr.app import AppSpec, ModelSpec
from tflm_zephyr.board import Board, stem_of
from tflm_zephyr.board_sizes import BoardBase, board_base, measured_boards
from tflm_zephyr.kernel_choice import libraries_of
from tflm_zephyr.kernel_sizes import FPU, RESOLVER_ENTRY_BYTES, KernelNeed, all_tables, kernel_need
from tflm_zephyr.kernels import CORES

YES, NO, CLOSE, UNKNOWN = "yes", "no", "too close to tell", "unknown"
MODEL_ALIGNMENT = ARENA_ALIGNMENT = 16
_ARRAY_ALIGNMENT = 4
# The self-test's comparison of float outputs: hello_world_float's app on nrf9160dk/nrf9160/ns, whose core has an FPU.
# Without one it takes routines of libgcc, which float kernels may have brought: the bound is wider by their size.
_FLOAT_OUTPUT_BYTES, _FLOAT_ROUTINES_BYTES = 200, 1024
_POINTER_BYTES = 4
_MIXING = 100  # kernels linked together are a hundredth off the table's sum at most; ten models: a thousandth
_STAND_IN = 10  # kernels of another core are a tenth off at least, whatever those that were measured differ by
_SHA256_BYTES = 17  # kModelSha256: 16 digits and their end


@dataclass(frozen=True)
class Use:
    """Bytes of one memory: the estimate, how far below and above it the truth may lie, and what the board has.

    `above_bytes` is None where the estimate is a lower bound and nothing more.
    """

    used_bytes: int
    below_bytes: int
    above_bytes: int | None
    available_bytes: int

    @property
    def fits(self) -> str:
        """YES, NO, CLOSE, or UNKNOWN where no upper bound is known."""
        if self.used_bytes - self.below_bytes > self.available_bytes:
            return NO
        if self.above_bytes is None:
            return UNKNOWN
        return YES if self.used_bytes + self.above_bytes <= self.available_bytes else CLOSE

    @property
    def over_bytes(self) -> int:
        """By how much the estimate is over what there is; 0 where it is not."""
        return max(0, self.used_bytes - self.available_bytes)


@dataclass(frozen=True)
class Part:
    """One summand, bytes of flash and RAM."""

    name: str
    flash_bytes: int
    ram_bytes: int


@dataclass(frozen=True)
class Verdict:
    """An app's flash and RAM on `board` with the kernels of `library`; both None, with the `reason`, if not known.

    `notes` say what was not measured and stands in, or is not counted.
    """

    board: str
    library: str = ""
    flash: Use | None = None
    ram: Use | None = None
    parts: tuple[Part, ...] = ()
    notes: tuple[str, ...] = ()
    reason: str = ""

    @property
    def fits(self) -> str:
        """NO when either memory is too small, YES when both surely do."""
        if self.flash is None or self.ram is None:
            return UNKNOWN
        found = {self.flash.fits, self.ram.fits}
        return next(word for word in (NO, UNKNOWN, CLOSE, YES) if word in found)


def verdicts(spec: AppSpec, runs: Sequence[int] | None = None) -> tuple[Verdict, ...]:
    """The verdict for each of the app's boards. `runs`: self-test runs of each model, when `spec` has none yet."""
    return tuple(verdict(spec, board, runs) for board in spec.boards)


def verdict(spec: AppSpec, board: Board, runs: Sequence[int] | None = None) -> Verdict:
    """The verdict for one board; see `verdicts`."""
    if board.flash_kib is None or board.ram_kib is None:
        return Verdict(board.name, reason="how much memory it has is not known here")
    found = _base(board)
    if found is None:
        return Verdict(board.name, reason=f"nothing was measured for its core ({board.core})")
    base, base_flash, base_ram, notes = found
    library = _library(spec, board)
    kernels = _Kernels.of(spec, library, base)
    counts = [len(model.golden) for model in spec.models] if runs is None else runs
    shared = spec.shared_arena
    models = [_model(model, count, own_arena=shared is None) for model, count in zip(spec.models, counts, strict=True)]
    more = len(spec.models) - 1
    parts = (
        Part(
            "app, TFLM and Zephyr",
            base.flash_bytes + more * base.next_model_flash_bytes + (_FLOAT_OUTPUT_BYTES if spec.float_outputs else 0),
            base.ram_bytes + more * base.next_model_ram_bytes + _resolvers(spec.models),
        ),
        Part("kernels", kernels.need.flash_bytes, kernels.need.ram_bytes),
        *(part for three in models for part in three),
        *(() if shared is None else (Part("arena of all models", 0, shared.bytes),)),
        Part("main stack", 0, spec.main_stack_bytes),
    )
    padding = sum(MODEL_ALIGNMENT + _ARRAY_ALIGNMENT * _arrays(count) for count in counts)
    if spec.float_outputs and not base.core.endswith(FPU):
        padding += _FLOAT_ROUTINES_BYTES
    unmeasured = _unmeasured(spec)
    flash = _use(
        sum(part.flash_bytes for part in parts),
        base.off_flash_bytes,
        padding + base_flash + kernels.spread_flash + kernels.need.flash_bytes // _MIXING,
        None if unmeasured else kernels.unknown_flash,
        board.flash_kib,
    )
    ram = _use(
        sum(part.ram_bytes for part in parts),
        base.off_ram_bytes,
        ARENA_ALIGNMENT * (len(spec.models) + 1) + base_ram + kernels.spread_ram,
        None if unmeasured else kernels.unknown_ram,
        board.ram_kib,
    )
    return Verdict(board.name, library, flash, ram, parts, (*notes, *kernels.notes, *unmeasured))


def golden_bytes(model: ModelSpec, runs: int) -> int:
    """Flash that a model's reference data takes: templates/app/src/models/model_golden.cpp.j2."""
    if not runs:
        return _SHA256_BYTES
    pair = 2 * _POINTER_BYTES  # Golden
    return runs * sum(tensor.bytes for tensor in (*model.inputs, *model.outputs)) + 1 + pair + _SHA256_BYTES


def _arrays(runs: int) -> int:
    return 2 if runs else 1


def _model(model: ModelSpec, runs: int, *, own_arena: bool) -> tuple[Part, Part, Part]:
    return (
        Part(f"model {model.ident}", len(model.data), 0),
        Part(f"golden data of {model.ident}", golden_bytes(model, runs), 0),
        Part(f"arena of {model.ident}", 0, model.arena.bytes if own_arena else 0),
    )


def _resolvers(models: Sequence[ModelSpec]) -> int:
    """What the models' resolvers take beside entries for the app's distinct operators, which count as the kernels'."""
    distinct = {name for model in models for name in model.registrations}
    return RESOLVER_ENTRY_BYTES * (sum(model.resolver.size for model in models) - len(distinct))


def _use(used: int, off: tuple[int, int], around: int, above: int | None, available_kib: int) -> Use:
    """`off`: by how much less and more real apps took; the estimate is moved to the middle of that."""
    middle = (off[0] + off[1]) // 2
    half = max(off[1] - middle, middle - off[0])
    bound = half + around
    return Use(used + middle, bound, None if above is None else bound + above, available_kib * 1024)


def _unmeasured(spec: AppSpec) -> tuple[str, ...]:
    """Why the estimate is no more than a lower bound."""
    found = []
    if spec.debug:
        found.append("at least, as messages and asserts of a debug build are not counted")
    if spec.host_link:
        found.append("at least, as the link to a host is not counted")
    if spec.tflm != "selected":
        found.append("at least, as Zephyr's own tflite-micro library was not measured")
    return tuple(found)


def _library(spec: AppSpec, board: Board) -> str:
    """The kernel library that the app takes on `board`."""
    allowed = [name for name in spec.kernels if name in libraries_of(board)]
    return (allowed or list(spec.kernels))[0]


@dataclass(frozen=True)
class _Kernels:
    """What the kernels take; `spread` where another core stands in, `unknown` for those that no table has."""

    need: KernelNeed
    spread_flash: int
    spread_ram: int
    unknown_flash: int
    unknown_ram: int
    notes: tuple[str, ...]

    @staticmethod
    def of(spec: AppSpec, library: str, base: BoardBase) -> _Kernels:
        names = tuple(sorted({name for model in spec.models for name in model.registrations}))
        need = kernel_need(names, library, base.core, linked=base.linked)
        notes: list[str] = []
        spread = (0, 0)
        if need.measured_core != base.core:
            notes.append(f"kernels were not measured for {base.core}: those for {need.measured_core} stand in")
            others = [
                kernel_need(names, library, table.core, linked=base.linked)
                for table in all_tables()
                if table.library_name == library
            ]
            least = need.flash_bytes // _STAND_IN, need.ram_bytes // _STAND_IN
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
        return _Kernels(need, *spread, count * largest[0], count * largest[1], tuple(notes))


def _largest(library: str, core: str) -> tuple[int, int]:
    """Flash and RAM of the largest kernel in the table."""
    table = next(t for t in all_tables() if (t.library_name, t.core) == (library, core))
    alone = [kernel_need([name], library, core) for name in table.rows]
    return max(n.flash_bytes for n in alone), max(n.ram_bytes for n in alone)


def _span(values: Iterable[int]) -> int:
    found = tuple(values)
    return max(found) - min(found)


def _base(board: Board) -> tuple[BoardBase, int, int, tuple[str, ...]] | None:
    """The board's base, by how much flash and RAM of it may differ, and remarks; None without any for its core."""
    name = re.sub(r"@[^/]*", "", board.name)
    found = board_base(name)
    if found is not None:
        return found, 0, 0, ()
    if board.core not in CORES:
        return None
    bases = [base for measured in measured_boards() if (base := board_base(measured)) is not None]
    if not bases:
        return None
    nearest = min(bases, key=lambda base: (base.core.removesuffix(FPU) != board.core, base.board))
    core = board.core + (FPU if nearest.core.endswith(FPU) and nearest.core.removesuffix(FPU) == board.core else "")
    return (
        replace(nearest, board=stem_of(name), core=core),
        _span(base.flash_bytes for base in bases),
        _span(base.ram_bytes for base in bases),
        (f"this board was not measured: {nearest.board} stands in",),
    )

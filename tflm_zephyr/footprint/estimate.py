# SPDX-License-Identifier: Apache-2.0
"""Flash and RAM of an app on a board before anything is built, and whether it fits there. Pure.

The estimate is a sum of parts: the board's base (board_sizes), the kernels (kernels.code_size), each model's bytes,
reference data and arena, and the main stack. Models, data and arena are known to the byte. The error bound is the
largest deviation measured on real apps, plus padding: a hundredth of the kernels, the difference between cores or
boards where another one stands in, and the largest kernel of all for one that was not measured. The tables were
measured with GNU Arm Embedded 12.2 and picolibc.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tflm_zephyr.boards import Board, libraries_of
from tflm_zephyr.codegen import AppSpec, BackendSizes, ModelSpec, SizePart, backend_of
from tflm_zephyr.footprint.board_sizes import BoardBase
from tflm_zephyr.footprint.size_tables import base_for, kernels_for, revisions_for
from tflm_zephyr.kernels import FPU, KernelNeed
from tflm_zephyr.options import COMPILED, INTERPRETER, ModelConfig
from tflm_zephyr.tflm import ALIGNMENT

YES, NO, CLOSE, UNKNOWN = "yes", "no", "too close to tell", "unknown"
_MODEL_ALIGNMENT = 16
_ARRAY_ALIGNMENT = 4
# The self-test's comparison of float outputs: hello_world_float's app on nrf9160dk/nrf9160/ns, whose core has an FPU.
# Without one it takes routines of libgcc, which float kernels may have brought: the bound is wider by their size.
_FLOAT_OUTPUT_BYTES, _FLOAT_ROUTINES_BYTES = 200, 1024
_POINTER_BYTES = 4
_ANYWHERE_KIB = 1 << 30
# Beside kernels and constants in a build with tflm_model(): 5,088 bytes of an interpreted model, 5,311 of a compiled
# one before what that takes less. An application may lack functions of libgcc and libc for it: 5,527 and 283 bytes.
_TFLM_BYTES = 5_200
_LIBRARIES_BYTES = {INTERPRETER: 5_632, COMPILED: 512}
_MIXING = 100  # kernels linked together differ from the table's sum by at most 1/100 (by 1/1000 for ten models)
_IDENTITY_BYTES = 17 + 4  # kModelSha256, 16 digits and their end, and kConstantsCrc32


@dataclass(frozen=True)
class RegionEstimate:
    """Bytes of one memory: the estimate, its error bounds below and above, and the board's size.

    `above_bytes` is None where the estimate is only a lower bound.
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
        """Bytes by which the estimate exceeds the memory; 0 where it does not."""
        return max(0, self.used_bytes - self.available_bytes)


@dataclass(frozen=True)
class Verdict:
    """An app's flash and RAM on `board` with the kernels of `library`; both None, with the `reason`, if not known.

    `notes` name the measurements that stand in for missing ones, and the parts that are not counted.
    """

    board: str
    library: str = ""
    flash: RegionEstimate | None = None
    ram: RegionEstimate | None = None
    parts: tuple[SizePart, ...] = ()
    notes: tuple[str, ...] = ()
    reason: str = ""

    @property
    def fits(self) -> str:
        """NO when either memory is too small, YES when both surely do."""
        if self.flash is None or self.ram is None:
            return UNKNOWN
        found = {self.flash.fits, self.ram.fits}
        return next(word for word in (NO, UNKNOWN, CLOSE, YES) if word in found)


@dataclass(frozen=True)
class Runs:
    """The number of self-test runs of each model; `sure` marks the certain ones, () when all are certain.

    A model that no engine here can run has no runs.
    """

    counts: tuple[int, ...]
    sure: tuple[bool, ...] = ()

    def at_most(self, models: Sequence[ModelConfig]) -> Runs:
        """These runs, limited to the number that each of `models` requests."""
        return Runs(tuple(min(n, model.runs) for n, model in zip(self.counts, models, strict=True)), self.sure)

    @property
    def certain(self) -> tuple[bool, ...]:
        """`sure` with one entry for each model."""
        return self.sure or (True,) * len(self.counts)


def verdict(spec: AppSpec, board: Board, runs: Runs | None = None) -> Verdict:
    """The verdict for one of the app's boards. `runs`: self-test runs of each model, when `spec` has none yet."""
    if board.flash_kib is None or board.ram_kib is None:
        return Verdict(board.name, reason="the size of its memory is not known here")
    backend = backend_of(spec.backend)
    if not backend.measured_base:
        return Verdict(board.name, reason=f"no app of the backend {backend.name} was measured")
    found = base_for(spec, board)
    if found is None:
        return Verdict(board.name, reason=f"nothing was measured for its core ({board.core or board.arch})")
    base, library, own = found.base, _library(spec, board), backend.sizes(spec)
    kernels = kernels_for(spec, library, found, own.registrations)
    other_flash, other_ram, other_notes = revisions_for(spec, library, base, kernels.need)
    runs = runs or Runs(tuple(len(model.golden) for model in spec.models))
    parts = _parts(spec, own, base, kernels.need, runs)
    padding = sum(_MODEL_ALIGNMENT + _ARRAY_ALIGNMENT * _arrays(count) for count in runs.counts)
    if spec.float_outputs and not base.core.endswith(FPU):
        padding += _FLOAT_ROUTINES_BYTES
    padding += own.unsure_flash_bytes
    unmeasured, unknown_arena, unsure = _unmeasured(spec, own), _unknown_arena(spec), _unsure(spec.models, runs)
    unsure_ram = own.unsure_ram_bytes + ALIGNMENT * (len(spec.models) + 1)
    flash = _use(
        sum(part.flash_bytes for part in parts),
        base.off_flash_bytes,
        padding + found.spread_flash + other_flash + kernels.spread_flash + kernels.need.flash_bytes // _MIXING,
        None if unmeasured else kernels.unknown_flash,
        board.flash_kib * 1024 - board.flash_reserved_bytes,
    )
    ram = _use(
        sum(part.ram_bytes for part in parts),
        base.off_ram_bytes,
        unsure_ram + found.spread_ram + other_ram + kernels.spread_ram,
        None if unmeasured or unknown_arena else kernels.unknown_ram,
        board.ram_kib * 1024,
    )
    if unsure:
        flash = replace(flash, below_bytes=flash.below_bytes + unsure)
        unmeasured += (f"up to {unsure} bytes less: perhaps no engine here gives the self-test its reference",)
    notes = (*found.notes, *kernels.notes, *other_notes, *unmeasured, *unknown_arena)
    return Verdict(board.name, library, flash, ram, parts, notes)


def added_flash(spec: AppSpec, board: Board) -> RegionEstimate | None:
    """Flash that the models add to an application on `board`, TFLM included; None where nothing is known of its core.

    The application's own code, Zephyr and golden data are not in it, and the memory's size is not asked for.
    """
    anywhere = replace(board, flash_kib=_ANYWHERE_KIB, ram_kib=_ANYWHERE_KIB, flash_reserved_bytes=0)
    found = verdict(spec, anywhere, Runs((0,) * len(spec.models)))
    if found.flash is None:
        return None
    constants = sum(model.runtime.flash_bytes for model in spec.models)
    used = max(constants, _TFLM_BYTES + sum(part.flash_bytes for part in found.parts[1:]))  # the first is around them
    above, more = found.flash.above_bytes, _LIBRARIES_BYTES.get(spec.backend, 0)
    return replace(found.flash, used_bytes=used, above_bytes=None if above is None else above + more)


def _parts(spec: AppSpec, own: BackendSizes, base: BoardBase, need: KernelNeed, runs: Runs) -> tuple[SizePart, ...]:
    more = len(spec.models) - 1
    models = zip(spec.models, own.models, runs.counts, strict=True)
    return (
        SizePart(
            "app, TFLM and Zephyr",
            base.flash_bytes + more * base.next_model_flash_bytes + (_FLOAT_OUTPUT_BYTES if spec.float_outputs else 0),
            base.ram_bytes + more * base.next_model_ram_bytes + own.table_bytes,
        ),
        SizePart("kernels", need.flash_bytes, need.ram_bytes),
        *(part for model, parts, count in models for part in _with_golden(model, parts, count)),
        *own.app,
        SizePart("main stack", 0, spec.main_stack_bytes),
    )


def golden_bytes(model: ModelSpec, runs: int) -> int:
    """Flash that a model's reference data takes: templates/app/common/src/models/model_golden.cpp.j2."""
    if not runs:
        return _IDENTITY_BYTES
    pair = 2 * _POINTER_BYTES  # Golden
    return runs * sum(tensor.bytes for tensor in (*model.inputs, *model.outputs)) + 1 + pair + _IDENTITY_BYTES


def _unsure(models: Sequence[ModelSpec], runs: Runs) -> int:
    """Flash of the reference data that the app may not have in the end."""
    found = zip(models, runs.counts, runs.certain, strict=True)
    return sum(golden_bytes(model, count) - golden_bytes(model, 0) for model, count, sure in found if not sure)


def _arrays(runs: int) -> int:
    return 2 if runs else 1


def _with_golden(model: ModelSpec, parts: tuple[SizePart, ...], runs: int) -> tuple[SizePart, ...]:
    """The parts of a model, with its reference data after its constants."""
    return (parts[0], SizePart(f"golden data of {model.ident}", golden_bytes(model, runs), 0), *parts[1:])


def _use(used: int, off: tuple[int, int], around: int, above: int | None, available: int) -> RegionEstimate:
    """The estimate for one memory, centred between `off`, the lowest and highest deviation of real apps."""
    middle = (off[0] + off[1]) // 2
    half = max(off[1] - middle, middle - off[0])
    bound = half + around
    return RegionEstimate(used + middle, bound, None if above is None else bound + above, available)


def _unmeasured(spec: AppSpec, own: BackendSizes) -> tuple[str, ...]:
    """The reasons why the estimate is only a lower bound."""
    whys = (
        (spec.tflm.debug, "messages and asserts of a debug build are not counted"),
        (spec.tflm.form != "selected", "Zephyr's own tflite-micro library was not measured"),
        (spec.program.host_link, "the code of the host link (host_link) was not measured"),
        (spec.program.record or spec.program.measure, "the code that records or measures the arena was not measured"),
        (spec.program.stack_use, "the code that measures the main stack was not measured"),
        *((True, why) for why in own.unmeasured),
    )
    return tuple(f"at least, as {why}" for applies, why in whys if applies)


def _unknown_arena(spec: AppSpec) -> tuple[str, ...]:
    """The reasons why the arenas, and with them RAM, are only lower bounds."""
    keys = sorted({key for model in spec.models for key in model.arena.unknown})
    return (f"RAM at least, as the arena memory of {', '.join(keys)} is not known",) if keys else ()


def _library(spec: AppSpec, board: Board) -> str:
    """The kernel library that the app takes on `board`."""
    allowed = [name for name in spec.kernels if name in libraries_of(board)]
    return (allowed or list(spec.kernels))[0]

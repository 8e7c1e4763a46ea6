# SPDX-License-Identifier: Apache-2.0
"""An app's smallest arenas and main stack: measured by one build and run, then proven by one or two more.

These apps are derived from the user's AppSpec, for a board that QEMU emulates: the board itself, or one with the same
core. The measuring app has a roomy arena for each model and searches for the smallest one that allocates and runs with
equal outputs. The proving app is a plain one: its self-test passes with the sizes found; with 16 bytes less for each
model no self-test passes, and each reports an error. Where arenas are planned to the byte, as for compiled code, the
stack alone is measured and proven.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tflm_zephyr.boards import Board
from tflm_zephyr.codegen import (
    AppSpec,
    ArenaMeasurement,
    ArenaSpec,
    MeasurementTarget,
    ModelSpec,
    ProgramSpec,
    StackMeasurement,
    data_sha256,
    measures_arenas,
    moved,
    target_of,
    with_arenas,
    write_copy,
)
from tflm_zephyr.device.console import (
    MeasuredArena,
    RunResult,
    SelfTestEnding,
    gather_results,
    measure_arenas,
    self_test_endings,
)
from tflm_zephyr.device.transport import Link
from tflm_zephyr.errors import BoardError, DeviceError

STEP = 16
ROOM_BYTES = 65536
"""Least number of bytes by which the measuring app's arena exceeds the estimate."""
STACK_BYTES = 8192
"""Least size in bytes of the main stack whose use is measured."""

BuildApp = Callable[[Path, Board], Path]
"""Builds the app in a folder for a board and returns the ELF file."""
MakeLink = Callable[[Board, Path], Link]
OnLine = Callable[[str], None]


@dataclass(frozen=True)
class ModelSize:
    """A model's measured and proven size on a board. `refusal` is the error that it reports with 16 bytes less."""

    measured: MeasuredArena
    arena: ArenaMeasurement
    estimate_bytes: int
    refusal: str


@dataclass(frozen=True)
class MeasuredSizes:
    """The sizes of an app's models on one board; `emulated` is the board of the measurement.

    `models` is empty where the arenas are planned to the byte.
    """

    board: Board
    emulated: Board
    target: MeasurementTarget
    models: tuple[ModelSize, ...]
    stack: StackMeasurement


def emulator_for(board: Board, known: Iterable[Board]) -> Board:
    """`board` itself where QEMU emulates it, else the first of `known` with the same core. Raises BoardError."""
    if board.qemu is not None:
        return board
    if board.core and board.extensions_known:
        for other in known:
            if other.qemu is not None and other.core == board.core:
                return other
    what = f"no described board with QEMU has its core, {board.core}" if board.core else "its core is not known"
    if not board.extensions_known:
        what = f"whether its {board.core} has DSP or Helium is known only after a build"
    raise BoardError(what, where=board.name, hint="The estimate stays; `tflm-zephyr boards` lists what QEMU emulates")


def room_for(spec: AppSpec, board: Board) -> AppSpec:
    """`spec` with arenas to search for each model's smallest in. Raises BoardError when the memory is too small."""
    rooms = [max(2 * model.arena.bytes, model.arena.bytes + ROOM_BYTES) for model in spec.models]
    rooms = [room - room % STEP for room in rooms]
    limit = None if board.ram_kib is None else board.ram_kib * 1024 * 3 // 4
    if limit is not None and sum(rooms) > limit:
        share = limit // len(rooms)
        rooms = [min(room, share - share % STEP) for room in rooms]
        if any(room < model.arena.bytes for room, model in zip(rooms, spec.models, strict=True)):
            raise BoardError("too little RAM to measure these models", where=board.name, hint="Measure them apart")
    return with_arenas(spec, [ArenaSpec(room, "roomy", "to search for the smallest in") for room in rooms])


def measuring_app(spec: AppSpec, board: Board, app: Path, folder: Path) -> AppSpec:
    """The app that measures, to be written to `folder`. `app` is the folder that `spec` is for."""
    roomy = room_for(moved(spec, board, app, folder), board)
    return replace(roomy, program=ProgramSpec(measure=True), main_stack_bytes=_roomy_stack(spec))


def _roomy_stack(spec: AppSpec) -> int:
    return max(2 * spec.main_stack_bytes, STACK_BYTES)


def planned_app(spec: AppSpec, board: Board, app: Path, folder: Path, *, stack_bytes: int) -> AppSpec:
    """The app with its own arenas and another main stack, to be written to `folder`."""
    program = ProgramSpec(stack_use=True)
    return replace(moved(spec, board, app, folder), program=program, main_stack_bytes=stack_bytes)


def proving_app(
    spec: AppSpec, board: Board, app: Path, folder: Path, found: Sequence[MeasuredArena], *, less: int, stack_bytes: int
) -> AppSpec:
    """The app with the arenas found, each `less` bytes smaller, to be written to `folder`."""
    sizes = {item.model: item for item in found}
    arenas = [
        ArenaSpec(sizes[model.ident].arena_bytes - less, "measured", "to be proven", sizes[model.ident].floor_bytes)
        for model in spec.models
    ]
    return replace(with_arenas(moved(spec, board, app, folder), arenas), main_stack_bytes=stack_bytes)


@dataclass(frozen=True)
class Emulation:
    """The way to build and run apps on `board`, which QEMU emulates. `compiler`: the compiler of `build`.

    `timeout_s`: the longest run; `on_line` gets the lines that the apps print.
    """

    board: Board
    build: BuildApp
    link: MakeLink
    timeout_s: float
    compiler: str = ""
    on_line: OnLine | None = None


@dataclass(frozen=True)
class _Measurement:
    """One measurement: the app, its board, and the way to build and run its copies."""

    spec: AppSpec
    board: Board
    app: Path
    by: Emulation

    @property
    def idents(self) -> list[str]:
        """The models' names in the app."""
        return [model.ident for model in self.spec.models]

    @property
    def folder(self) -> Path:
        """The folder for the copies."""
        return self.app / "build" / "size" / self.board.file_stem

    def measure(self) -> tuple[MeasuredArena, ...]:
        """The smallest arena of each model, by one build and run."""
        folder = self.folder / "measure"
        link = self._link_of(measuring_app(self.spec, self.by.board, self.app, folder), folder)
        return measure_arenas(link, self.idents, timeout_s=self.by.timeout_s, on_line=self.by.on_line)

    def prove(self, found: Sequence[MeasuredArena], stack_bytes: int) -> tuple[SelfTestEnding, ...]:
        """How each model ends with STEP bytes less. Raises DeviceError when one fails in the arena found."""
        folder = self.folder / "prove"

        def smaller(less: int) -> Link:
            made = proving_app(self.spec, self.by.board, self.app, folder, found, less=less, stack_bytes=stack_bytes)
            return self._link_of(made, folder)

        self._passing(smaller(0), "in the arena that was measured")
        return self_test_endings(smaller(STEP), self.idents, timeout_s=self.by.timeout_s, on_line=self.by.on_line)

    def run_as_planned(self, stack_bytes: int) -> tuple[RunResult, ...]:
        """The self-test in the app's own arenas. Raises DeviceError when a model fails."""
        folder = self.folder / "stack"
        made = planned_app(self.spec, self.by.board, self.app, folder, stack_bytes=stack_bytes)
        return self._passing(self._link_of(made, folder), f"with a main stack of {stack_bytes} bytes")

    def _passing(self, link: Link, where: str) -> tuple[RunResult, ...]:
        by = self.by
        found = gather_results(
            link, models=len(self.idents), timeout_s=by.timeout_s, silence_s=by.timeout_s, on_line=by.on_line
        )
        failed = [result.model for result in found if result.status == "fail"]
        if failed:
            raise DeviceError(f"{', '.join(failed)} failed {where}", where=self.by.board.name)
        return found

    def _link_of(self, made: AppSpec, folder: Path) -> Link:
        write_copy(folder, made)
        return self.by.link(self.by.board, self.by.build(folder, self.by.board))


def measure_app(spec: AppSpec, board: Board, app: Path, by: Emulation, *, keep_stack: bool = False) -> MeasuredSizes:
    """Measure and prove `spec` for `board` in an emulation. Everything is written below `app`/build/size.

    Arenas that are planned to the byte are not searched for: the stack alone is measured.
    keep_stack: the user gave the main stack's size; its use is still measured.
    Raises BuildError; DeviceError when a model does not run, or a proof fails.
    """
    work, emulated = _Measurement(spec, board, app, by), by.board
    found = work.measure() if measures_arenas(spec) else ()
    results = [item.result for item in found] or work.run_as_planned(_roomy_stack(spec))
    target = target_of(spec, board, results[0].kernels, by.compiler)
    assert target is not None  # the board has a core, and the app reported its kernels
    stacks = results[-1].stacks
    if stacks is None:
        raise DeviceError("the app does not report how much of its stacks was used", where=emulated.name)
    shas = tuple(sorted(map(data_sha256, spec.models)))
    stack = StackMeasurement(shas, target, emulated.name, stacks.main_used_bytes)
    proven_stack = spec.main_stack_bytes if keep_stack else stack.stack_bytes
    endings = work.prove(found, proven_stack) if found else ()
    if not found:
        work.run_as_planned(proven_stack)
    models = {model.ident: model for model in spec.models}
    sizes = tuple(_size(item, models[item.model], target, emulated, endings) for item in found)
    return MeasuredSizes(board, emulated, target, sizes, stack)


def _size(
    item: MeasuredArena,
    model: ModelSpec,
    target: MeasurementTarget,
    emulated: Board,
    endings: Sequence[SelfTestEnding],
) -> ModelSize:
    sizes = item.arena_bytes, item.floor_bytes, item.head_bytes, item.tail_bytes
    arena = ArenaMeasurement(item.model, data_sha256(model), target, emulated.name, *sizes)
    return ModelSize(item, arena, model.arena.bytes, _refusal(item, endings, emulated))


def _refusal(item: MeasuredArena, endings: Sequence[SelfTestEnding], board: Board) -> str:
    ended = next(ended for ended in endings if ended.model == item.model)
    if ended.code is None:
        what = f"{item.model} also runs in {item.arena_bytes - STEP} bytes, 16 less than the smallest that was found"
        raise DeviceError(what, where=board.name, hint="Does a kernel request all memory that is left?")
    return ended.sentence

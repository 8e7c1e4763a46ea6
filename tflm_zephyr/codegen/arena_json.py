# SPDX-License-Identifier: Apache-2.0
"""The sizes that `tflm-zephyr size` measured for an app, in its `tflm/arena.json`, and the check that they still hold.

A measurement is for the bytes of the model that is compiled in (including its plan), a kernel library, a core, the
revisions of TFLM, CMSIS-NN and Zephyr, the code of custom operators and the options of the build. Where one of these
changes, the app goes back to the estimate. The same is true for another compiler or C library, on a machine that has
one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from tflm_zephyr.boards import CMSIS_NN, Board, libraries_of
from tflm_zephyr.codegen.app_folder import own_path
from tflm_zephyr.codegen.spec import AppSpec, ArenaSpec, ModelSpec
from tflm_zephyr.errors import AppError
from tflm_zephyr.memory_planner import align_up
from tflm_zephyr.plain_values import Check, Limits, Rules, load_json, plain_values, read_values

STACK_MARGIN = 1 / 8
"""The margin's share of the most main stack that was ever used, besides INTERRUPT_BYTES."""
INTERRUPT_BYTES = 104
"""Bytes that a Cortex-M with an FPU stores on the stack at an interrupt.

The measured run may have had no interrupt at its deepest point.
"""
_STACK_STEP = 64
_BYTES = Limits(0, 2**31 - 1)
# TFLM's head and an arena that `size` tries are multiples of 16 bytes.
_STEPS = Check(lambda size: size % 16 == 0, "a multiple of 16")
_ABOUT = "Measured by `tflm-zephyr size`. Delete this file to go back to estimates."


@dataclass(frozen=True)
class MeasurementTarget:
    """The conditions of a measured size besides the model. `options`: how TFLM is compiled, see options_of.

    `cmsis_nn_revision` is "" with other kernels; `zephyr` is a commit, or a version where that is not known; `custom`
    is the SHA-256 of custom operators' code, "" without any; `compiler` also names the C library, and is "" where no
    compiler is installed. A key that an older file lacks is "", which matches nothing.
    """

    core: str
    kernels: str
    tflm_revision: str
    options: str
    cmsis_nn_revision: str = ""
    zephyr: str = ""
    custom: str = ""
    compiler: str = ""


@dataclass(frozen=True)
class ArenaMeasurement:
    """The smallest arena of a model, in bytes, and `floor_bytes`, below which TFLM does not even fail cleanly.

    `model` is its identifier, `data_sha256` the SHA-256 of its bytes as compiled in. `board` is where it was measured.
    """

    model: str
    data_sha256: str
    target: MeasurementTarget
    board: str
    arena_bytes: Annotated[int, _BYTES, _STEPS]
    floor_bytes: Annotated[int, _BYTES]
    head_bytes: Annotated[int, _BYTES, _STEPS]
    tail_bytes: Annotated[int, _BYTES]

    def __post_init__(self) -> None:
        for name in ("floor_bytes", "head_bytes"):
            if getattr(self, name) > self.arena_bytes:
                raise ValueError(f"{name} is above the arena's {self.arena_bytes}: {getattr(self, name)}")


@dataclass(frozen=True)
class StackMeasurement:
    """The most that the self-test of all models used of the main stack, in bytes. `models`: data_sha256, sorted."""

    models: tuple[str, ...]
    target: MeasurementTarget
    board: str
    used_bytes: Annotated[int, _BYTES]

    @property
    def stack_bytes(self) -> int:
        """The main stack's size: the measured use with the margins."""
        need = int((self.used_bytes + INTERRUPT_BYTES) * (1 + STACK_MARGIN))
        return align_up(need, _STACK_STEP)


@dataclass(frozen=True)
class Measurements:
    """All measurements of an app."""

    arenas: tuple[ArenaMeasurement, ...] = ()
    stacks: tuple[StackMeasurement, ...] = ()

    def with_new(self, arenas: Sequence[ArenaMeasurement], stacks: Sequence[StackMeasurement]) -> Measurements:
        """These measurements and new ones, which replace old ones for the same model, core and kernels."""
        fresh = {(item.model, item.target.core, item.target.kernels) for item in arenas}
        cores = {(item.target.core, item.target.kernels) for item in stacks}
        kept = [a for a in self.arenas if (a.model, a.target.core, a.target.kernels) not in fresh]
        others = [s for s in self.stacks if (s.target.core, s.target.kernels) not in cores]
        return Measurements(
            tuple(sorted((*kept, *arenas), key=lambda a: (a.model, a.target.core, a.target.kernels))),
            tuple(sorted((*others, *stacks), key=lambda s: (s.target.core, s.target.kernels))),
        )


def data_sha256(model: ModelSpec) -> str:
    """SHA-256 of the model's data that a measurement depends on: see Runtime.identity."""
    return hashlib.sha256(model.runtime.identity()).hexdigest()


def options_of(spec: AppSpec) -> str:
    """The options of TFLM's build that sizes depend on: "selected", "module debug"."""
    return f"{spec.tflm.form} debug" if spec.tflm.debug else spec.tflm.form


def target_of(spec: AppSpec, board: Board, kernels: str = "", compiler: str = "") -> MeasurementTarget | None:
    """The conditions of the app for `board`; None where its core, its core's extensions or its kernels are not known.

    kernels: the library, where a build has reported it. compiler: see MeasurementTarget.
    """
    names = [kernels] if kernels else spec.kernels if len(spec.kernels) == 1 else libraries_of(board)
    if not board.core or not board.extensions_known or len(names) != 1:
        return None
    return MeasurementTarget(
        board.core,
        names[0],
        spec.tflm.revision,
        options_of(spec),
        spec.tflm.cmsis_nn_revision if names[0] == CMSIS_NN else "",
        spec.zephyr.revision,
        spec.custom.sha256,
        compiler,
    )


def applied(spec: AppSpec, found: Measurements, *, stack: bool, compiler: str = "") -> tuple[AppSpec, tuple[str, ...]]:
    """`spec` with measured sizes instead of estimates where they hold for all its boards, and remarks on the others.

    Several boards get the largest of their sizes. stack: whether to use the measured main stack, too. compiler: the
    compiler on this machine; with "" a measurement is accepted for any compiler.
    """
    if not found.arenas and not found.stacks:
        return spec, ()
    if not compiler:
        found = Measurements(
            tuple(replace(item, target=replace(item.target, compiler="")) for item in found.arenas),
            tuple(replace(item, target=replace(item.target, compiler="")) for item in found.stacks),
        )
    targets = tuple(dict.fromkeys(target_of(spec, board, compiler=compiler) for board in spec.boards))
    models, notes = [], []
    for model in spec.models:
        mine = [item for item in found.arenas if item.model == model.ident]
        new, note = model, ""
        if mine and model.arena.source == "estimated":
            new, note = _measured(model, mine, targets)
        models.append(new)
        notes += [note] if note else []
    spec = replace(spec, models=tuple(models))
    shas = tuple(sorted(map(data_sha256, spec.models)))
    holding = [item for item in found.stacks if item.models == shas and item.target in targets]
    if stack and {item.target for item in holding} == set(targets):
        spec = replace(spec, main_stack_bytes=max(item.stack_bytes for item in holding))
    return spec, tuple(notes)


def _measured(
    model: ModelSpec, found: Iterable[ArenaMeasurement], targets: Sequence[MeasurementTarget | None]
) -> tuple[ModelSpec, str]:
    sha = data_sha256(model)
    holding = [item for item in found if item.data_sha256 == sha and item.target in targets]
    lacking = [target for target in targets if target not in [item.target for item in holding]]
    if lacking:
        return model, f"{model.name}: {_why(found, lacking[0], sha)}: estimated; `tflm-zephyr size` measures it again"
    most = max(holding, key=lambda item: item.arena_bytes)
    target = most.target
    where = f"{most.board} ({target.core}, {target.kernels} kernels, TFLM {target.tflm_revision[:12]})"
    more = f", the most of {len(holding)} boards' cores" if len(holding) > 1 else ""
    note = f"the smallest that allocates and runs, by bisection in QEMU on {where}{more}; {most.arena_bytes - 16} fails"
    arena = ArenaSpec(most.arena_bytes, "measured", note, max(item.floor_bytes for item in holding))
    return replace(model, arena=arena), ""


def _why(found: Iterable[ArenaMeasurement], wanted: MeasurementTarget | None, sha: str) -> str:
    """Why no measurement holds for `wanted`, in words."""
    if wanted is None:
        return "no measured size can hold, as the core is not known"
    here = [item for item in found if (item.target.core, item.target.kernels) == (wanted.core, wanted.kernels)]
    if not here:
        return f"nothing was measured for {wanted.core} with {wanted.kernels} kernels"
    item = here[0]
    reasons = [
        what
        for what, same in (
            ("model or plan", item.data_sha256 == sha),
            ("TFLM revision", item.target.tflm_revision == wanted.tflm_revision),
            ("build options", item.target.options == wanted.options),
            ("CMSIS-NN revision", item.target.cmsis_nn_revision == wanted.cmsis_nn_revision),
            ("Zephyr version", item.target.zephyr == wanted.zephyr),
            ("custom operators", item.target.custom == wanted.custom),
            ("compiler or C library", item.target.compiler == wanted.compiler),
        )
        if not same
    ]
    return f"the measured size is stale ({', '.join(reasons)})"


def measurements_path(app: Path) -> Path:
    """The file of the measurements of the app in folder `app`."""
    return own_path(app, "arena.json")


def load_measurements(app: Path) -> Measurements:
    """The measurements of the app in folder `app`; empty where there are none. Raises AppError."""
    path = measurements_path(app)
    try:
        return read_values(Measurements, load_json(path), Rules(ignored=("about",)))
    except (FileNotFoundError, NotADirectoryError):
        return Measurements()
    except (OSError, ValueError) as err:
        raise AppError(f"unreadable ({err})", where=str(path), hint="Delete it, and run `tflm-zephyr size`") from None


def dump_measurements(found: Measurements) -> bytes:
    """The text of arena.json."""
    return (json.dumps({"about": _ABOUT, **plain_values(found)}, indent=1) + "\n").encode()

# SPDX-License-Identifier: Apache-2.0
"""AppConfig -> AppSpec: each model is read, checked, planned, sized and given its golden outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from tflm_zephyr import __version__
from tflm_zephyr.boards import AUTO, Board, load_board
from tflm_zephyr.codegen.app_folder import AppManifest
from tflm_zephyr.codegen.arena_json import applied, load_measurements
from tflm_zephyr.codegen.backends import backend_of
from tflm_zephyr.codegen.backends.backend import Backend, BuildSetup, prepared_once
from tflm_zephyr.codegen.custom_operators import code_sha256, include_dir, relative_paths
from tflm_zephyr.codegen.identifiers import identifier
from tflm_zephyr.codegen.model_facts import facts_of
from tflm_zephyr.codegen.model_spec import BuiltModel, GoldenRequest, built_model
from tflm_zephyr.codegen.prepared_model import PreparedModel, app_kernels
from tflm_zephyr.codegen.shared_work import SharedWork
from tflm_zephyr.codegen.spec import AppSpec, CustomCode, ProgramSpec, TflmBuild
from tflm_zephyr.codegen.stack_size import needed_stack_bytes, stack_notes
from tflm_zephyr.errors import AppError
from tflm_zephyr.host import OnRun
from tflm_zephyr.kernels import kind_of, other_kernels
from tflm_zephyr.model import Model, load_model, without_conversions
from tflm_zephyr.options import COMPILED, INTERPRETER, ONLINE, STATIC, AppConfig, ModelConfig
from tflm_zephyr.tflm import TflmRevision


@dataclass(frozen=True)
class Generated:
    """An app to be rendered, its manifest, remarks for the user, and the files of golden runs by path.

    `config` is what it was made from; `shared` has the work that other ways of it share.
    """

    spec: AppSpec
    manifest: AppManifest
    notes: tuple[str, ...]
    prepared: tuple[PreparedModel, ...]
    golden_files: Mapping[str, bytes]
    config: AppConfig
    shared: SharedWork = field(default_factory=SharedWork, compare=False, repr=False)


@dataclass(frozen=True)
class AppRequest:
    """The app that `config` asks for, to be written to the folder `app`, with TFLM as it is in `tflm`.

    `boards`: the boards of `config` with a workspace's facts on them; none for the facts known without a workspace.
    `keep_golden`: keep the golden runs in the app, whichever engines made them. `golden`: False for no golden runs,
    which needs no engine; the app then serves only for its sizes. `measured`: False for estimates even where measured
    sizes hold. `compiler`: the compiler on this machine, see arena_json.applied. `backend`: the backend's name, "" for
    the config's. `on_run`: gets the progress of the golden runs, see host.OnRun. `shared`: the work that other ways of
    the same app on the same boards share.
    """

    config: AppConfig
    app: Path
    tflm: TflmRevision
    boards: Sequence[Board] = ()
    keep_golden: bool = False
    golden: bool = True
    measured: bool = True
    compiler: str = ""
    backend: str = ""
    on_run: OnRun | None = None
    shared: SharedWork | None = None


def generate(request: AppRequest) -> Generated:
    """The app that is asked for. Raises AppError, BuildError, ModelError and PlanError."""
    config, app, tflm = request.config, request.app, request.tflm
    name = identifier(config.name or app.resolve().name)
    boards = tuple(request.boards) or tuple(load_board(board) for board in dict.fromkeys(config.boards))
    if not boards:
        raise AppError("no board is named", where=name, hint="Name one with --board, or under boards:")
    shared = SharedWork() if request.shared is None else request.shared
    loaded = [shared.once("load", (item.model, item.io), partial(_loaded, item)) for item in config.models]
    key = (config.kernels, config.tflm, config.models, tuple(board.name for board in boards))
    kernels = shared.once("kernels", key, lambda: app_kernels(config, loaded, boards, tflm))
    setup = BuildSetup(config, tflm, kernels, shared)
    pairs = list(zip(config.models, loaded, strict=True))
    chosen, why = _backend(request.backend or config.backend, pairs, setup)
    runs = GoldenRequest(app, request.keep_golden, request.golden, request.on_run)
    built = [built_model(item, model, setup, chosen, runs) for item, model in pairs]
    chosen.check([item.spec for item in built], name)
    spec = _app_spec(setup, chosen, built, app, name, boards)
    remarks = [*why, *_kernel_notes(setup), *(note for item in built for note in item.notes), *chosen.notes(spec)]
    remarks += stack_notes(config.main_stack_bytes, needed_stack_bytes(setup, spec.models, boards), name, tflm.revision)
    if config.shared_arena:
        models, arena = chosen.share_arena(spec.models, [item.prepared for item in built], setup, name)
        spec = replace(spec, models=models, shared_arena=arena)
    elif request.measured:
        with_stack = config.main_stack_bytes is None and not config.host_link
        spec, more = applied(spec, load_measurements(app), stack=with_stack, compiler=request.compiler)
        remarks += more
    files = {path: data for item in built for path, data in item.golden_files.items()}
    prepared = tuple(item.prepared for item in built)
    return Generated(spec, _manifest(spec, setup, prepared), tuple(remarks), prepared, files, config, shared)


def _loaded(item: ModelConfig) -> Model:
    model = load_model(item.model)
    return without_conversions(model) if item.io == "int8" else model


def _backend(
    named: str, pairs: Sequence[tuple[ModelConfig, Model]], setup: BuildSetup
) -> tuple[Backend, tuple[str, ...]]:
    """The backend called `named`; for AUTO the interpreter, or compiled code, with why, where TFLM refuses a model."""
    if named != AUTO:
        return backend_of(named), ()
    for item, model in pairs:
        refusal = prepared_once(item, model, setup).refusal
        if refusal is not None:
            return backend_of(COMPILED), (f"{item.label}: backend compiled, as {refusal.what}",)
    return backend_of(INTERPRETER), ()


def _kernel_notes(setup: BuildSetup) -> tuple[str, ...]:
    """Remarks on the choice of kernels, on a Zephyr that was not tried, and on kernels without in-place rules."""
    notes = [*setup.own.choice.notes]
    if not setup.tflm.tried:
        tried = " and ".join(setup.tflm.pins.tried_zephyrs)
        what = f"such apps were tried with {tried} only" if tried else "no such app was tried with its TFLM"
        notes.append(f"for Zephyr {setup.tflm.zephyr.version}; {what}")
    others = other_kernels(setup.tflm.revisions(setup.kernels))
    if others and any(item.in_place and item.plan != ONLINE for item in setup.app.models):
        notes.append(f"no output overlaps an input, as the in-place rules are for other kernels: {others}")
    return tuple(notes)


def _app_spec(
    setup: BuildSetup, backend: Backend, built: Sequence[BuiltModel], app: Path, name: str, boards: Sequence[Board]
) -> AppSpec:
    """The app with estimated arenas, each model with its own."""
    config, tflm = setup.app, setup.tflm
    models = tuple(item.spec for item in built)
    prepared = [item.prepared for item in built]
    customs = tuple(custom for item in config.models for custom in item.custom_operators if custom.sources)
    lists = backend.sources(prepared, [model.runtime for model in models], setup)
    kinds = {kind_of(need.library) for item in prepared for need in item.arenas} if _overlaps(prepared) else set()
    return AppSpec(
        name=name,
        models=models,
        boards=tuple(boards),
        kernels=setup.kernels,
        tflm=TflmBuild(
            config.tflm,
            tflm.revision,
            sources=lists.tflm,
            include_dirs=lists.tflm_include_dirs,
            debug=config.debug,
            cmsis_nn_sources=lists.cmsis_nn,
            cmsis_nn_revision=setup.tflm.revisions(setup.kernels).get("CMSIS-NN", ""),
        ),
        zephyr=tflm.zephyr,
        west_modules=_west_modules(tflm.zephyr.modules, boards),
        main_stack_bytes=config.main_stack_bytes or needed_stack_bytes(setup, models, boards),
        model_data=config.model_data,
        custom=CustomCode(
            relative_paths((path for custom in customs for path in custom.sources), app),
            relative_paths(map(include_dir, customs), app),
            code_sha256(customs),
        ),
        program=ProgramSpec(host_link=config.host_link),
        overlap_kernels=tuple(sorted(kinds)) if _overlaps(prepared) else (),
        backend=backend.name,
    )


def _west_modules(common: Sequence[str], boards: Sequence[Board]) -> tuple[str, ...]:
    """The modules for the app's manifest, sorted; none, for all, where boards/ does not describe a board."""
    if not common or not all(board.known for board in boards):
        return ()
    return tuple(sorted({*common, *filter(None, (board.hal for board in boards))}))


def _manifest(spec: AppSpec, setup: BuildSetup, prepared: Sequence[PreparedModel]) -> AppManifest:
    return AppManifest(
        generator=__version__,
        name=spec.name,
        zephyr_version=spec.zephyr.version,
        tflm_revision=spec.tflm.revision,
        kernels=setup.own.choice.label,
        boards=tuple(board.name for board in spec.boards),
        models={model.ident: facts_of(model) for model in spec.models},
        cmsis_nn_revision=spec.tflm.cmsis_nn_revision,
        overlap=setup.tflm.revisions(setup.kernels) if _overlaps(prepared) else {},
    )


def _overlaps(prepared: Sequence[PreparedModel]) -> bool:
    """Whether outputs overlap inputs, or may do so in a static plan, which differs from the plan in `prepared`."""
    return any(
        item.head.in_place_count > 0 or (item.config.plan == STATIC and bool(item.head.problem.pairs))
        for item in prepared
    )

# SPDX-License-Identifier: Apache-2.0
"""AppConfig -> AppSpec: each model is read, checked, planned, sized and given its golden outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tflm_zephyr import __version__
from tflm_zephyr.arena import SLACK_BYTES
from tflm_zephyr.boards import (
    CMSIS_NN,
    PINNED_ZEPHYR,
    UNMEASURED_BYTES,
    Board,
    KernelChoice,
    ZephyrVersion,
    least_main_stack_bytes,
    load_board,
    main_stack_bytes,
)
from tflm_zephyr.codegen.app_file import AppConfig
from tflm_zephyr.codegen.app_folder import AppManifest
from tflm_zephyr.codegen.app_spec import AppSpec, ArenaSpec, CallSpec, ModelSpec, ResolverSpec
from tflm_zephyr.codegen.arena_json import applied, load_measurements
from tflm_zephyr.codegen.custom_operators import code_sha256, include_dir, relative_paths
from tflm_zephyr.codegen.escape import c_string
from tflm_zephyr.codegen.golden import GoldenRuns, dump_golden, golden_runs, path_of
from tflm_zephyr.codegen.identifiers import identifier
from tflm_zephyr.codegen.preallocated_buffers import buffer_specs, check_symbols
from tflm_zephyr.codegen.prepared_model import PreparedModel, Tflm, app_kernels, prepare
from tflm_zephyr.codegen.shared_arena import share_arena
from tflm_zephyr.codegen.static_plan import with_static_plan
from tflm_zephyr.codegen.tensor_interface import tensor_spec
from tflm_zephyr.errors import AppError
from tflm_zephyr.kernels import (
    CMSIS_NN_REVISION,
    kind_of,
    other_kernels,
    typed_registration,
    uses_of,
)
from tflm_zephyr.model import load_model, planned
from tflm_zephyr.tflm import (
    op_resolver,
    sources,
    typed_for,
)

_NO_RUNS = GoldenRuns((), "", "", {})


@dataclass(frozen=True)
class Generated:
    """An app to be rendered, what its manifest says, remarks for the user, and the files of golden runs by path."""

    spec: AppSpec
    manifest: AppManifest
    notes: tuple[str, ...]
    prepared: tuple[PreparedModel, ...]
    golden_files: Mapping[str, bytes]


def tflm_of(
    tflm_dir: Path | None,
    revision: str = "",
    libraries: Iterable[str] = ("cmsis_nn", "reference"),
    library_dir: Path | None = None,
    library_revision: str = "",
    zephyr: ZephyrVersion = PINNED_ZEPHYR,
) -> Tflm:
    """TFLM in the checkout `tflm_dir` at `revision`, or the revision that Zephyr 4.1 pins when None; in `zephyr`.

    `libraries` names the kernel libraries that are there, `library_dir` the checkout of CMSIS-NN, and
    `library_revision` its commit.
    """
    tables = {
        name: sources.source_table_for(tflm_dir, revision, name, library_dir, library_revision) for name in libraries
    }
    found = next(iter(tables.values())).revision
    cmsis_nn = CMSIS_NN_REVISION if tflm_dir is None else library_revision
    return Tflm(op_resolver.operator_table_for(tflm_dir, found), tables, found, typed_for(tflm_dir), cmsis_nn, zephyr)


def generate(
    config: AppConfig,
    app: Path,
    tflm: Tflm,
    *,
    boards: Sequence[Board] = (),
    keep_golden: bool = False,
    golden: bool = True,
    measured: bool = True,
    compiler: str = "",
) -> Generated:
    """The app that `config` asks for, to be written to the folder `app`.

    `boards`: those of `config` with what a workspace knows of them; otherwise what is known without one.
    `keep_golden`: with the golden runs that are there, whichever engines made them. `golden`: False for none, which
    needs no engine; the app is then good for its sizes alone. `measured`: False for estimates where sizes that were
    measured hold. `compiler`: what compiles on this machine, see measurements.applied.
    """
    name = identifier(config.name or app.resolve().name)
    boards = tuple(boards) or tuple(load_board(board) for board in dict.fromkeys(config.boards))
    if not boards:
        raise AppError("no board is named", where=name, hint="Name one with --board, or under boards:")
    loaded = [load_model(item.model) for item in config.models]
    own_kernels = app_kernels(config, loaded, boards, tflm)
    choice = own_kernels.choice
    prepared: list[PreparedModel] = []
    models: list[ModelSpec] = []
    notes: list[str] = [*choice.notes]
    if tflm.zephyr.series != PINNED_ZEPHYR.series:
        notes.append(f"for Zephyr {tflm.zephyr.version}; such apps were tried with {PINNED_ZEPHYR.series} alone")
    kernels = tflm.revisions(choice.names)
    cmsis_nn_revision = kernels.get("CMSIS-NN", "")
    others = other_kernels(kernels)
    if others and any(item.overlap == "auto" and item.plan == "packed" for item in config.models):
        notes.append(f"no output overlaps an input, as the kernels are not those that this was read in: {others}")
    kept: dict[str, bytes] = {}
    for model_config, model in zip(config.models, loaded, strict=True):
        item = prepare(model_config, model, tflm, own_kernels)
        runs = golden_runs(item.model, model_config, app, keep=keep_golden) if golden else _NO_RUNS
        prepared.append(item)
        model_spec = _model_spec(item, runs, _typed(item, config, tflm, choice))
        if config.planner == "static" and model_config.plan_file is not None:
            what = "planner: static makes a table of its own, plan_file is for TFLM's planner"
            raise AppError(what, where=model_config.label, hint="Drop one of them")
        if config.planner == "static" and model_config.plan != "packed":
            what = "plan: online leaves to TFLM's planner what planner: static does without"
            raise AppError(what, where=model_config.label, hint="Drop one of them")
        if config.planner == "static":
            model_spec = with_static_plan(model_spec, item.plan, planned(item.running, None))
        models.append(model_spec)
        notes.extend(f"{model_config.label}: {remark}" for remark in runs.notes)
        need = item.plan.largest.size.bytes
        if model_config.arena is not None and model_config.arena < need - SLACK_BYTES:
            notes.append(f"{model_config.label}: {model_config.arena} bytes are too few; the estimate is {need}")
        if runs.warning:
            notes.append(f"warning: {model_config.label}: {runs.warning}")
        if runs.runs:
            kept[path_of(models[-1].ident)] = dump_golden(runs, item.model.sha256)
        elif golden:
            notes.append(f"{model_config.label}: the self-test carries no reference")
    check_symbols(models, name)
    customs = tuple(custom for item in config.models for custom in item.custom_operators if custom.sources)
    # Zephyr's own library, "module", compiles every kernel that it has.
    tables = [(name, tflm.sources[name]) for name in choice.names if config.tflm == "selected"]
    selected = {name: table.select(_registrations(prepared)) for name, table in tables}
    needed_stack = _main_stack(config, prepared, models, choice.names, boards, tflm.revision)
    notes += _stack_notes(config.main_stack_bytes, needed_stack, name)
    overlapping = any(_overlaps(item, config) for item in prepared)
    kinds = {kind_of(arena.library) for item in prepared for arena in item.arenas} if overlapping else set()
    spec = AppSpec(
        name=name,
        models=tuple(models),
        boards=boards,
        kernels=choice.names,
        tflm=config.tflm,
        tflm_revision=tflm.revision,
        tflm_sources=selected,
        cmsis_nn_sources=tuple(path for name, table in tables for path in table.select_functions(selected[name])),
        tflm_include_dirs=sources.INCLUDE_DIRS,
        zephyr_version=tflm.zephyr.version,
        zephyr_revision=tflm.zephyr.revision,
        cmsis_nn_revision=cmsis_nn_revision,
        west_modules=tflm.zephyr.modules if all(board.known for board in boards) else (),
        main_stack_bytes=config.main_stack_bytes or needed_stack,
        debug=config.debug,
        host_link=config.host_link,
        model_data=config.model_data,
        custom_sources=relative_paths((path for custom in customs for path in custom.sources), app),
        custom_include_dirs=relative_paths(map(include_dir, customs), app),
        custom_sha256=code_sha256(customs),
        overlap_kernels=tuple(sorted(kinds)),
    )
    if config.shared_arena:
        shared, arena = share_arena(models, prepared, name)
        spec = replace(spec, models=shared, shared_arena=arena)
    elif measured:
        with_stack = config.main_stack_bytes is None and not config.host_link
        spec, remarks = applied(spec, load_measurements(app), stack=with_stack, compiler=compiler)
        notes += remarks
    manifest = AppManifest(
        generator=__version__,
        name=name,
        zephyr_version=tflm.zephyr.version,
        tflm_revision=tflm.revision,
        kernels=choice.label,
        boards=tuple(board.name for board in boards),
        models={model.ident: model.sha256 for model in models},
        scales={
            model.ident: tuple(None if t.scale is None else (t.scale, t.zero_point) for t in model.outputs)
            for model in models
        },
        cmsis_nn_revision=cmsis_nn_revision,
        overlap=kernels if overlapping else {},
    )
    return Generated(spec, manifest, tuple(notes), tuple(prepared), kept)


def _overlaps(item: PreparedModel, config: AppConfig) -> bool:
    """Whether outputs overlap inputs, or may do so in a static plan, which is not the one of `item`."""
    return item.head.in_place_count > 0 or (config.planner == "static" and bool(item.head.problem.overlaps))


def _main_stack(
    config: AppConfig,
    prepared: Sequence[PreparedModel],
    models: Sequence[ModelSpec],
    names: tuple[str, ...],
    boards: Sequence[Board],
    revision: str,
) -> int:
    if config.tflm != "selected":
        return UNMEASURED_BYTES
    used = {name for model in models for name in model.registrations}
    return main_stack_bytes(used, names, boards, revision=revision, debug=config.debug, host_link=config.host_link)


def _stack_notes(given: int | None, needed: int, name: str) -> list[str]:
    """What there is to say of a main stack that is given; AppError for one that no app runs in."""
    if given is None or given >= needed:
        return []
    least = least_main_stack_bytes()
    if given < least:
        raise AppError(
            f"main_stack_bytes: {given} are too few, as TFLM may take {least} without any kernel",
            where=name,
            hint="Leave main_stack_bytes out, or measure it with `tflm-zephyr size`",
        )
    return [f"main_stack_bytes: {given} bytes are fewer than the {needed} that the kernels may take"]


def _typed(item: PreparedModel, config: AppConfig, tflm: Tflm, choice: KernelChoice) -> dict[str, str]:
    """By operator, the registration for just the types that the model has; CMSIS-NN's kernels have such ones."""
    if CMSIS_NN not in choice.names or config.tflm != "selected":
        return {}
    found = {
        key: typed_registration(key, uses, tflm.typed, asserts=config.debug, revision=tflm.revision)
        for key, uses in uses_of(item.model).items()
    }
    return {key: name for key, name in found.items() if name}


def _model_spec(item: PreparedModel, golden: GoldenRuns, typed: Mapping[str, str]) -> ModelSpec:
    main = item.model.main
    arena = item.plan.size
    libraries = {one.library.name for one in item.arenas}
    which = f" ({item.arenas[0].library.name} kernels, which need the most)" if len(libraries) > 1 else ""
    return ModelSpec(
        name=item.config.label,
        ident=identifier(item.config.label),
        sha256=item.model.sha256,
        data=item.data,
        planned=item.planned,
        inputs=tuple(tensor_spec(main.tensors[i]) for i in main.inputs),
        outputs=tuple(tensor_spec(main.tensors[i]) for i in main.outputs),
        resolver=ResolverSpec(tuple(CallSpec(_expression(call, typed)) for call in item.resolver.calls)),
        arena=ArenaSpec(arena.bytes, arena.source, f"{arena.note}{which}", unknown=arena.unknown),
        golden=golden.runs,
        golden_source=golden.source,
        registrations=tuple(sorted(_registration(call, typed) for call in item.resolver.calls)),
        resource_variables=item.head.graph.resource_variables,
        operators=sum(len(subgraph.operators) for subgraph in item.model.subgraphs),
        tensors=len(main.tensors),
        custom_headers=tuple(sorted({custom.header for custom in item.config.custom_operators})),
        preallocated=buffer_specs(item.model, item.config),
    )


def _registration(call: op_resolver.ResolverCall | op_resolver.CustomOperator, typed: Mapping[str, str]) -> str:
    """The function's name; for a custom operator of the user's one that no table has."""
    if isinstance(call, op_resolver.CustomOperator):
        return f"{call.register}()"
    return ("" if call.custom else typed.get(call.key, "")) or call.register


def _expression(call: op_resolver.ResolverCall | op_resolver.CustomOperator, typed: Mapping[str, str]) -> str:
    if isinstance(call, op_resolver.CustomOperator):
        return f"AddCustom({c_string(call.name)}, {call.register}())"
    register = "" if call.custom else typed.get(call.key, "")
    return f"{call.method}({f'tflite::{register}()' if register else ''})"


def _registrations(prepared: Sequence[PreparedModel]) -> tuple[str, ...]:
    return tuple(
        sorted(
            {
                call.register
                for item in prepared
                for call in item.resolver.calls
                if isinstance(call, op_resolver.ResolverCall)
            }
        )
    )

# SPDX-License-Identifier: Apache-2.0
"""`plan`: a model's arena, one arena for several models, or a CSV of buffers."""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tflm_zephyr.cli.commands.configuration import board_with, boards_of, tflm_for
from tflm_zephyr.cli.commands.outcome import Done, Say, refuse_flags
from tflm_zephyr.cli.report import plan as report
from tflm_zephyr.errors import AppError, ModelError, PlanError
from tflm_zephyr.files import write_atomically, write_new

if TYPE_CHECKING:
    from tflm_zephyr.boards import Board
    from tflm_zephyr.codegen import AppKernels
    from tflm_zephyr.compiler import Search
    from tflm_zephyr.kernels import KernelLibrary
    from tflm_zephyr.model import Model
    from tflm_zephyr.options import AppConfig, ModelConfig
    from tflm_zephyr.page import Picture
    from tflm_zephyr.tflm import TflmRevision


_OF_MODELS = (
    *("board", "core", "no_in_place", "order", "plan_file", "arena", "preallocated"),
    *("map", "svg", "png", "preserve_inputs", "preserve_all", "variables"),
)


_NOT_OF_ROWS = (
    *("output", "no_in_place", "order", "plan_file", "arena", "preallocated", "map"),
    *("preserve_inputs", "preserve_all", "variables"),
)

_MOST_BESIDE = 2_000
"""Operators of models that `plan` compiles beside the interpreter's plan; that takes half a millisecond for each."""


def do_plan(args: argparse.Namespace, say: Say) -> Done:
    """`plan`: a model's arena, one arena for several models, or a CSV of buffers."""
    with _without_collection():
        return _plan(args)


@contextmanager
def _without_collection() -> Iterator[None]:
    """Planning makes many objects that live to its end and no reference cycles; the garbage collector would take a
    quarter of the time of large models."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _plan(args: argparse.Namespace) -> Done:
    _check_pictures(args)
    if [path.suffix.lower() for path in args.model] == [".csv"]:
        return _plan_csv(args, args.model[0])
    refuse_flags(args, ("capacity",), "is for a CSV", "--arena is what the plan of --plan-file has to fit in")
    for path in args.model:
        if path.suffix.lower() == ".csv":
            raise PlanError("a CSV is packed alone", where=str(path), hint="Name one file")
    if args.hop is not None:
        return _plan_hops(args)
    refuse_flags(args, ("period",), "is the time of a hop", "Name the hop's rows with --hop")
    if args.rows:
        return _plan_rows(args)
    refuse_flags(args, ("fast_kernels",), "is of compiled code", "Plan that with --rows")
    if len(args.model) > 1:
        return _plan_several(args)
    from tflm_zephyr.model import planned

    (item,) = _planned(args)
    if args.output is not None:
        _write_output(args.output, item.path, planned(item.plan.running, item.plan.offsets))
    plain = report.plan_json(item)
    drawn = plain if args.map else None
    pictures = tuple(_pictures(args, lambda: _arena(plain)))
    written = ((f"Written: {args.output}",) if args.output is not None else ()) + pictures
    return Done(
        "\n".join([report.plan(item, drawn=drawn, written=args.output), *pictures]),
        plain,
        terminal=lambda width: report.plan_on_terminal(item, width, drawn=drawn, written=written),
    )


def _check_pictures(args: argparse.Namespace) -> None:
    """AppError for a picture whose name says that it is of another format."""
    for kind, path in (("svg", args.svg), ("png", args.png)):
        if path is not None and path.suffix.lower() != f".{kind}":
            what = f"--{kind} writes {kind.upper()} files, and the name ends otherwise"
            raise AppError(what, where=str(path), hint=f"Name it {path.with_suffix(f'.{kind}').name}")


def _pictures(args: argparse.Namespace, drawn: Callable[[], Picture]) -> Iterator[str]:
    """Write the pictures that are asked for; a line for each."""
    if args.svg is None and args.png is None:
        refuse_flags(args, ("force",), "replaces pictures, and none is drawn")
        return
    from tflm_zephyr.page import png, svg

    picture = drawn()
    if args.svg is not None:
        write_new(args.svg, svg(picture).encode(), force=args.force)
        yield f"Written: {args.svg}"
    if args.png is not None:
        write_new(args.png, png(picture), force=args.force)
        yield f"Written: {args.png}"


def _arena(plan: dict[str, Any]) -> Picture:
    from tflm_zephyr.page import arena_picture

    return arena_picture(plan)


def _front(front: dict[str, Any]) -> Picture:
    from tflm_zephyr.page import front_picture

    return front_picture(front)


def _plan_several(args: argparse.Namespace) -> Done:
    refuse_flags(
        args,
        ("output", "plan_file", "map", "svg", "png", "force", "preallocated"),
        "is for one model",
        "Plan the models one by one",
    )
    items = _planned(args)
    lines = [report.plan(item, drawn=None, written=None) for item in items]
    plain = {"models": [report.plan_json(item) for item in items], "shared_arena_bytes": report.shared_bytes(items)}
    return Done("\n".join([*lines, report.shared(items)]), plain, document="shared_plan")


def _plan_rows(args: argparse.Namespace) -> Done:
    """A model's ways to run as compiled code, in the order in which `generate` runs its operators: RAM against work."""
    from tflm_zephyr.cli.report import front
    from tflm_zephyr.compiler import CompilerOptions

    search, path, named, _ = _compiler_of(args, "--rows")
    options = CompilerOptions(fast=args.fast_kernels is not None, pick=True)
    points = search.front(options)
    try:
        streamed = front.Streamed(search.front(replace(options, stream=True)))
    except ModelError as error:
        streamed = front.Streamed(why=error.what)
    shown = path, named, points, streamed
    plain = front.plain(*shown)
    pictures = _pictures(args, lambda: _front(plain))
    return Done("\n".join([front.text(*shown), *pictures]), plain, document="front")


def _plan_hops(args: argparse.Namespace) -> Done:
    """A model whose windows overlap: its ways to run as compiled code, RAM against work, and a hop on each board."""
    from tflm_zephyr.cli.report import hops
    from tflm_zephyr.compiler import CompilerOptions, hop_work
    from tflm_zephyr.costs import Costs, Prices

    refuse_flags(args, ("rows", "svg", "png", "force"), "does not go with --hop")
    search, path, named, boards = _compiler_of(args, "--hop")
    options = CompilerOptions(fast=args.fast_kernels is not None, pick=True, stream=True, hop=args.hop)
    whole = search.best(replace(options, hop=None, stream=False)).arena_bytes
    chosen, ways = search.best(options), search.hops(options)
    found = []
    for board, library in boards:
        costs = Costs((Prices(board.core, library.name, library.commit),))
        clock = 0 if board.qemu is None else board.qemu.clock_hz
        found.append(hops.OnBoard(board.name, board.core, clock, hop_work(chosen, costs)))
    item = hops.Hops(path, named, ways, chosen, whole, found, args.period)
    return Done(hops.text(item), hops.plain(item), document="hops")


def _compiler_of(args: argparse.Namespace, flag: str) -> tuple[Search, Path, str, list[tuple[Board, KernelLibrary]]]:
    """The ways to run the one model, its operators in the order in which `generate` runs them.

    Besides: its file, the kernels in words, and each board with the first of the kernel libraries for its core.
    """
    from tflm_zephyr.arena import plan
    from tflm_zephyr.codegen import plan_request
    from tflm_zephyr.compiler import Kernel, Library, Search

    refuse_flags(args, _NOT_OF_ROWS, f"is of the interpreter's arena, and {flag} plans compiled code")
    if len(args.model) > 1:
        raise AppError(f"{flag} is for one model", where="plan", hint="Plan the models one by one")
    path = args.model[0]
    (model, *_), config, kernels, _, named, boards = _asked(args)
    if len(kernels.choice.names) > 1:
        hint = "Name a board with --board, or the library with --kernels"
        raise AppError("compiled code is for one kernel library, and these boards take two", where="plan", hint=hint)
    keys = {(o.custom_code is not None, o.key) for graph in model.subgraphs for o in graph.operators}
    registrations = {key: Kernel(Library.FALLBACK, key[1]) for key in keys}
    running = plan(model, plan_request(config.models[0], model, kernels)).running
    return (
        Search(running, kernels.libraries, registrations),
        path,
        named,
        [
            (board, next((one for one in kernels.libraries if board.core in one.cores), kernels.libraries[0]))
            for board in boards
        ],
    )


def _planned(args: argparse.Namespace) -> list[report.PlannedModel]:
    """The models named, planned as `generate` plans them for the same boards and kernels."""
    if args.plan_file is not None:
        refuse_flags(args, ("order", "variables"), "does not go with --plan-file", "Leave it out: the plan says it")
    elif args.arena is not None:
        raise AppError("--arena goes with --plan-file", where="plan", hint="Leave it out")
    models, config, kernels, tflm, named, _ = _asked(args)
    found = []
    for path, model, model_config in zip(args.model, models, config.models, strict=True):
        item = _plan_model(args, path, model, model_config, kernels, named)
        found.append(with_compiled(item, config, model_config, kernels, tflm))
    return found


def _asked(
    args: argparse.Namespace,
) -> tuple[list[Model], AppConfig, AppKernels, TflmRevision, str, Sequence[Board]]:
    """The models, the config, the kernels and TFLM of `generate` with these flags; the kernels in words; the boards."""
    from tflm_zephyr.build import find_workspace_if_any
    from tflm_zephyr.codegen import app_kernels
    from tflm_zephyr.model import load_model

    config = _config(args)
    workspace = find_workspace_if_any(args.workspace, app=Path())
    boards = boards_of(config, workspace) if args.core is None else (board_with(args.core),)
    models = [load_model(path) for path in args.model]
    tflm = tflm_for(config, boards, workspace)
    kernels = app_kernels(config, models, boards, tflm)
    where = f"on {args.core}" if args.core is not None else f"for {', '.join(board.name for board in boards)}"
    return models, config, kernels, tflm, f"{' and '.join(kernels.choice.names)} kernels {where}", boards


def with_compiled(
    item: report.PlannedModel, app: AppConfig, config: ModelConfig, kernels: AppKernels, tflm: TflmRevision
) -> report.PlannedModel:
    """The planned model of the app `app` with its compiled code beside, or why there is none."""
    from tflm_zephyr.codegen import compiled_beside

    operators = sum(len(subgraph.operators) for subgraph in item.plan.running.subgraphs)
    if operators > _MOST_BESIDE:
        why = f"it has {operators} operators, and plan compiles up to {_MOST_BESIDE}; generate compiles any number"
        return replace(item, not_compiled=why)
    try:
        return replace(item, compiled=compiled_beside(app, config, item.plan, kernels, tflm))
    except (AppError, ModelError, PlanError) as error:
        return replace(item, not_compiled=error.what)


def _plan_model(
    args: argparse.Namespace, path: Path, model: Model, config: ModelConfig, kernels: AppKernels, named: str
) -> report.PlannedModel:
    from tflm_zephyr.arena import plan
    from tflm_zephyr.codegen import plan_request

    request = plan_request(config, model, kernels)
    constraints = replace(
        request.constraints,
        preserve_inputs=args.preserve_inputs,
        preserve_intermediates=args.preserve_all,
        plan_variables=args.variables,
    )
    found = plan(model, replace(request, constraints=constraints))
    saved = None
    if constraints.preallocated:
        without = replace(request, sizes=kernels.sizes, constraints=replace(constraints, preallocated=()))
        if request.given is not None:
            without = replace(without, given=None, scheduling="model", arena_bytes=None)
        whole = plan(found.running if request.given is not None else model, without)
        saved = whole.largest.size.bytes - found.largest.size.bytes
    return report.PlannedModel(path, found, named, (*kernels.choice.notes, *_refused(model, kernels)), saved)


def _refused(model: Model, kernels: AppKernels) -> tuple[str, ...]:
    """A note where TFLM refuses the model, as `generate` does; custom operators are not looked at."""
    from tflm_zephyr.compiler import runs_legacy
    from tflm_zephyr.kernels import check_types

    custom = frozenset(o.custom_code for graph in model.subgraphs for o in graph.operators if o.custom_code)
    try:
        check_types(model, custom, revision=kernels.libraries[0].core.revision)
    except ModelError as err:
        try:
            check_types(model, custom, revision=kernels.libraries[0].core.revision, besides=runs_legacy)
        except ModelError as both:
            return (f"TFLM refuses this model, and so does generate: {both}",)
        return (f"TFLM refuses this model, which compiled code runs: {err}",)
    return ()


def _config(args: argparse.Namespace) -> AppConfig:
    """The app config that `generate` would have with these flags."""
    from tflm_zephyr.options import AppConfig, ModelConfig, PreallocatedConfig, with_given

    config = AppConfig(tuple(map(ModelConfig, args.model)))
    preallocated = [PreallocatedConfig(name) for name in args.preallocated or ()]
    return with_given(config, {**vars(args), "preallocated": preallocated or None})


def _plan_csv(args: argparse.Namespace, path: Path) -> Done:
    from tflm_zephyr.memory_planner import check_plan, csv_files, lower_bound, pack

    refuse_flags(args, _OF_MODELS, "is for models", "Leave it out for a CSV")
    problem = csv_files.load_problem(path)
    least = lower_bound(problem)
    if args.capacity is None or least <= args.capacity:
        plan = pack(problem, capacity=args.capacity)
        check_plan(plan)
        least = plan.proven_bytes
    if args.capacity is not None and least > args.capacity:
        what = f"no packing fits in {args.capacity} bytes: {least} are needed at least"
        raise PlanError(what, where=str(path), hint="Give a larger --capacity")
    if args.capacity is not None and plan.size_bytes > args.capacity:
        what = f"no packing was found that fits in {args.capacity} bytes, but none is ruled out"
        raise PlanError(what, where=str(path), hint=f"The smallest one found has {plan.size_bytes}, {least} are needed")
    if args.output is not None:
        _write_output(args.output, path, csv_files.dump_plan(plan).encode())
    return Done(
        report.packing(plan, plan.proven_bytes, written=args.output),
        report.packing_json(plan, plan.proven_bytes),
        document="packing",
    )


def _write_output(path: Path, source: Path, data: bytes) -> None:
    if path.resolve() == source.resolve():
        raise PlanError("is the input itself", where=str(path), hint="Name another output")
    try:
        write_atomically(path, data)
    except OSError as err:
        raise PlanError(f"cannot write ({err.strerror})", where=str(path)) from err

# SPDX-License-Identifier: Apache-2.0
"""`plan`: a model's arena, one arena for several models, or a CSV of buffers."""

from __future__ import annotations

import argparse
import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tflm_zephyr.cli.commands.outcome import Done, Say
from tflm_zephyr.cli.report import plan as report
from tflm_zephyr.errors import AppError, PlanError
from tflm_zephyr.files import write_atomically

if TYPE_CHECKING:
    from tflm_zephyr.arena import HeadPlan
    from tflm_zephyr.model import Model


_OF_MODELS = (
    *("core", "overlap", "order", "plan_file", "arena", "preallocate"),
    *("map", "preserve_inputs", "preserve_all", "variables"),
)


def do_plan(args: argparse.Namespace, say: Say) -> Done:
    """`plan`: a model's arena, one arena for several models, or a CSV of buffers."""
    with _without_collection():
        return _plan(args)


@contextmanager
def _without_collection() -> Iterator[None]:
    """Planning makes a great many objects that live to its end, and no circles of them: looking for these takes a
    quarter of the time for large models."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _plan(args: argparse.Namespace) -> Done:
    if [path.suffix.lower() for path in args.model] == [".csv"]:
        return _plan_csv(args, args.model[0])
    _refuse(args, ("capacity",), "is for a CSV", "Leave it out; --arena is what the plan of --plan-file has to fit in")
    for path in args.model:
        if path.suffix.lower() == ".csv":
            raise PlanError("a CSV is packed alone", where=str(path), hint="Name one file")
    if len(args.model) > 1:
        return _plan_several(args)
    from tflm_zephyr.model import planned

    item = _planned(args, args.model[0])
    if args.output is not None:
        _write_output(args.output, item.path, planned(item.running, item.head.offsets))
    return Done(report.plan(item, draw=args.map, written=args.output), _json(args, item))


def _plan_several(args: argparse.Namespace) -> Done:
    _refuse(args, ("output", "plan_file", "map", "preallocate"), "is for one model", "Plan the models one by one")
    items = [_planned(args, path) for path in args.model]
    lines = [report.plan(item, draw=False, written=None) for item in items]
    plain = {"models": [_json(args, item) for item in items], "shared_arena_bytes": report.shared_bytes(items)}
    return Done("\n".join([*lines, report.shared(items)]), plain)


def _refuse(args: argparse.Namespace, options: Sequence[str], why: str, hint: str) -> None:
    for option in options:
        if getattr(args, option) not in (None, False, []):
            raise PlanError(f"--{option.replace('_', '-')} {why}", where="plan", hint=hint)


def _planned(args: argparse.Namespace, path: Path) -> report.PlannedModel:
    from tflm_zephyr.arena import (
        arena_size,
        better_order,
        estimate_tail,
        head_with_plan,
        load_plan,
        plan_head,
        preallocated_tensors,
        reordered,
    )
    from tflm_zephyr.kernels import every_core, kernel_library, on_core, untried
    from tflm_zephyr.model import load_model
    from tflm_zephyr.tflm import CORTEX_M, PREALLOCATED_ALLOCATOR, with_layout

    model = load_model(path)
    library = kernel_library(args.kernels) if args.core is None else on_core(args.kernels, args.core)
    alike = tuple(one for one in every_core(args.kernels) if not untried(one)) if args.core is None else (library,)
    preallocated = preallocated_tensors(model, args.preallocate)

    overlap = () if args.overlap == "off" else alike

    def head_of(one: Model, without: Sequence[int]) -> HeadPlan:
        return plan_head(
            one,
            library,
            preserve_inputs=args.preserve_inputs,
            preserve_intermediates=args.preserve_all,
            plan_variables=args.variables,
            preallocated=without,
            overlap=overlap,
        )

    def best(without: Sequence[int]) -> tuple[tuple[int, ...] | None, Model, HeadPlan]:
        """Order, model and head; the file's order where it is as good."""
        better = None
        if args.order != "model":
            better = better_order(model, library, overlap=bool(overlap), preallocated=without)
        if better is None:
            return None, model, head_of(model, without)
        head = head_of(better[0], without)
        if head.head_bytes >= better[1].model_bytes:
            own = head_of(model, without)
            if own.head_bytes <= head.head_bytes:
                return None, model, own
        return better[1].operators, better[0], head

    if args.plan_file is not None:
        _refuse(args, ("order", "variables"), "does not go with --plan-file", "Leave it out: the plan says it")
        mine = load_plan(args.plan_file)
        mine.check_use(model, [args.kernels])
        order, running = mine.order, reordered(model, library, mine.order)
        heads = [
            head_with_plan(
                running,
                one,
                mine.offsets,
                preserve_inputs=args.preserve_inputs,
                preserve_intermediates=args.preserve_all,
                preallocated=preallocated,
                arena_bytes=args.arena,
                overlap=bool(overlap),
            )
            for one in alike
        ]
        head = heads[0]  # a core without extensions comes first, as in `library`
    elif args.arena is not None:
        raise AppError("--arena goes with --plan-file", where="plan", hint="Leave it out")
    else:
        order, running, head = best(preallocated)
    sizes = with_layout(CORTEX_M, "MicroAllocator", PREALLOCATED_ALLOCATOR) if preallocated else CORTEX_M
    arena = arena_size(head, library, sizes=sizes)
    saved = None
    if preallocated:
        whole = head_of(running, ()) if args.plan_file is not None else best(())[2]
        saved = arena_size(whole, library).bytes - arena.bytes
    tail = estimate_tail(head.graph, library, sizes, variables_planned=head.variables_planned)
    core = f" on {args.core}" if args.core is not None else " on any core without Helium" if len(alike) > 1 else ""
    return report.PlannedModel(
        path,
        model,
        head,
        arena,
        tail,
        f"{args.kernels} kernels{core}",
        saved,
        running,
        order,
    )


def _json(args: argparse.Namespace, item: report.PlannedModel) -> dict[str, Any]:
    return {
        **report.plan_json(item.head, item.model, item.order),
        "kernels": args.kernels,
        "core": args.core,
        "tail_bytes": item.arena.tail_bytes,
        "arena_bytes": item.arena.bytes,
        "preallocated_saves_bytes": item.saved_bytes,
    }


def _plan_csv(args: argparse.Namespace, path: Path) -> Done:
    from tflm_zephyr.memory_planner import check_plan, csv_files, lower_bound, pack

    _refuse(args, _OF_MODELS, "is for models", "Leave it out for a CSV")
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
    )


def _write_output(path: Path, source: Path, data: bytes) -> None:
    if path.resolve() == source.resolve():
        raise PlanError("is the input itself", where=str(path), hint="Name another output")
    try:
        write_atomically(path, data)
    except OSError as err:
        raise PlanError(f"cannot write ({err.strerror})", where=str(path)) from err

# SPDX-License-Identifier: Apache-2.0
"""`plan`: a model's arena, or a CSV of buffers."""

from __future__ import annotations

import argparse
from pathlib import Path

from tflm_zephyr import app_files
from tflm_zephyr.commands.done import Done, Say
from tflm_zephyr.errors import PlanError
from tflm_zephyr.report import text


def do_plan(args: argparse.Namespace, say: Say) -> Done:
    """`plan`: a model's arena, or a CSV of buffers."""
    if args.model.suffix.lower() == ".csv":
        return _plan_csv(args)
    from tflm_zephyr.kernels import get
    from tflm_zephyr.memory import plan_head
    from tflm_zephyr.model import load_model
    from tflm_zephyr.model_write import planned

    model = load_model(args.model)
    head = plan_head(
        model,
        get(args.kernels),
        preserve_inputs=args.preserve_inputs,
        preserve_intermediates=args.preserve_all,
        plan_variables=args.variables,
    )
    if args.output is not None:
        _write_output(args.output, args.model, planned(model, head.offsets))
    return Done(text.plan(args.model, model, head, draw=args.map, written=args.output), text.plan_json(head))


def _plan_csv(args: argparse.Namespace) -> Done:
    from tflm_zephyr.plan import csvio
    from tflm_zephyr.plan.check import check
    from tflm_zephyr.plan.search import pack

    problem = csvio.load(args.model)
    plan = pack(problem)
    check(plan)
    if args.output is not None:
        _write_output(args.output, args.model, csvio.dump(plan).encode())
    return Done(
        text.packing(plan, plan.proven_bytes, written=args.output),
        text.packing_json(plan, plan.proven_bytes),
    )


def _write_output(path: Path, source: Path, data: bytes) -> None:
    if path.resolve() == source.resolve():
        raise PlanError("is the input itself", where=str(path), hint="Name another output")
    try:
        app_files.write_atomically(path, data)
    except OSError as err:
        raise PlanError(f"cannot write ({err.strerror})", where=str(path)) from err

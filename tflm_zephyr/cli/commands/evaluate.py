# SPDX-License-Identifier: Apache-2.0
"""`evaluate`: a data set through a device, or several at once."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

from tflm_zephyr.cli.commands.infer import host_front_end, input_options
from tflm_zephyr.cli.commands.outcome import Done, Say
from tflm_zephyr.cli.commands.targets import can, opened, targets
from tflm_zephyr.cli.progress import progress
from tflm_zephyr.cli.report import evaluate as report
from tflm_zephyr.device.session import DeviceTarget
from tflm_zephyr.device.transport import digest_of
from tflm_zephyr.errors import AppError, ToolError
from tflm_zephyr.host import NAMES, available
from tflm_zephyr.model import load_model
from tflm_zephyr.validation import (
    Accuracy,
    Deviation,
    check_labels,
    deviate,
    evaluate_host,
    load_labels,
    score,
    worst_cases,
)
from tflm_zephyr.validation.evaluation import (
    Labelled,
    Opener,
    Pool,
    RunEvents,
    SampleResult,
    load_labelled,
    run_all,
    tick_statistics,
)


def do_evaluate(args: argparse.Namespace, say: Say) -> Done:
    """`evaluate`: accuracy or deviation, and ticks."""
    openers, options = _openers(args, say), input_options(args, host_front_end(args), None)
    labels = load_labels(args.labels) if args.labels else ()
    with Pool(openers) as pool:
        hello, session_can = pool.hello(), pool.capabilities
        if labels:
            check_labels(labels, hello.outputs, str(args.labels))
        data = load_labelled(args.data, hello.inputs, prod(hello.outputs[0].shape), options, labels, args.truth)
        judge = score if data.dataset.has_classes else deviate
        judge(hello.outputs[0], data.dataset, [bytes(hello.outputs[0].bytes)] * len(data.dataset))  # refused early
        if not session_can.batches:
            with progress(len(data.inputs), hello.model, "sample", quiet=args.quiet) as bar:
                build = digest_of(targets(args)[0]) if args.resume else ""
                events = RunEvents(bar.skip, bar.update, _tell(say), lambda text: say(f"note: {text}"))
                results = run_all(pool, hello, data.inputs, args.resume, build=build, events=events)
    if session_can.batches:
        results = _all_at_once(targets(args)[0], args, say, data.inputs)
    outputs = [result.output for result in results]
    found = judge(hello.outputs[0], data.dataset, outputs)
    worst = report.worst(hello, worst_cases(hello.outputs[0], data.dataset, outputs), data.inputs)
    compared = None if args.float is None else _float_model(args, data, found)
    ticks = tick_statistics([result.ticks for result in results]) if session_can.counts_ticks else None
    return Done(
        "\n".join([report.text(hello, args.data, found, ticks, data.labels), *report.float_lines(compared)]),
        {**report.plain(hello, args.data, found, ticks, data.labels), "worst": worst, "float": compared},
    )


def _float_model(args: argparse.Namespace, data: Labelled, found: Accuracy | Deviation) -> dict[str, Any]:
    """The float model of --float on the same data, on this host, as JSON values."""
    if args.data.is_dir():
        raise AppError("takes the real values of an .npz", where="--float", hint="Evaluate an .npz, or leave it out")
    engine = next((name for name in ("litert", "tflm") if available(name)), "litert")
    by_float = evaluate_host(load_model(args.float).data, data.dataset, engine=engine)
    return report.float_model(args.float, NAMES[engine], by_float, found)


def _all_at_once(
    target: DeviceTarget, args: argparse.Namespace, say: Say, inputs: Sequence[Sequence[bytes]]
) -> tuple[SampleResult, ...]:
    """The results of a session that runs all samples in one go."""
    with opened(target, args, say) as session:
        done = session.invoke_many(inputs, [True] * len(inputs))
        return tuple(SampleResult(run.outputs[0], run.ticks) for run in done)


def _openers(args: argparse.Namespace, say: Say) -> list[Opener]:
    """One for each port, or --jobs of the same target."""
    wanted = targets(args)
    if len(wanted) > 1:
        if args.jobs not in (None, len(wanted)):
            raise AppError(f"{len(wanted)} ports are as many jobs", where="--jobs", hint="Leave it out")
        return [partial(opened, target, args, say) for target in wanted]
    jobs = args.jobs or 1
    if not can(wanted[0]).carries_bytes and (jobs > 1 or args.resume is not None):
        raise AppError("all runs in one go on this host", where="--host", hint="Leave --jobs and --resume out")
    if jobs > 1 and (args.record or not can(wanted[0]).several):
        raise AppError(
            "one port or recording serves one job",
            where="--jobs",
            hint="Give a --port for each board, or none for QEMU",
        )
    return [partial(opened, wanted[0], args, say)] * jobs


def _tell(say: Say) -> Callable[[ToolError], None]:
    return lambda error: say(f"note: one device is gone, the others go on: {error}")

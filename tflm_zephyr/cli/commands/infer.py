# SPDX-License-Identifier: Apache-2.0
"""`infer`: files through a model, wherever it runs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tflm_zephyr.cli.commands.outcome import Done, Say
from tflm_zephyr.cli.commands.targets import one_target, opened
from tflm_zephyr.cli.report import infer as report
from tflm_zephyr.device.session import Session
from tflm_zephyr.errors import ToolError
from tflm_zephyr.files import write_new
from tflm_zephyr.model import load_model
from tflm_zephyr.tensors import TensorLike
from tflm_zephyr.validation import SampleOutputs, check_labels, invoke_all, load_labels
from tflm_zephyr.validation.inputs import (
    STDIN,
    DeviceFrontEnd,
    FrontEnd,
    HostFrontEnd,
    InputOptions,
    Sample,
    read_samples,
)


def do_infer(args: argparse.Namespace, say: Say) -> Done:
    """`infer`: each sample's outputs, as text or JSON, and in a file."""
    kind = _kind(args.output)
    target, labels = one_target(args), load_labels(args.labels) if args.labels else ()
    front = host_front_end(args)
    with opened(target, args, say) as session:
        hello, options = session.hello, input_options(args, front, session)
        if labels:
            check_labels(labels, hello.outputs, str(args.labels))
        samples = read_all(args.input, hello.inputs, options)
        counted = session.capabilities.counts_ticks
        answers = [
            SampleOutputs(sample.name, done.outputs, done.ticks if counted else None, sample.notes)
            for sample, done in zip(samples, invoke_all(session, samples), strict=True)
        ]
    lines = report.text(hello, answers, labels, raw=args.raw)
    if args.output is not None:
        data = report.as_bytes(kind, hello, answers, labels, raw=args.raw, command=args.command_line)
        write_new(args.output, data, force=args.force)
        lines += f"\nWritten: {args.output}"
    return Done(lines, report.plain(hello, answers, labels, raw=args.raw))


def host_front_end(args: argparse.Namespace) -> FrontEnd | None:
    """The front end where it is a file, a .tflite; one that is the name of a model is the device's."""
    if args.frontend is None or not (Path(args.frontend).suffix == ".tflite" or Path(args.frontend).exists()):
        return None
    return HostFrontEnd(load_model(Path(args.frontend)))


def input_options(args: argparse.Namespace, front: FrontEnd | None, session: Session | None) -> InputOptions:
    """Options for reading files. A front end that is not `front` is another model of the app behind `session`."""
    if args.frontend is not None and front is None:
        if session is None or args.frontend not in session.hello.models:
            there = f"; the app has {', '.join(session.hello.models)}" if session is not None else ""
            raise ToolError(f"is no .tflite file{there}", where=args.frontend, hint="Name the front end's file")
        front = DeviceFrontEnd(session, args.frontend)
    return InputOptions(args.raw, args.format, args.pixels, args.resample, args.stride, front, args.rate)


def read_all(sources: Sequence[str], inputs: Sequence[TensorLike], options: InputOptions) -> list[Sample]:
    """The samples of all sources in turn; ends the use of the front end."""
    if sources.count(STDIN) > 1:
        raise ToolError("standard input is given twice", where="-")
    samples = [sample for source in sources for sample in read_samples(source, inputs, options)]
    if options.frontend is not None:
        options.frontend.done()
    return samples


def _kind(output: Path | None) -> str:
    if output is None:
        return ""
    kind = output.suffix.lower().removeprefix(".")
    if kind not in report.FORMATS:
        raise ToolError("is none of .json, .csv, .npz", where=str(output), hint="Name the output file so")
    return kind

# SPDX-License-Identifier: Apache-2.0
"""`verify`: a device against the reference on this host, byte for byte."""

from __future__ import annotations

import argparse
from pathlib import Path

from tflm_zephyr.cli.commands.infer import host_front_end, input_options, read_all
from tflm_zephyr.cli.commands.outcome import Done, Say, refuse_flags
from tflm_zephyr.cli.commands.targets import can, host_model, one_target, opened
from tflm_zephyr.cli.progress import progress, reference_runs
from tflm_zephyr.cli.report import verify as report
from tflm_zephyr.codegen import own_path
from tflm_zephyr.device.session import Hello
from tflm_zephyr.errors import ToolError
from tflm_zephyr.files import write_new
from tflm_zephyr.model import Model, load_model
from tflm_zephyr.validation import random_samples, verify

_DEFAULT_RANDOM = 10


def do_verify(args: argparse.Namespace, say: Say) -> Done:
    """`verify`: exit code 1 when a sample differs, with the first operator that does."""
    target, front = one_target(args), host_front_end(args)
    if args.random == 0 or (args.random is None and args.input):
        refuse_flags(args, ["seed"], "is for random inputs, and there are none", "Add --random N")
    with opened(target, args, say) as session:
        hello, options = session.hello, input_options(args, front, session)
        model = host_model(args, hello)
        samples = read_all(args.input, hello.inputs, options)
        count = args.random if args.random is not None else 0 if samples else _DEFAULT_RANDOM
        samples += random_samples(model, count, args.seed or 0)
        if not samples:
            raise ToolError("nothing to run", where="verify", hint="Give inputs, or --random of 1 at least")
        with (
            progress(len(samples), hello.model, "run", quiet=args.quiet) as bar,
            reference_runs("references", quiet=args.quiet) as on_run,
        ):
            planned = _planned(args, hello)
            found = verify(session, model, samples, planned, on_sample=bar.update, on_reference=on_run)
    itself = not can(target).carries_bytes
    lines = report.text(hello, model, found, itself=itself)
    if args.dump is not None and found.failure is not None and found.failure.differing is not None:
        write_new(args.dump, report.arrays(found.failure.differing), force=args.force)
        lines += f"\nThe operator's inputs and outputs: {args.dump}"
    return Done(lines, report.plain(hello, model, found, itself=itself), 0 if found.passed else 1)


def _planned(args: argparse.Namespace, hello: Hello) -> Model | None:
    """The model as the app carries it."""
    path = None if args.app is None else own_path(args.app, f"src/models/{hello.model}.tflite")
    return load_model(path) if isinstance(path, Path) and path.is_file() else None

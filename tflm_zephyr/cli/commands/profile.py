# SPDX-License-Identifier: Apache-2.0
"""`profile`: each operator's ticks on a device, and a gate against an earlier profile."""

from __future__ import annotations

import argparse
import json

from tflm_zephyr.cli.commands.infer import host_front_end, input_options, read_all
from tflm_zephyr.cli.commands.outcome import Done, Say, refuse_flags
from tflm_zephyr.cli.commands.targets import host_model, one_target, opened
from tflm_zephyr.cli.report import profile as report
from tflm_zephyr.device.session import Session
from tflm_zephyr.documents import enveloped
from tflm_zephyr.errors import AppError
from tflm_zephyr.files import write_new
from tflm_zephyr.host import seeded_inputs
from tflm_zephyr.validation import profile as profiles

_DEFAULT_REGRESSION = 0.02


def do_profile(args: argparse.Namespace, say: Say) -> Done:
    """`profile`: exit code 1 when an operator takes more than the baseline allows."""
    if args.max_regression is not None and args.baseline is None:
        raise AppError("needs a profile to compare with", where="--max-regression", hint="Give --baseline FILE")
    target = one_target(args)
    if args.input is not None:
        refuse_flags(args, ["seed", "tflite"], "is for random input, and INPUT is given")
    baseline = profiles.load_profile(args.baseline) if args.baseline is not None else None
    limit = _DEFAULT_REGRESSION if args.max_regression is None else args.max_regression
    with opened(target, args, say) as session:
        hello = session.hello
        if not session.capabilities.counts_ticks:
            raise profiles.no_ticks(hello)
        inputs = _inputs(args, session)
        session.reset()
        profile = session.profile(inputs, args.runs)
    found = profiles.measured(hello, profile)
    changes = profiles.compare_profiles(found, baseline, str(args.baseline), limit) if baseline is not None else ()
    lines = [report.text(hello, found, changes)]
    if baseline is not None:
        for what in ("model", "sha256", "kernels"):
            if getattr(found, what) != getattr(baseline, what):
                lines.append(f"note: the baseline's {what} is {getattr(baseline, what)}, not {getattr(found, what)}")
        lines.append(report.verdict(changes, limit))
    if args.output is not None:
        document = enveloped("profile", profiles.as_json(found), args.command_line)
        write_new(args.output, f"{json.dumps(document, indent=1)}\n".encode(), force=args.force)
        lines.append(f"Written: {args.output}")
    if args.trace is not None:
        write_new(args.trace, profiles.trace(hello, profile), force=args.force)
        lines.append(f"Written: {args.trace}, for https://ui.perfetto.dev or chrome://tracing")
    failed = any(change.slower for change in changes)
    plain = report.plain(found, changes)
    return Done(
        "\n".join(lines),
        plain,
        1 if failed else 0,
        terminal=lambda width: report.on_terminal(hello, plain, lines[1:]),
    )


def _inputs(args: argparse.Namespace, session: Session) -> tuple[bytes, ...]:
    """The first sample of the file that was given, or seeded random bytes for the model's inputs."""
    hello = session.hello
    if args.input is not None:
        return read_all([args.input], hello.inputs, input_options(args, host_front_end(args), session))[0].inputs
    return seeded_inputs(host_model(args, hello), args.seed or 0)

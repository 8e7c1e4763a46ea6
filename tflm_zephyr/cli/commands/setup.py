# SPDX-License-Identifier: Apache-2.0
"""`setup`: a west workspace from this project's manifest, or TFLM's modules for one that exists."""

from __future__ import annotations

import argparse

from tflm_zephyr.build import Setup, carry_out, plan_setup
from tflm_zephyr.cli.commands.outcome import Done, Say
from tflm_zephyr.errors import BuildError


def do_setup(args: argparse.Namespace, say: Say) -> Done:
    """`setup`. Exit code 1 when the user says no, or has to edit a manifest."""
    setup = plan_setup(args.folder)
    if setup.steps:
        say("\n".join([_title(setup), *(f"  {step.shown}" for step in setup.steps)]))
        if not args.yes:
            answer = args.confirm("Run these?")
            if answer is None:
                raise BuildError("there is no terminal to ask on", where="setup", hint="Give --yes to run the commands")
            if not answer:
                return Done("Nothing was changed.", _json(setup, done=False), 1)
        carry_out(setup, on_line=say)
    if setup.stanza:
        return Done(setup.stanza.rstrip(), _json(setup, done=bool(setup.steps)), 1)
    if not setup.steps:
        return Done(f"{setup.topdir} has all that apps need.", _json(setup, done=True))
    return Done(f"Done. Next: tflm-zephyr doctor -w {setup.topdir}", _json(setup, done=True))


def _title(setup: Setup) -> str:
    return f"A new workspace in {setup.topdir}:" if setup.new else f"For the workspace {setup.topdir}:"


def _json(setup: Setup, *, done: bool) -> dict[str, object]:
    return {
        "workspace": str(setup.topdir),
        "new": setup.new,
        "steps": [step.shown for step in setup.steps],
        "stanza": setup.stanza,
        "done": done,
    }

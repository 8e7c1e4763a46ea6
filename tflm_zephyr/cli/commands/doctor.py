# SPDX-License-Identifier: Apache-2.0
"""`doctor`: the installed and missing parts of this machine and workspace, with the command for each missing one."""

from __future__ import annotations

import argparse
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tflm_zephyr.cli.commands.outcome import Done, Say

# The toolkit's dependencies, as in pyproject.toml (a test compares them): in a west workspace it is not installed.
PACKAGES = (
    "cobs", "flatbuffers", "jinja2", "jsonschema", "numpy", "pillow", "pyelftools", "pyserial", "pyyaml", "rich",
    "tflite", "tqdm", "west",
)  # fmt: skip


def do_doctor(args: argparse.Namespace, say: Say) -> Done:
    """`doctor`. Exit code 1 when something that is needed is missing."""
    packages = {name: _installed(name) for name in PACKAGES}
    if not all(packages.values()):
        return _without_packages(packages)
    from tflm_zephyr.boards import load_board
    from tflm_zephyr.build import diagnose, find_workspace_if_any, healthy, in_workspace, survey, with_ports
    from tflm_zephyr.cli.report import doctor as report
    from tflm_zephyr.device.transport import find_ports
    from tflm_zephyr.errors import BuildError

    board = None if args.board is None else load_board(args.board)
    if board is not None:
        try:
            workspace = find_workspace_if_any(args.workspace, app=Path.cwd())
            board = board if workspace is None else in_workspace(board, workspace)
        except BuildError:
            pass  # which the diagnosis says
    facts = survey(packages, explicit=args.workspace, board=board)
    facts = with_ports(facts, [(port.device, port.vid, port.serial_number) for port in find_ports()])
    findings = diagnose(facts, board)
    name = "" if board is None else board.name
    return Done(report.diagnosis(findings, name), report.diagnosis_json(findings, name), 0 if healthy(findings) else 1)


def _without_packages(packages: dict[str, str]) -> Done:
    """The only finding without the toolkit's own dependencies: no other module is imported."""
    lacking = [name for name, found in packages.items() if not found]
    python, fix = platform.python_version(), f"python -m pip install {' '.join(lacking)}"
    text = f"Python {python} lacks {', '.join(lacking)}"
    finding = {"topic": "Python packages", "mark": "missing", "text": text, "fix": fix}
    shown = f"missing  Python packages    {text}\n{'':<27} fix: {fix}\nThe rest is looked at once they are there."
    return Done(shown, {"board": None, "ok": False, "findings": [finding]}, 1)


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""

# SPDX-License-Identifier: Apache-2.0
"""The parsers of the commands that look at a machine, a workspace or a model before an app is there."""

from __future__ import annotations

from pathlib import Path

from tflm_zephyr.cli.options import Commands, add_command, add_workspace


def add_doctor(commands: Commands) -> None:
    """`doctor`."""
    parser = add_command(commands, "doctor", "show what this machine and workspace have and lack, with the commands")
    parser.add_argument(
        "-b",
        "--board",
        metavar="BOARD",
        help="judge by what this board target needs (default: by what every board needs; the rest is optional)",
    )
    add_workspace(parser)


def add_setup(commands: Commands) -> None:
    """`setup`."""
    parser = add_command(commands, "setup", "make a west workspace, or add TFLM's modules to one, after asking")
    parser.add_argument("folder", type=Path, metavar="DIR", help="a new workspace's folder, or one inside a workspace")
    parser.add_argument("-y", "--yes", action="store_true", help="run the commands without asking")


def add_inspect(commands: Commands) -> None:
    """`inspect`."""
    parser = add_command(commands, "inspect", "show a model's tensors, operators, and what each kernel library does")
    parser.add_argument("model", type=Path, metavar="MODEL", help="a .tflite file")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the model's page, as `report MODEL -o` does")

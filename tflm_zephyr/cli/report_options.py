# SPDX-License-Identifier: Apache-2.0
"""The arguments of `report`."""

from __future__ import annotations

from pathlib import Path

from tflm_zephyr.cli.options import Commands, add_command


def add_report(commands: Commands) -> None:
    """`report`."""
    parser = add_command(commands, "report", "make one HTML page of what is known about an app or a model")
    parser.add_argument(
        "source",
        type=Path,
        nargs="+",
        metavar="SOURCE",
        help="a generated app's folder, a .tflite, or JSON that any command printed with --json",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write the page: one .html that loads nothing"
    )
    parser.add_argument("--compare", action="store_true", help="what changed from the first source to the last")
    parser.add_argument(
        "--markdown", action="store_true", help="print a summary in Markdown, as for GitHub's job summary"
    )
    parser.add_argument("--title", metavar="TEXT", help="the page's title (default: the app's name)")
    parser.add_argument("--force", action="store_true", help="replace a file that is no such page, keeping it as .orig")

# SPDX-License-Identifier: Apache-2.0
"""Parsers of the commands for apps, libraries, plans and pages: the arguments that options.table does not have."""

from __future__ import annotations

from pathlib import Path

from tflm_zephyr.cli.options import CommandParser, Commands, add_command, add_workspace, period, size


def add_generate(commands: Commands) -> None:
    """`generate`."""
    parser = add_command(commands, "generate", "write a ready-to-flash Zephyr app for a .tflite model")
    _models(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="APP", help="the app's folder")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the app is stale")
    parser.add_argument("--force", action="store_true", help="replace files edited by hand, keeping them as .orig")
    parser.more.add_argument("--ci", choices=("github", "gitlab"), help="write the CI workflow for the app")
    add_workspace(parser)


def add_fit(commands: Commands) -> None:
    """`fit`."""
    parser = add_command(commands, "fit", "estimate an app's flash and RAM by board, with remedies if it does not fit")
    _models(parser)
    parser.add_argument(
        "--into", type=Path, metavar="DIR", help="what is left in an application's build folder, and the ways that fit"
    )
    add_workspace(parser)


def _models(parser: CommandParser) -> None:
    parser.add_argument("model", nargs="*", type=Path, metavar="MODEL", help=".tflite files")
    parser.add_argument("--app", type=Path, metavar="FILE", help="an app file (YAML) instead of the flags")


def add_library(commands: Commands) -> None:
    """`library`."""
    parser = add_command(commands, "library", "write a model's C and C++ library, as tflm_model() in CMake does")
    parser.add_argument("model", type=Path, metavar="MODEL", help="a .tflite file")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="the library's folder")
    parser.add_argument(
        "--core", required=True, metavar="CORE", help="the core, as in cortex-m33; riscv and the like for the others"
    )
    parser.more.add_argument("--zephyr-base", type=Path, metavar="DIR", help="Zephyr (default: what the toolkit ships)")
    parser.more.add_argument("--tflm-dir", type=Path, metavar="DIR", help="Zephyr's tflite-micro module")
    parser.more.add_argument("--cmsis-nn-dir", type=Path, metavar="DIR", help="Zephyr's cmsis-nn module")


def add_plan(commands: Commands) -> None:
    """`plan`."""
    parser = add_command(commands, "plan", "plan a model's tensor arena, or pack a CSV of buffers")
    more = parser.more
    parser.add_argument(
        "model",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="a .tflite model, or several for one arena; or a CSV: id,lower,upper,size",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="OUT", help="write the planned .tflite (or CSV)")
    parser.add_argument(
        "--capacity",
        type=size,
        metavar="BYTES",
        help="for a CSV: what it has to fit in; exit 1 when no packing within it is found",
    )
    parser.add_argument("--core", metavar="CORE", help="a core instead of boards, as in cortex-m33")
    add_workspace(parser)
    parser.add_argument(
        "--rows", action="store_true", help="list the ways to run the model as compiled code: RAM against work"
    )
    parser.add_argument(
        "--period", type=period, metavar="TIME", help="with --hop: the time from one hop to the next, as in 20ms"
    )
    parser.add_argument("--map", action="store_true", help="draw the arena step by step")
    parser.add_argument(
        "--svg", type=Path, metavar="FILE", help="draw the arena before and after, or with --rows the ways, as an SVG"
    )
    more.add_argument("--png", type=Path, metavar="FILE", help="the same as a PNG")
    more.add_argument("--force", action="store_true", help="replace these two, keeping them as .orig")
    more.add_argument("--preserve-inputs", action="store_true", help="keep inputs intact to the end of the run")
    more.add_argument("--preserve-all", action="store_true", help="keep every tensor, to look at after the run")
    more.add_argument("--variables", action="store_true", help="plan variable tensors into the head as well")


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
    parser.add_argument(
        "--float", type=Path, metavar="MODEL", help="the float .tflite of the same network: which layer loses accuracy"
    )
    parser.more.add_argument(
        "--data", type=Path, metavar="FILE", help=".npz or .npy with inputs for that (default: random ones)"
    )
    parser.add_argument("--title", metavar="TEXT", help="the page's title (default: the app's name)")
    parser.add_argument("--force", action="store_true", help="replace a file that is no such page, keeping it as .orig")

# SPDX-License-Identifier: Apache-2.0
"""The arguments of `plan`, and those about a model's plan that other commands have as well."""

from __future__ import annotations

import argparse
from pathlib import Path

from tflm_zephyr.cli.options import Commands, add_command, percent, size


def add_plan(commands: Commands) -> None:
    """`plan`."""
    parser = add_command(commands, "plan", "plan a model's tensor arena, or pack a CSV of buffers")
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
    parser.add_argument(
        "--board", action="append", metavar="BOARD", help="as for `generate`, with the same default; may be repeated"
    )
    parser.add_argument("--core", metavar="CORE", help="a core instead of boards, as in cortex-m33")
    parser.add_argument(
        "--kernels",
        choices=("auto", "reference", "cmsis_nn"),
        default="auto",
        help="the kernel library (default: auto, the choice of `generate`)",
    )
    parser.add_argument(
        "--tflm",
        choices=("selected", "module"),
        default="selected",
        help="TFLM in the app, as for `generate`: selected sources, or Zephyr's module, whose structs are larger",
    )
    parser.add_argument("--workspace", type=Path, metavar="DIR", help="the west workspace (default: the one around)")
    add_planning(parser)
    parser.add_argument(
        "--plan-file", type=Path, metavar="PLAN", help="check this plan instead: JSON, as --json prints it"
    )
    parser.add_argument("--arena", type=size, metavar="BYTES", help="what the plan of --plan-file has to fit in")
    parser.add_argument(
        "--preallocate",
        action="append",
        default=[],
        metavar="TENSOR",
        help="a tensor, by name or index, that a buffer of the app's own holds; may be repeated",
    )
    _add_ways(parser)
    parser.add_argument("--preserve-inputs", action="store_true", help="keep inputs intact to the end of the run")
    parser.add_argument("--preserve-all", action="store_true", help="keep every tensor, to look at after the run")
    parser.add_argument("--variables", action="store_true", help="plan variable tensors into the head as well")


def _add_ways(parser: argparse.ArgumentParser) -> None:
    """Options for the ways of compiled code, and for pictures."""
    parser.add_argument(
        "--rows", action="store_true", help="list the ways to run the model as compiled code: RAM against work"
    )
    parser.add_argument(
        "--fast-kernels", action="store_true", help="with --rows: of compiled code with its own kernels"
    )
    parser.add_argument("--map", action="store_true", help="draw the arena step by step")
    parser.add_argument(
        "--svg", type=Path, metavar="FILE", help="draw the arena before and after, or with --rows the ways, as an SVG"
    )
    parser.add_argument("--png", type=Path, metavar="FILE", help="the same as a PNG")
    parser.add_argument("--force", action="store_true", help="replace these two, keeping them as .orig")


def add_planning(parser: argparse.ArgumentParser) -> None:
    """Options for planning."""
    parser.add_argument(
        "--overlap",
        choices=("auto", "off"),
        help="in-place operators where the kernels allow it (auto, the default), or none",
    )
    parser.add_argument(
        "--order",
        choices=("auto", "model"),
        help="the operators' order with the smallest head (auto, the default), or the model's",
    )


def add_compiling(parser: argparse.ArgumentParser, *, board: bool = True) -> None:
    """Options for compiled code, and --flash for an app of a known board."""
    parser.add_argument(
        "--rows", action="store_true", default=None, help="compiled layers run row by row where that takes less RAM"
    )
    parser.add_argument(
        "--stream-input",
        action="store_true",
        default=None,
        help="the input comes row by row and is never in RAM as a whole; implies --rows",
    )
    parser.add_argument(
        "--ram",
        type=size,
        metavar="BYTES",
        help="what each compiled model is to fit in, as in 16K, at the least cost; by rows or not",
    )
    if board:
        parser.add_argument(
            "--flash",
            type=size,
            metavar="BYTES",
            help="what the app is to fit in on each board, as in 200K, by the estimate of `fit`",
        )
    parser.add_argument(
        "--fast-kernels",
        action="store_true",
        default=None,
        help="int8 layers of compiled code call kernels of its own, with weights laid out, where that is faster",
    )
    parser.add_argument(
        "--slower",
        type=percent,
        metavar="PERCENT",
        help="how much more work compiled code may do for less RAM, as an estimate: 0.5, 10%% "
        "(default: 3%%, and with --ram any)",
    )

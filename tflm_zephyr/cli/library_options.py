# SPDX-License-Identifier: Apache-2.0
"""The arguments of `library`, which tflm_model() of the Zephyr module runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from tflm_zephyr.cli.options import Commands, add_command, size
from tflm_zephyr.cli.plan_options import add_compiling, add_planning


def add_library(commands: Commands) -> None:
    """`library`."""
    parser = add_command(commands, "library", "write a model's C and C++ library, as tflm_model() in CMake does")
    parser.add_argument("model", type=Path, metavar="MODEL", help="a .tflite file")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="the library's folder")
    parser.add_argument("--name", help="prefix of the C functions, a C identifier (default: the file's name)")
    parser.add_argument(
        "--core", required=True, metavar="CORE", help="the core, as in cortex-m33; riscv and the like for the others"
    )
    parser.add_argument("--kernels", choices=("auto", "reference", "cmsis_nn"), default="auto", help="kernel library")
    parser.add_argument(
        "--plan",
        choices=("packed", "online", "static"),
        default="packed",
        help="who plans the arena: this tool (default), TFLM at start-up, or a table in place of TFLM's planner",
    )
    parser.add_argument("--plan-file", type=Path, metavar="PLAN", help="your own plan, as `plan --json` prints one")
    add_planning(parser)
    parser.add_argument(
        "--backend", choices=("interpreter", "compiled", "auto"), help="what runs the model (default: interpreter)"
    )
    add_compiling(parser, board=False)
    parser.add_argument("--arena", type=size, metavar="BYTES", help="tensor arena size (default: an estimate)")
    parser.add_argument("--arena-section", default="", metavar="NAME", help="the arena's linker section")
    parser.add_argument("--labels", type=Path, metavar="FILE", help="names of the elements of output 0, one a line")
    parser.add_argument("--debug", action="store_true", help="TFLM keeps its messages and asserts")
    _modules(parser)


def _modules(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--zephyr-base", type=Path, metavar="DIR", help="Zephyr (default: what the toolkit ships)")
    parser.add_argument("--tflm-dir", type=Path, metavar="DIR", help="Zephyr's tflite-micro module")
    parser.add_argument("--cmsis-nn-dir", type=Path, metavar="DIR", help="Zephyr's cmsis-nn module")

# SPDX-License-Identifier: Apache-2.0
"""Compiled code row by row beside the MicroInterpreter: python benchmarks/rows.py [--models NAME ...] [-b BOARD ...]

Each model becomes an app with CMSIS-NN's kernels by the interpreter, and one by compiled code with --rows, which are
built and run in QEMU. A line for each: bytes of the model's RAM (arena), flash and RAM of the whole app by the linker's
table, instructions of an inference, and whether the self-test found every output equal to its reference. Below are the
shares of the smallest arena of TFLM's own interpreter (as benchmarks/arena.py measures it), or of the interpreter's
here, and of the interpreter's instructions, with their goals.

Needs a west workspace (ZEPHYR_BASE) with the tflite-micro and cmsis-nn modules, a compiler and QEMU.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.common import Bench, main_of, say, say_load  # noqa: E402
from benchmarks.compiled import STOCK_BYTES, Verdict, Way, measured, models, row  # noqa: E402
from tflm_zephyr.codegen.backends import COMPILED, INTERPRETER  # noqa: E402
from tflm_zephyr.errors import ToolError  # noqa: E402

BOARDS = ("mps2/an385", "mps2/an386", "mps2/an521/cpu0")
SECURE = "mps2/an521/cpu0"


@dataclass(frozen=True)
class Goal:
    """The most that a model may take of the arena and of the instructions; `slower` is the option's percentage."""

    arena: float
    instructions: float = 1.03
    slower: int = 3


GOALS: Mapping[str, Goal] = {
    "digits": Goal(0.70),
    "kws_ref_model": Goal(0.40, 1.08, 8),
    "micro_speech_quantized": Goal(0.70),
    "mobilenet": Goal(0.40),
    "person_detect": Goal(0.18),
    "pretrainedResnet_quant": Goal(0.35),
}
OTHER_GOALS: Mapping[tuple[str, str], Goal] = {("person_detect", SECURE): Goal(0.20)}


def lines(name: str, board: str, interpreted: Way, by_rows: Way, verdict: Verdict) -> list[str]:
    """Both ways and the shares, as the table shows them."""
    goal = OTHER_GOALS.get((name, board), GOALS[name])
    stock, where = STOCK_BYTES.get(name, interpreted.arena), f"{name} on {board}"
    shares = [verdict.of(where, f"of {stock:,}", by_rows.arena / stock, goal.arena)]
    if by_rows.instructions is not None and interpreted.instructions:
        share = by_rows.instructions / interpreted.instructions
        shares.append(verdict.of(where, "instructions", share, goal.instructions))
    return [row(name, INTERPRETER, interpreted), row("", "rows", by_rows), "  " + ", ".join(shares)]


def compare(bench: Bench, board: str, wanted: list[str], verdict: Verdict) -> None:
    """Print the table of one board."""
    say(f"\n{board}, CMSIS-NN's kernels")
    say(f"{'model':24} {'way':12} {'arena':>9} {'flash':>9} {'RAM':>9} {'instructions':>13} {'build s':>7} outputs")
    for name, model in models(bench.folder).items():
        if name not in GOALS or (wanted and name not in wanted):
            continue
        flags = ("--rows", "--slower", str(GOALS[name].slower))
        try:
            interpreted = measured(bench, model, board, INTERPRETER, cold=False)
            by_rows = measured(bench, model, board, COMPILED, cold=False, flags=flags)
        except ToolError as error:
            say(f"{name:24} {str(error).splitlines()[0]}")
            continue
        for line in lines(name, board, interpreted, by_rows, verdict):
            say(line)


def main() -> int:
    """Measure every board that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-b", "--board", action="append", help=f"default: {' '.join(BOARDS)}; may be repeated")
    parser.add_argument("--models", nargs="*", default=[], metavar="NAME", help="just these models")

    def body(args: argparse.Namespace, bench: Bench) -> None:
        say_load()
        verdict = Verdict()
        for board in args.board or BOARDS:
            bench.workspace.require(board, "cmsis_nn")
            compare(bench, board, args.models, verdict)
        say(f"\n{verdict.met} of {verdict.met + len(verdict.missed)} goals are met")
        for missed in verdict.missed:
            say(f"missed: {missed}")

    return main_of(parser, body)


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Windows that overlap, a hop beside the whole window: python benchmarks/windows.py [MODEL:ROWS ...] [-b BOARD ...]

Each model becomes four apps, built and run in QEMU: the interpreter with CMSIS-NN's kernels, compiled code with the
fastest kernels on the whole window, and by hops of ROWS rows, fast and in the least RAM at twice the cycles. A line
for each: bytes of the model's RAM (arena), flash and RAM of the whole app by the linker's table, instructions of an
inference or of a hop (the mean behind the first window), and whether the self-test found every output equal to its
reference. Below are a hop's shares of the instructions of both whole windows, with their goals.

Without MODEL those of GOALS that are in ../shared/models. Needs a west workspace (ZEPHYR_BASE) with the tflite-micro
and cmsis-nn modules, a compiler and QEMU.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.common import Bench, main_of, say, say_load  # noqa: E402
from benchmarks.compiled import SHARED, Verdict, Way, measured, row  # noqa: E402
from tflm_zephyr.errors import ToolError  # noqa: E402
from tflm_zephyr.options import COMPILED, INTERPRETER  # noqa: E402

BOARDS = ("mps2/an386",)
FAST = ("--fast-kernels",)
RUNS = "8"


@dataclass(frozen=True)
class Goal:
    """The most that a hop of `rows` rows may take of the interpreter's instructions, and of our fastest whole window's.

    `arena`: bytes of RAM that it is to stay below.
    """

    rows: int
    interpreter: float
    fastest: float
    arena: int | None = None


GOALS: Mapping[str, Goal] = {
    "str_ww_ref_model": Goal(1, 0.05, 0.08, 5_760),
    "kws_ref_model": Goal(2, 0.25, 0.5),
}


def ways(bench: Bench, model: Path, board: str, rows: int) -> Iterator[tuple[str, Way]]:
    """The four apps by their label. Raises ToolError."""
    hop = ("--hop", str(rows), "--runs", RUNS, *FAST)
    yield INTERPRETER, measured(bench, model, board, INTERPRETER, cold=False)
    yield "whole", measured(bench, model, board, COMPILED, cold=False, flags=FAST)
    yield "hop", measured(bench, model, board, COMPILED, cold=False, flags=hop, warm_up=1)
    least = (*hop, "--slower", "100")
    yield "hop, least", measured(bench, model, board, COMPILED, cold=False, flags=least, warm_up=1)


def lines(name: str, board: str, found: Mapping[str, Way], goal: Goal, verdict: Verdict) -> Iterator[str]:
    """All ways and the shares, as the table shows them."""
    for number, (label, way) in enumerate(found.items()):
        yield row("" if number else name, label, way)
    hop, where = found["hop"], f"{name} on {board}"
    shares = []
    for label, most in ((INTERPRETER, goal.interpreter), ("whole", goal.fastest)):
        if hop.instructions is not None and (whole := found[label].instructions):
            shares.append(verdict.of(where, f"of {label}", hop.instructions / whole, most or None))
    if goal.arena is not None:
        shares.append(verdict.of(where, f"RAM of {goal.arena:,}", hop.arena / goal.arena, 1.0))
    yield "  " + ", ".join(shares)


def compare(bench: Bench, board: str, models: Mapping[Path, Goal], verdict: Verdict) -> None:
    """Print the table of one board."""
    say(f"\n{board}, our own kernels where they are faster, else CMSIS-NN's")
    say(f"{'model':24} {'way':12} {'arena':>9} {'flash':>9} {'RAM':>9} {'instructions':>13} {'build s':>7} outputs")
    for model, goal in models.items():
        try:
            found = dict(ways(bench, model, board, goal.rows))
        except ToolError as error:
            say(f"{model.stem:24} {str(error).splitlines()[0]}")
            continue
        for line in lines(model.stem, board, found, goal, verdict):
            say(line)


def _asked(text: str) -> tuple[Path, Goal]:
    """A model and the rows of its hop; with the goals of a model of that name."""
    path, _, rows = text.rpartition(":")
    goal = GOALS.get(Path(path).stem)
    return Path(path), goal if goal is not None and goal.rows == int(rows) else Goal(int(rows), 0.0, 0.0)


def main() -> int:
    """Measure every board that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*", type=_asked, metavar="MODEL:ROWS", help="a .tflite file, rows of a hop")
    parser.add_argument("-b", "--board", action="append", help=f"default: {' '.join(BOARDS)}; may be repeated")

    def body(args: argparse.Namespace, bench: Bench) -> None:
        say_load()
        verdict = Verdict()
        known = {SHARED / f"{name}.tflite": goal for name, goal in GOALS.items()}
        models = dict(args.models) or {path: goal for path, goal in known.items() if path.is_file()}
        for board in args.board or BOARDS:
            bench.workspace.require(board, "cmsis_nn")
            compare(bench, board, models, verdict)
        verdict.show()

    return main_of(parser, body)


if __name__ == "__main__":
    sys.exit(main())

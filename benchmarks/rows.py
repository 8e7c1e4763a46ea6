# SPDX-License-Identifier: Apache-2.0
"""Compiled code row by row beside the MicroInterpreter: python benchmarks/rows.py [--models NAME ...] [-b BOARD ...]

Each model becomes an app with CMSIS-NN's kernels by the interpreter, one by compiled code with --rows, and, where its
input can come row by row, one with --stream-input, which are built and run in QEMU. A line for each: bytes of the
model's RAM (arena), flash and RAM of the whole app by the linker's table, instructions of an inference, and whether the
self-test found every output equal to its reference. Below are the shares of the smallest arena of TFLM's own
interpreter (as benchmarks/arena.py measures it), or of the interpreter's here, and of the interpreter's instructions,
with their goals; on a core with Helium those of the interpreter's arena, without goals. A last line has what the model
by rows takes without Zephyr: .bss by the linker, and stack below its caller with the generator's bound on it (unknown
with Helium). With streamed input an inference begins with the first row; the interpreter's without its input.

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

from benchmarks.common import Bench, add_models, main_of, say, say_load  # noqa: E402
from benchmarks.compiled import STOCK_BYTES, Verdict, Way, kernels_named, measured, models_with_goals, row  # noqa: E402
from tests.helpers.bare_metal import MACHINES, BareMetal, random_inputs  # noqa: E402
from tests.helpers.compiled_check import expected  # noqa: E402
from tests.helpers.compiled_host import Checkouts, generated  # noqa: E402
from tflm_zephyr.boards.board import load_board  # noqa: E402
from tflm_zephyr.codegen.backends.compiled import runtime_of  # noqa: E402
from tflm_zephyr.errors import ToolError  # noqa: E402
from tflm_zephyr.options import COMPILED, INTERPRETER  # noqa: E402
from tflm_zephyr.tflm import tflm_of  # noqa: E402

BOARDS = ("mps2/an385", "mps2/an386", "mps2/an521/cpu0")
SECURE = "mps2/an521/cpu0"
HELIUM = "mps3/corstone300/an547"


@dataclass(frozen=True)
class Goal:
    """The most that a model may take of the arena and of the instructions; `slower` is the option's percentage.

    `streamed`: the most of the arena with streamed input, which is not there then; None where no input can come so.
    """

    arena: float
    instructions: float = 1.03
    slower: int = 3
    streamed: float | None = None


GOALS: Mapping[str, Goal] = {
    "digits": Goal(0.70, streamed=0.70),
    "kws_ref_model": Goal(0.40, 1.08, 8, streamed=0.40),
    "micro_speech_quantized": Goal(0.70, streamed=0.15),
    "mobilenet": Goal(0.40, streamed=0.20),
    "person_detect": Goal(0.18, streamed=0.17),
    "pretrainedResnet_quant": Goal(0.35, streamed=0.28),
}
OTHER_GOALS: Mapping[tuple[str, str], Goal] = {("person_detect", SECURE): Goal(0.20, streamed=0.20)}


def goal_of(name: str, board: str) -> Goal:
    """The goal of a model on a board."""
    return OTHER_GOALS.get((name, board), GOALS[name])


def lines(
    name: str, board: str, interpreted: Way, by_rows: Way, verdict: Verdict, streamed: Way | None = None
) -> list[str]:
    """All ways and the shares, as the table shows them."""
    goal, where = goal_of(name, board), f"{name} on {board}"
    stock = interpreted.arena if board == HELIUM else STOCK_BYTES.get(name, interpreted.arena)
    found = [row(name, INTERPRETER, interpreted)]
    for label, way, most in (("rows", by_rows, goal.arena), ("streamed", streamed, goal.streamed)):
        if way is None or most is None:
            continue
        which = where if label == "rows" else f"{where}, {label}"
        wanted = board != HELIUM
        shares = [verdict.of(which, f"of {stock:,}", way.arena / stock, most if wanted else None)]
        if way.instructions is not None and interpreted.instructions:
            share = way.instructions / interpreted.instructions
            shares.append(verdict.of(which, "instructions", share, goal.instructions if wanted else None))
        found += [row("", label, way), "  " + ", ".join(shares)]
    return found


def without_zephyr(bench: Bench, model: Path, board: str, slower: int, *, fast: bool = False) -> str:
    """.bss and stack of the model by rows, in a program without an operating system."""
    workspace = bench.workspace
    assert workspace.tflm_dir is not None and workspace.cmsis_nn_dir is not None
    revision = tflm_of(None, workspace.tflm_revision)
    checkouts = Checkouts(workspace.tflm_dir, workspace.cmsis_nn_dir, bench.folder / "objects", revision)
    machine = next(machine for machine in MACHINES.values() if machine.board == board)
    metal = BareMetal(checkouts, machine, bench.folder / "bare" / load_board(board).file_stem)
    made = generated(
        model, bench.folder / "bare_app", "cmsis_nn", revision, board, rows=True, slower=slower, picked=fast
    )
    inputs = random_inputs(runtime_of(made.spec.models[0]).program)
    (want,) = expected(runtime_of(made.spec.models[0]).program, [inputs])
    found = metal.measured(made, inputs, want)
    bound = "an unknown bound" if found.stack_bound_bytes is None else f"at most {found.stack_bound_bytes:,}"
    return f"  without Zephyr: .bss {found.bss_bytes:,}, stack {found.stack_bytes:,} of {bound}"


def compare(bench: Bench, board: str, wanted: list[str], verdict: Verdict, *, fast: bool = False) -> None:
    """Print the table of one board."""
    say(f"\n{board}, {kernels_named(fast)}")
    say(f"{'model':24} {'way':12} {'arena':>9} {'flash':>9} {'RAM':>9} {'instructions':>13} {'build s':>7} outputs")
    for name, model in models_with_goals(bench.folder, GOALS.keys(), wanted).items():
        goal = goal_of(name, board)
        slower = ("--slower", str(GOALS[name].slower), *(("--fast-kernels",) if fast else ()))
        try:
            interpreted = measured(bench, model, board, INTERPRETER, cold=False)
            by_rows = measured(bench, model, board, COMPILED, cold=False, flags=("--rows", *slower))
            streamed = None
            bare = without_zephyr(bench, model, board, GOALS[name].slower, fast=fast)
            if goal.streamed is not None:
                streamed = measured(bench, model, board, COMPILED, cold=False, flags=("--stream-input", *slower))
        except ToolError as error:
            say(f"{name:24} {str(error).splitlines()[0]}")
            continue
        for line in (*lines(name, board, interpreted, by_rows, verdict, streamed), bare):
            say(line)


def main() -> int:
    """Measure every board that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-b", "--board", action="append", help=f"default: {' '.join(BOARDS)}; may be repeated")
    add_models(parser)
    parser.add_argument("--fast-kernels", action="store_true", help="rows with the kernels that it picks")

    def body(args: argparse.Namespace, bench: Bench) -> None:
        say_load()
        verdict = Verdict()
        for board in args.board or BOARDS:
            bench.workspace.require(board, "cmsis_nn")
            compare(bench, board, args.models, verdict, fast=args.fast_kernels)
        verdict.show()

    return main_of(parser, body)


if __name__ == "__main__":
    sys.exit(main())

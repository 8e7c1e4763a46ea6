# SPDX-License-Identifier: Apache-2.0
"""How well and how fast buffers are packed: python benchmarks/plan.py [--hard N] [--scale] [--problems]

Three tables, all of them without an option; seconds are of one core, and CPU time.
- problems: google/minimalloc's benchmarks A to F where they are there, each to be packed within its capacity in
  60 s, beside what TFLM's greedy planner makes of them.
- hard: N problems of each kind that are made by cutting a rectangle (capacity x time) into pieces, so that a
  packing within the capacity exists; how many are found.
- scale: the `plan` command for synthetic models of 100, 1,000 and 10,000 operators, in place, and a search for a
  better order, which branches have; the goal is 5 s for the last, and a growth of n log n.

The exit code is 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.plan_models import branches, chain, model_of  # noqa: E402
from tflm_zephyr.cli.commands.plan import do_plan  # noqa: E402
from tflm_zephyr.cli.main import build_parser  # noqa: E402
from tflm_zephyr.memory_planner.checker import check_plan  # noqa: E402
from tflm_zephyr.memory_planner.csv_files import load_problem  # noqa: E402
from tflm_zephyr.memory_planner.greedy_planner import greedy  # noqa: E402
from tflm_zephyr.memory_planner.packing import pack  # noqa: E402
from tflm_zephyr.memory_planner.problem import Buffer, Problem  # noqa: E402

CAPACITY = 1_048_576
UNITS = 1024
PROBLEM_GOAL_S = 60.0
MODEL_GOAL_S = 5.0
OPERATORS = (100, 1_000, 10_000)


@dataclass(frozen=True)
class Kind:
    """How a rectangle of UNITS x UNITS is cut.

    `pieces`: how many. `length`: above 1 for pieces that are long in time and low. `least_size`, `least_life`: of a
    piece. `even`: from 0 (any piece may be cut next) to 1 (the largest one). `trimmed` and `dropped`: the share of
    pieces that lose up to a third of their size or life, and of those left out.
    """

    name: str
    pieces: int
    length: float
    least_size: int
    least_life: int
    even: float
    trimmed: float
    dropped: float


KINDS = (
    Kind("long, full", 154, 3.0, 1, 4, 0.5, 0.0, 0.0),
    Kind("long, trimmed", 203, 4.0, 1, 4, 0.3, 0.1, 0.0),
    Kind("very long, loose", 213, 8.0, 1, 4, 0.4, 0.5, 0.05),
    Kind("square, trimmed", 215, 1.2, 2, 4, 0.5, 0.2, 0.05),
    Kind("equal, full", 296, 0.6, 32, 8, 0.85, 0.0, 0.0),
    Kind("equal, trimmed", 350, 0.7, 32, 8, 0.85, 0.2, 0.15),
    Kind("equal, loose", 420, 0.6, 24, 6, 0.85, 0.3, 0.3),
)


def cut(kind: Kind, seed: int) -> Problem:
    """A problem that can be packed within CAPACITY, given by its pieces alone."""
    rng = random.Random(f"{kind.name} {seed}")
    pieces, vain = [(0, UNITS, UNITS)], 0
    whole = [(0, 0, UNITS, UNITS)]
    while len(whole) < kind.pieces and vain < 20_000:
        largest = sorted(range(len(whole)), key=lambda i: -whole[i][2] * whole[i][3])
        at = rng.choice(largest[: max(1, int(len(whole) * (1 - kind.even)))])
        parts = _divided(kind, rng, whole[at], kind.pieces - len(whole))
        vain += not parts
        if parts:
            whole[at : at + 1] = parts
    pieces = []
    for start, _, life, size in whole:
        if rng.random() < kind.dropped:
            continue
        if rng.random() < kind.trimmed:
            if rng.random() < 0.5:
                less = rng.randrange(max(1, life // 3))
                start, life = start + rng.choice((0, less)), life - less
            else:
                size -= rng.randrange(max(1, size // 3))
        pieces.append((start, start + life, size))
    rng.shuffle(pieces)
    buffers = (Buffer(str(i), low, high, size * UNITS) for i, (low, high, size) in enumerate(pieces))
    return Problem(tuple(buffers), alignment=1, name=f"{kind.name} {seed}")


_Rectangle = tuple[int, int, int, int]
"""Start, offset, life and size."""


def _divided(kind: Kind, rng: random.Random, piece: _Rectangle, more: int) -> list[_Rectangle]:
    """In two, or like a windmill in five, which no straight cut through all of it can make; [] if too small."""
    start, offset, life, size = piece
    if more >= 4 and life >= 4 * kind.least_life and size >= 4 * kind.least_size and rng.random() < 0.15:
        a = rng.randrange(kind.least_life, life - 2 * kind.least_life + 1)
        b = rng.randrange(a + kind.least_life, life - kind.least_life + 1)
        c = rng.randrange(kind.least_size, size - 2 * kind.least_size + 1)
        d = rng.randrange(c + kind.least_size, size - kind.least_size + 1)
        sails = [
            (0, 0, b, c),
            (b, 0, life - b, d),
            (a, d, life - a, size - d),
            (0, c, a, size - c),
            (a, c, b - a, d - c),
        ]
        return [(start + low, offset + at, steps, units) for low, at, steps, units in sails]
    if rng.random() * (size * kind.length + life) < size * kind.length:
        if size < 2 * kind.least_size:
            return []
        at = rng.randrange(kind.least_size, size - kind.least_size + 1)
        return [(start, offset, life, at), (start, offset + at, life, size - at)]
    if life < 2 * kind.least_life:
        return []
    at = rng.randrange(kind.least_life, life - kind.least_life + 1)
    return [(start, offset, at, size), (start + at, offset, life - at, size)]


def problems_table() -> bool:
    """minimalloc's own problems; whether all fit in time."""
    met = True
    files = sorted((ROOT.parent / "shared" / "allocation-problems").glob("[A-Z].*.csv"))
    print(
        f"{'problem':<8} {'buffers':>7} {'capacity':>9} {'TFLM greedy':>12} {'packed':>9} {'bound':>9} {'s':>6}  fits"
    )
    for file in files:
        capacity = int(file.suffixes[0][1:])
        problem = load_problem(file)
        start = time.process_time()
        plan = pack(problem, capacity=capacity)
        seconds = time.process_time() - start
        check_plan(plan)
        good = plan.size_bytes <= capacity and seconds <= PROBLEM_GOAL_S
        met, fits = met and good, "yes" if good else "NO"
        sizes = (
            f"{capacity:>9} {greedy(problem).size_bytes / capacity:>11.3f}x {plan.size_bytes:>9} {plan.proven_bytes:>9}"
        )
        print(f"{file.name[:1]:<8} {len(problem.buffers):>7} {sizes} {seconds:>6.2f}  {fits}")
    return met


def hard_table(count: int) -> None:
    """Problems made by cutting."""
    print(f"{'kind':<18} {'found':>7} {'median s':>9} {'worst s':>8} {'greedy':>7} {'packed':>7}  (means, x capacity)")
    for kind in KINDS:
        seconds, sizes, found = [], [], 0
        for seed in range(count):
            problem = cut(kind, seed)
            start = time.process_time()
            plan = pack(problem, capacity=CAPACITY)
            seconds.append(time.process_time() - start)
            check_plan(plan)
            found += plan.size_bytes <= CAPACITY
            sizes.append((greedy(problem).size_bytes, plan.size_bytes))
        seconds.sort()
        means = [sum(column) / count / CAPACITY for column in zip(*sizes, strict=True)]
        row = f"{seconds[count // 2]:>9.2f} {seconds[-1]:>8.2f} {means[0]:>7.3f} {means[1]:>7.3f}"
        print(f"{kind.name:<18} {found:>3}/{count:<3} {row}", flush=True)


def scale_table() -> bool:
    """Large models through the `plan` command, from the file to what is printed; whether the goal is met."""
    print(
        f"{'model':<10} {'operators':>9} {'plan s':>7} {'ratio':>6} {'n log n':>8} {'in-place':>9}  order  gap in bytes"
    )
    met = True
    for shape in (chain, branches):
        before = 0.0
        for operators in OPERATORS:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model.tflite"
                path.write_bytes(model_of(shape, operators))
                seconds, found = planned(path)
            ratio = f"{seconds / before:6.1f}" if before else " " * 6
            growth = 10 * math.log(operators) / math.log(operators / 10)
            order = "model" if found["order"] is None else "other"
            gap, in_place = found["head_bytes"] - found["lower_bound_bytes"], found["in_place_count"]
            print(
                f"{shape.__name__:<10} {operators:>9} {seconds:>7.2f} {ratio} {growth:>8.1f} {in_place:>9}"
                f"  {order}  {gap}",
                flush=True,
            )
            before = seconds
        met = met and before <= MODEL_GOAL_S
        print(f"{'':<10} {'goal':>9} {MODEL_GOAL_S:>7.2f}   {'met' if before <= MODEL_GOAL_S else 'NOT MET'}")
    return met


def planned(path: Path) -> tuple[float, dict[str, Any]]:
    """CPU seconds of `tflm-zephyr plan` for a model in this process, and what --json prints."""
    args = build_parser("plan").parse_args(["plan", str(path), "--kernels", "reference", "--json"])
    start = time.process_time()
    done = do_plan(args, lambda line: None)
    seconds = time.process_time() - start
    return seconds, cast("dict[str, Any]", done.json)


def main() -> int:
    """Print the tables asked for, or all; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--problems", action="store_true")
    parser.add_argument("--hard", type=int, metavar="N")
    parser.add_argument("--scale", action="store_true")
    args = parser.parse_args()
    everything = not (args.problems or args.hard or args.scale)
    met = True
    if args.problems or everything:
        met = problems_table() and met
    if args.scale or everything:
        met = scale_table() and met
    if args.hard or everything:
        hard_table(args.hard or 10)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())

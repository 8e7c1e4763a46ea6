# SPDX-License-Identifier: Apache-2.0
"""What several emulators at once gain: python benchmarks/evaluate.py APP [--jobs 1,2] [--data FILE] [--rounds N]

APP is a generated app with a host link, built for a board that QEMU emulates. Its data set goes through one emulator
and through several, rounds in turn; the emulators' start counts, as it does for `tflm-zephyr evaluate`. A line for each
number of jobs: seconds (the fastest round's), samples a second, and the gain beside one job. Results must be equal.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tflm_zephyr.dataset import load_dataset, quantise  # noqa: E402
from tflm_zephyr.errors import ToolError  # noqa: E402
from tflm_zephyr.evaluation.pool import Pool  # noqa: E402
from tflm_zephyr.evaluation.run import run_all  # noqa: E402
from tflm_zephyr.evaluation.state import Result  # noqa: E402
from tflm_zephyr.session.opening import open_session  # noqa: E402
from tflm_zephyr.session.target import Target  # noqa: E402

DATA = ROOT / "samples" / "digits" / "test.npz"


def measure(target: Target, data: Path, jobs: int) -> tuple[float, tuple[Result, ...]]:
    """Seconds of one evaluation with so many emulators, and its results."""
    began = time.perf_counter()
    with Pool([partial(open_session, target)] * jobs) as pool:
        hello = pool.hello()
        results = run_all(pool, hello, quantise(hello.inputs, load_dataset(data)), None)
    return time.perf_counter() - began, results


def table(seconds: dict[int, float], count: int) -> list[str]:
    """A line for each number of jobs, beside the smallest."""
    base = seconds[min(seconds)]
    lines = [f"{'jobs':>4}  {'s':>7}  {'samples/s':>9}  {'gain':>5}"]
    for jobs, took in sorted(seconds.items()):
        lines.append(f"{jobs:>4}  {took:>7.2f}  {count / took:>9.1f}  {base / took:>5.2f}")
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("app", type=Path)
    parser.add_argument("--board", default="")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--jobs", default="1,2", help="default: 1,2")
    parser.add_argument("--rounds", type=int, default=3, help="default: 3")
    args = parser.parse_args(argv)
    wanted = sorted({int(part) for part in args.jobs.split(",")})
    fastest: dict[int, float] = {}
    seen: set[tuple[bytes, ...]] = set()
    count = 0
    try:
        for _ in range(args.rounds):
            for jobs in wanted:
                took, results = measure(Target(app=args.app, board=args.board), args.data, jobs)
                fastest[jobs] = min(took, fastest.get(jobs, took))
                seen.add(tuple(result.output for result in results))
                count = len(results)
    except ToolError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{count} samples of {args.data.name}, the fastest of {args.rounds} rounds, {os.cpu_count()} cores, "
          f"load {os.getloadavg()[0]:.1f}")  # fmt: skip
    print("\n".join(table(fastest, count)))
    print("results equal" if len(seen) == 1 else "RESULTS DIFFER")
    return 0 if len(seen) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Speed-up by several emulators at once: python benchmarks/evaluate.py APP [--jobs 1,2] [--data FILE] [--rounds N]

APP is a generated app with a host link, built for a board that QEMU emulates. Its data set goes through one emulator
and through several, by turns, every other round in the opposite order; the emulators' start counts, as it does for
`tflm-zephyr evaluate`. A line for each number of jobs: seconds (the median of all rounds, least and most), samples a
second, and the gain beside the fewest jobs: the median of each round's. Outputs must be equal: the exit code is 1 where
they differ.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.common import positive, say_load  # noqa: E402
from tflm_zephyr.device.session.opening import open_session  # noqa: E402
from tflm_zephyr.device.transport.target import DeviceTarget  # noqa: E402
from tflm_zephyr.errors import ToolError  # noqa: E402
from tflm_zephyr.tensors.dataset import load_dataset, quantise  # noqa: E402
from tflm_zephyr.validation.evaluation.pool import Pool  # noqa: E402
from tflm_zephyr.validation.evaluation.running import run_all  # noqa: E402
from tflm_zephyr.validation.evaluation.state import SampleResult  # noqa: E402

DATA = ROOT / "samples" / "digits" / "test.npz"


def measure(target: DeviceTarget, data: Path, jobs: int) -> tuple[float, tuple[SampleResult, ...]]:
    """Seconds of one evaluation with so many emulators, and its results."""
    began = time.perf_counter()
    with Pool([partial(open_session, target)] * jobs) as pool:
        hello = pool.hello()
        results = run_all(pool, hello, quantise(hello.inputs, load_dataset(data)), None)
    return time.perf_counter() - began, results


def table(seconds: Mapping[int, Sequence[float]], count: int) -> list[str]:
    """A line for each number of jobs, beside the smallest; `seconds` are each one's, round by round."""
    base = seconds[min(seconds)]
    lines = [f"{'jobs':>4}  {'s':>7}  {'least-most':>15}  {'samples/s':>9}  {'gain':>5}"]
    for jobs, took in sorted(seconds.items()):
        middle, spread = statistics.median(took), f"{min(took):.2f}-{max(took):.2f}"
        gain = statistics.median(one / this for one, this in zip(base, took, strict=True))
        lines.append(f"{jobs:>4}  {middle:>7.2f}  {spread:>15}  {count / middle:>9.1f}  {gain:>5.2f}")
    return lines


def several(text: str) -> tuple[int, ...]:
    """Whole numbers above 0, each once and in order."""
    return tuple(sorted({positive(part) for part in text.split(",")}))


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("app", type=Path)
    parser.add_argument("--board", default="")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--jobs", type=several, default=(1, 2), help="default: 1,2")
    parser.add_argument("--rounds", type=positive, default=5, help="default: 5")
    args = parser.parse_args(argv)
    say_load()
    seconds: dict[int, list[float]] = {jobs: [] for jobs in args.jobs}
    seen: set[tuple[bytes, ...]] = set()
    count = 0
    try:
        for number in range(args.rounds):
            for jobs in args.jobs[:: -1 if number % 2 else 1]:
                took, results = measure(DeviceTarget(app=args.app, board=args.board), args.data, jobs)
                seconds[jobs].append(took)
                seen.add(tuple(result.output for result in results))  # ticks may be one more or less
                count = len(results)
    except ToolError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{count} samples of {args.data.name}, {args.rounds} rounds")
    print("\n".join(table(seconds, count)))
    print("results equal" if len(seen) == 1 else "RESULTS DIFFER")
    return 0 if len(seen) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())

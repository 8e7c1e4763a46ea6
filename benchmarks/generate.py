# SPDX-License-Identifier: Apache-2.0
"""How long generating an app takes beside its goals: python benchmarks/generate.py [--runs N] [--case WORD ...]

Each run is a whole process, from start to exit, on a folder without an app, so that golden runs are made. Seconds are
CPU time, user and system, of the process and of the engines that it starts: other programs on the machine count little.
A run before the others leaves Python's compiled modules for them, as an installation does. The exit code is 1 where the
median of a case misses its goal.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.plan_models import chain, model_of  # noqa: E402

MODELS = ROOT.parent / "shared" / "models"
PERSON, KWS = MODELS / "person_detect.tflite", MODELS / "kws_ref_model.tflite"
BOARD = "mps2/an386"
LAYERS = 1_000


@dataclass(frozen=True)
class Case:
    """A command line, and its goal in CPU seconds. `model` None: a chain of LAYERS layers, made for it."""

    name: str
    goal_s: float
    model: Path | None
    flags: tuple[str, ...] = ()
    refused: bool = False


CASES = (
    Case("person_detect", 0.6, PERSON),
    Case("person_detect, fast kernels in budgets", 3.0, PERSON, ("--fast-kernels", "--ram", "20K", "--flash", "290K")),
    Case("person_detect, a budget that nothing meets", 3.0, PERSON, ("--ram", "5K", "--flash", "100K"), refused=True),
    Case("person_detect, optimize ram", 5.0, PERSON, ("--optimize", "ram")),
    Case("kws, fast kernels", 2.0, KWS, ("--fast-kernels",)),
    Case("1,000 layers by rows", 5.0, None, ("--rows",)),
    Case("1,000 layers by rows, fast kernels", 5.0, None, ("--rows", "--fast-kernels")),
)


def seconds(case: Case, folder: Path, runs: int) -> list[float]:
    """CPU seconds of each run, the one before them left out. Raises RuntimeError for an unexpected exit code."""
    model = case.model
    if model is None:
        model = folder / "chain.tflite"
        model.write_bytes(model_of(chain, LAYERS))
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "modules"), "PYTHONDONTWRITEBYTECODE": ""}
    found = []
    for number in range(runs + 1):
        with tempfile.TemporaryDirectory(dir=folder) as app:
            argv = [sys.executable, "-m", "tflm_zephyr", "generate", str(model), "-b", BOARD, "-o", f"{app}/app"]
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run([*argv, *case.flags], cwd=ROOT, capture_output=True, text=True, env=env)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode != case.refused:
            raise RuntimeError(f"{case.name}: {done.stderr.strip()}")
        if number:
            found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return found


def main() -> int:
    """Print a row for each case; 1 where one misses its goal."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="runs of each case (default: 5)")
    parser.add_argument("--case", nargs="*", default=[], metavar="WORD", help="just cases whose name has all of these")
    args = parser.parse_args()
    missed = False
    print(f"{'case':<44} {'min':>6} {'median':>7} {'max':>6}  {'goal':>5}  median / goal")
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            if not all(word in case.name for word in args.case):
                continue
            if case.model is not None and not case.model.is_file():
                print(f"{case.name:<44} left out, as there is no ../shared/models/{case.model.name}")
                continue
            found = seconds(case, Path(folder), args.runs)
            ratio = statistics.median(found) / case.goal_s
            missed |= ratio > 1
            row = f"{min(found):6.2f} {statistics.median(found):7.2f} {max(found):6.2f}"
            print(f"{case.name:<44} {row}  {case.goal_s:5.1f}  {ratio:.2f}", flush=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())

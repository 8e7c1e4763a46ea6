# SPDX-License-Identifier: Apache-2.0
"""How long generating an app takes, from process start to exit: python benchmarks/generate.py [MODEL ...]

Whole processes, several runs each after a warm-up, which leaves Python's compiled modules for the others as an
installation does; the goal is 1 s for person_detect on two cores.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GOAL_S = 1.0
RUNS = 7


def measure(model: Path) -> list[float]:
    """Seconds of each run."""
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "PYTHONPYCACHEPREFIX": f"{folder}/modules", "PYTHONDONTWRITEBYTECODE": ""}
        for number in range(RUNS + 1):
            argv = [sys.executable, "-m", "tflm_zephyr", "generate", str(model), "-o", f"{folder}/app{number}"]
            start = time.perf_counter()
            subprocess.run(argv, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, env=env)
            seconds.append(time.perf_counter() - start)
    return seconds[1:]


def main() -> None:
    """Print a row for each model."""
    named = [Path(name).resolve() for name in sys.argv[1:]]
    stock = ROOT.parent / "shared" / "models" / "person_detect.tflite"
    models = named or [*([stock] if stock.is_file() else []), ROOT / "samples" / "digits" / "digits.tflite"]
    print(f"{'model':<24} {'min':>6} {'median':>7} {'max':>6}  median / {GOAL_S:g} s")
    for model in models:
        runs = measure(model)
        middle = statistics.median(runs)
        print(f"{model.stem:<24} {min(runs):6.2f} {middle:7.2f} {max(runs):6.2f}  {middle / GOAL_S:.2f}")


if __name__ == "__main__":
    main()

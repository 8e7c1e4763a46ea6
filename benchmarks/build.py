# SPDX-License-Identifier: Apache-2.0
"""How long builds take beside those of Zephyr's own module: python benchmarks/build.py

Cold builds without ccache, in empty folders, with one job for each core on either side:
  hello_world    the generated app with the reference kernels; Zephyr's sample, which compiles the whole module
  person_detect  the generated app with CMSIS-NN's kernels; the same app generated with `--tflm module`, that is, with
                 Zephyr's CONFIG_TENSORFLOW_LITE_MICRO_CMSIS_NN_KERNELS
Ours first, so what Zephyr finds out about a compiler only once counts against us.

Then what comes after: `generate` and `build` for new weights in the same model, as whole commands and without ccache,
beside a plain `west build` of the same folder after its model file has changed, which is what Zephyr alone takes; and
a second app with ccache, from a cache that holds just a first one's objects.

Wall time is what a user waits, CPU seconds (user and system, of all processes) hardly depend on what else runs.
Needs a west workspace (ZEPHYR_BASE) with the tflite-micro and cmsis-nn modules and a compiler.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.bare_app import run  # noqa: E402
from benchmarks.common import (  # noqa: E402
    DIGITS,
    HELLO_WORLD,
    NO_PERSON_DETECT,
    PERSON_DETECT,
    TOOL,
    Bench,
    against,
    cores,
    environment,
    main_of,
    say,
    say_load,
)
from tflm_zephyr.errors import BuildError, ModelError  # noqa: E402
from tflm_zephyr.model.reader import parse_model  # noqa: E402

BOARD = "mps2/an385"
PARTS = ("hello_world", "person_detect", "rebuild", "ccache")
COLD_GOALS = {"hello_world": 0.25, "person_detect": 0.35}
REBUILD_GOAL_S = 3.0
REBUILDS = 5
HITS = ("direct_cache_hit", "preprocessed_cache_hit")
MISSES = ("cache_miss",)


@dataclass(frozen=True)
class Cost:
    """Seconds on the clock, and seconds of CPU time of all child processes."""

    wall_s: float
    cpu_s: float


def cost_of(work: Callable[[], object]) -> Cost:
    """Wall time of `work`, and the CPU time of its child processes."""
    start, before = time.perf_counter(), _children_s()
    work()
    return Cost(time.perf_counter() - start, _children_s() - before)


def median(costs: Sequence[Cost]) -> Cost:
    """The median of either."""
    return Cost(statistics.median(c.wall_s for c in costs), statistics.median(c.cpu_s for c in costs))


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cold(bench: Bench, name: str, board: str, repeat: int) -> None:
    """Print what a build from nothing takes, and what that of the module does."""
    if name == "hello_world":
        ours, theirs = bench.app(name, HELLO_WORLD, board, "--kernels", "reference"), bench.sample
        titles = ("this app, reference kernels", "Zephyr's sample")
    elif PERSON_DETECT.is_file():
        flags = ("--kernels", "cmsis_nn")
        ours = bench.app(name, PERSON_DETECT, board, *flags)
        theirs = bench.app(f"{name}_module", PERSON_DETECT, board, "--tflm", "module", *flags)
        titles = ("this app, CMSIS-NN's kernels", "with Zephyr's module, CMSIS-NN's kernels")
    else:
        say(f"\n{NO_PERSON_DETECT}")
        return
    say(f"\n{name} on {board}, cold, no ccache, {cores()} jobs{f', medians of {repeat}' if repeat > 1 else ''}")
    costs: tuple[list[Cost], list[Cost]] = ([], [])
    with environment(CCACHE_DISABLE="1"):
        for _ in range(repeat):
            for app, label, taken in zip((ours, theirs), ("cold", "cold_module"), costs, strict=True):
                taken.append(_cold_build(bench, app, board, f"{name}_{label}"))
    mine, module = map(median, costs)
    for title, cost in zip(titles, (mine, module), strict=True):
        say(f"  {title:42} {cost.wall_s:7.1f} s wall {cost.cpu_s:7.1f} s CPU")
    wall, cpu = mine.wall_s / module.wall_s, mine.cpu_s / module.cpu_s
    say(f"  {'ratio':42} {against(wall, COLD_GOALS[name])}, of CPU seconds {against(cpu, COLD_GOALS[name])}")


def _cold_build(bench: Bench, app: Path, board: str, name: str) -> Cost:
    shutil.rmtree(bench.build_dir(app, board, name), ignore_errors=True)
    return cost_of(lambda: bench.build(app, board, name))


def with_new_weights(data: bytes, step: int) -> bytes:
    """The model with the elements of its largest constant tensor turned round by `step`: other weights, same graph.

    Raises ModelError for a model without a constant of different elements.
    """
    model = parse_model(data)
    constants = [tensor for _, tensor in model.tensors() if tensor.data is not None]
    largest = max(constants, key=lambda tensor: len(tensor.data or b""), default=None)
    if largest is None or largest.data is None or len(set(largest.data)) < 2:
        raise ModelError("no constant tensor to change")
    size = largest.type.size_bytes
    cut = step % (len(largest.data) // size) * size
    turned = largest.data[cut:] + largest.data[:cut]
    start = data.index(largest.data)
    return data[:start] + turned + data[start + len(turned) :]


def rebuild(bench: Bench, name: str, source: Path, board: str, count: int) -> None:
    """Print what new weights in a model take, from the .tflite file to the ELF."""
    data, model = source.read_bytes(), bench.folder / "rebuild" / source.name
    model.parent.mkdir(exist_ok=True)
    model.write_bytes(data)
    app = bench.app(f"rebuild_{name}", model, board)
    folder = bench.build_dir(app, board)
    generating = [*TOOL, "generate", str(model), "-o", str(app)]
    building = [*TOOL, "build", str(app), "-b", board, "-d", str(folder)]
    run(building, ROOT)
    plain = [sys.executable, "-m", "west", "build", "-d", str(folder)]
    inside = app / "tflm" / "src" / "models" / model.name
    steps: tuple[list[Cost], list[Cost], list[Cost]] = ([], [], [])
    with environment(CCACHE_DISABLE="1"):
        for step in range(1, count + 1):
            old = inside.read_bytes()
            model.write_bytes(with_new_weights(data, step))
            for argv, taken in zip((generating, building), steps, strict=False):
                taken.append(cost_of(partial(run, argv, ROOT)))
            new, linked = inside.read_bytes(), (folder / "zephyr" / "zephyr.elf").read_bytes()
            if new == old or new not in linked:
                raise BuildError("the new weights are not in the firmware", where=str(folder))
            inside.write_bytes(old)
            steps[2].append(cost_of(partial(run, plain, bench.workspace.topdir)))
            inside.write_bytes(new)
    sums = [Cost(a.wall_s + b.wall_s, a.cpu_s + b.cpu_s) for a, b in zip(*steps[:2], strict=True)]
    both = median(sums)
    rows = zip(("generate", "build", "west build alone"), map(median, steps), strict=True)
    for title, cost in (*rows, ("generate and build", both)):
        say(f"  {name + ', ' + title:42} {cost.wall_s:7.2f} s wall {cost.cpu_s:7.2f} s CPU")
    goal = f"goal {REBUILD_GOAL_S:g} s: {'ok' if both.wall_s <= REBUILD_GOAL_S else 'missed'}"
    say(f"  {name + ', of west build alone':42} {both.wall_s / median(steps[2]).wall_s:7.2f} ({goal})")


def second_app(bench: Bench, board: str) -> None:
    """Print what later apps take where ccache has the objects of the first."""
    ccache = shutil.which("ccache")
    say(f"\nanother app on {board}, ccache with the objects of the first app alone, {cores()} jobs")
    if ccache is None:
        say("  left out, as there is no ccache")
        return
    cases = (
        ("first app: hello_world", "ccache_first", HELLO_WORLD),
        ("second app: hello_world again", "ccache_second", HELLO_WORLD),
        ("third app: digits, with kernels of its own", "ccache_third", DIGITS),
    )
    shutil.rmtree(bench.folder / "ccache", ignore_errors=True)
    with environment(CCACHE_DIR=str(bench.folder / "ccache"), CCACHE_DISABLE=None):
        for title, name, model in cases:
            app = bench.app(name, model, board)
            run([ccache, "--zero-stats"], ROOT)
            cost = _cold_build(bench, app, board, name)
            stats = run([ccache, "--print-stats"], ROOT)
            hits, misses = counted(stats, HITS), counted(stats, MISSES)
            share = 100 * hits / max(1, hits + misses)
            say(
                f"  {title:42} {cost.wall_s:7.1f} s wall {cost.cpu_s:7.1f} s CPU"
                f"  {hits} of {hits + misses} objects from ccache ({share:.0f} %)"
            )


def counted(stats: str, names: Sequence[str]) -> int:
    """The sum of some of ccache's counters, from what `ccache --print-stats` prints."""
    rows = dict(line.split("\t", 1) for line in stats.splitlines() if "\t" in line)
    return sum(int(rows.get(name, "0")) for name in names)


def main() -> int:
    """Measure what is asked for, or everything."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-b", "--board", default=BOARD, help=f"default: {BOARD}")
    parser.add_argument("--only", action="append", choices=PARTS, help="just this part; may be repeated")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="cold builds of either side (default: 1)")

    def measure(args: argparse.Namespace, bench: Bench) -> None:
        say_load()
        wanted = args.only or PARTS
        bench.workspace.require(args.board, "cmsis_nn")
        with environment(CMAKE_BUILD_PARALLEL_LEVEL=str(cores())):
            for name in COLD_GOALS:
                if name in wanted:
                    cold(bench, name, args.board, max(1, args.repeat))
            if "rebuild" in wanted:
                say(f"\nnew weights on {args.board}, no ccache, medians of {REBUILDS}")
                rebuild(bench, "hello_world", HELLO_WORLD, args.board, REBUILDS)
                if PERSON_DETECT.is_file():
                    rebuild(bench, "person_detect", PERSON_DETECT, args.board, REBUILDS)
                else:
                    say(f"  {NO_PERSON_DETECT}")
            if "ccache" in wanted:
                second_app(bench, args.board)
        say(f"\nload average at the end: {os.getloadavg()[0]:.1f}")

    return main_of(parser, measure)


if __name__ == "__main__":
    sys.exit(main())

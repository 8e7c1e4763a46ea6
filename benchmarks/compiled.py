# SPDX-License-Identifier: Apache-2.0
"""The MicroInterpreter beside compiled code: python benchmarks/compiled.py [--models NAME ...] [-b BOARD ...]

Each model becomes an app with CMSIS-NN's kernels by either backend, which is built and run in QEMU. A line for each
way: bytes of the model's RAM (arena), flash and RAM of the whole app by the linker's table, instructions of an
inference, seconds of CPU time of the cold build without ccache, and whether the self-test found every output equal to
its reference. Below are compiled code's shares of what the interpreter takes, with their goals. Stock is the smallest
arena of TFLM's own interpreter and planner on a Cortex-M3, as benchmarks/arena.py measures it (docs/arena.md).

Cold builds are of the boards with --cold. On the others, all apps of a backend are built in one folder, one after the
other, so that Zephyr is compiled once. A board that QEMU does not emulate has no instructions and no outputs.

`--fast-kernels` has compiled code with the kernels that it picks, and prints below the goals of these kernels against
CMSIS-NN's, as benchmarks/fast_goals.py does: instructions, ESTIMATED cycles, RAM and flash, on whole tensors and in the
RAM of a goal.

`--rows FILE` keeps each measured line in a JSON file, and takes those that are there: a run that was stopped goes on.

Models are those of ../shared/models, the samples', and a MobileNet v1 of 96 x 96 x 3 made for this.
Needs a west workspace (ZEPHYR_BASE) with the tflite-micro and cmsis-nn modules, a compiler and QEMU.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.bare_app import run  # noqa: E402
from benchmarks.build import cost_of  # noqa: E402
from benchmarks.common import (  # noqa: E402
    TOOL,
    Bench,
    add_models,
    chosen,
    clock_hz,
    emulated,
    environment,
    equals_reference,
    main_of,
    say,
    say_load,
    used_bytes,
)
from benchmarks.footprint import instructions  # noqa: E402
from tests.helpers.architectures import mobilenet  # noqa: E402
from tflm_zephyr.boards.board import load_board  # noqa: E402
from tflm_zephyr.build.west import Build  # noqa: E402
from tflm_zephyr.device.console.result import RunResult  # noqa: E402
from tflm_zephyr.errors import ToolError  # noqa: E402
from tflm_zephyr.files import write_atomically  # noqa: E402
from tflm_zephyr.options import COMPILED, INTERPRETER  # noqa: E402
from tflm_zephyr.plain_values import load_json, read_values  # noqa: E402

COLD = "mps2/an385"
SECURE_PARTITIONS = "nrf9160dk/nrf9160/ns"
BOARDS = (COLD, "mps2/an386", "mps2/an521/cpu0", SECURE_PARTITIONS)
SHARED = ROOT.parent / "shared" / "models"
MOBILENET = "mobilenet"
STOCK_BYTES: Mapping[str, int] = {
    "ad01_int8": 3_024,
    "kws_ref_model": 22_832,
    "micro_speech_quantized": 6_848,
    "mobilenet": 100_816,
    "person_detect": 82_320,
    "pretrainedResnet_quant": 54_992,
}
"""The stock arena on a Cortex-M3 with CMSIS-NN's kernels: docs/arena.md, measured by benchmarks/arena.py."""


@dataclass(frozen=True)
class Goals:
    """The most that compiled may take: of the stock arena, and of the interpreter app's instructions, flash and RAM.

    `boards` are those that the goals for flash and RAM are of, all where it is empty.
    """

    stock: float | None = None
    instructions: float | None = None
    flash: float | None = None
    ram: float | None = None
    boards: tuple[str, ...] = ()


GOALS: Mapping[str, Goals] = {
    "ad01_int8": Goals(stock=0.40),
    "hello_world": Goals(flash=0.65, ram=0.72, boards=(COLD, SECURE_PARTITIONS)),
    "kws_ref_model": Goals(stock=0.45, instructions=1.05),
    "micro_speech_quantized": Goals(stock=0.65),
    "mobilenet": Goals(stock=0.50),
    "person_detect": Goals(stock=0.46, instructions=1.01, flash=0.80),
    "pretrainedResnet_quant": Goals(stock=0.70),
}


@dataclass(frozen=True)
class Way:
    """One model by one backend, in bytes, instructions and seconds. `equal`: outputs are the reference's.

    `instructions` and `equal` are None where nothing ran, `build_s` where the build was not cold.
    """

    arena: int
    flash: int
    ram: int
    instructions: int | None
    build_s: float | None
    equal: bool | None


@dataclass
class Rows:
    """The measured ways by board, model and backend. `path`: where they are kept, None for nowhere."""

    path: Path | None
    sources: str
    ways: dict[str, Way] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path | None, sources: str) -> Rows:
        """The rows in the file, none where there is no file yet. ToolError where they are of other `sources`."""
        if path is None or not path.exists():
            return cls(path, sources)
        try:
            raw = load_json(path)
            ways = {key: read_values(Way, row, name=key) for key, row in raw["rows"].items()}
        except (ValueError, KeyError, TypeError) as error:
            raise ToolError(f"no rows of this benchmark: {error}", where=str(path)) from None
        if raw.get("sources") != sources:
            raise ToolError(f"its rows are of {raw.get('sources')}", where=str(path), hint="Name another file")
        return cls(path, sources, ways)

    def add(self, key: str, way: Way) -> None:
        """Keep a row."""
        self.ways[key] = way
        if self.path is not None:
            rows = {one: asdict(row) for one, row in self.ways.items()}
            text = json.dumps({"sources": self.sources, "rows": rows}, indent=1)
            write_atomically(self.path, f"{text}\n".encode())


@dataclass
class Verdict:
    """Counts goals that are met, and names those that are not."""

    met: int = 0
    missed: list[str] = field(default_factory=list)

    def of(self, name: str, what: str, ratio: float, goal: float | None) -> str:
        """The ratio beside its goal: "flash 0.723 (goal 0.8: met)"."""
        if goal is None:
            return f"{what} {ratio:.3f}"
        if ratio <= goal:
            self.met += 1
            return f"{what} {ratio:.3f} (goal {goal:g}: met)"
        self.missed.append(f"{name}: {what} {ratio:.4f}, goal {goal:g}")
        return f"{what} {ratio:.3f} (goal {goal:g}: missed)"

    def show(self) -> None:
        """Print how many goals are met, and those that are not."""
        say(f"\n{self.met} of {self.met + len(self.missed)} goals are met")
        for missed in self.missed:
            say(f"missed: {missed}")


def kernels_named(fast: bool) -> str:
    """The kernels of compiled code, in the head of a table."""
    return "our own kernels where they are faster, else CMSIS-NN's" if fast else "CMSIS-NN's kernels"


def models(folder: Path) -> dict[str, Path]:
    """Every model by name; the MobileNet is written to `folder`."""
    made = folder / f"{MOBILENET}.tflite"
    made.write_bytes(mobilenet(96))
    paths = [*sorted(SHARED.glob("*.tflite")), *sorted((ROOT / "samples").glob("*/*.tflite")), made]
    return {path.stem: path for path in paths}


def models_with_goals(folder: Path, goals: Set[str], wanted: Collection[str]) -> dict[str, Path]:
    """The models that are wanted, or else those of `goals` that are there. Raises ToolError for other names."""
    found = models(folder)
    return chosen(found, wanted or goals & found.keys())


def measured(
    bench: Bench, model: Path, board: str, backend: str, *, cold: bool, flags: Sequence[str] = (), warm_up: int = 0
) -> Way:
    """Generate, build and, where QEMU emulates the board, run one app. Raises ToolError.

    Instructions are the mean of the self-test's runs behind the first `warm_up` ones.
    """
    app = bench.folder / f"{backend}_app"
    shutil.rmtree(app, ignore_errors=True)
    flags = ("--kernels", "cmsis_nn", "--backend", backend, "--json", *flags)
    said = json.loads(run([*TOOL, "generate", model, "-o", app, "-b", board, *flags], ROOT))
    built: list[Build] = []
    if cold:
        shutil.rmtree(bench.build_dir(app, board), ignore_errors=True)
    with environment(**({"CCACHE_DISABLE": "1"} if cold else {})):
        cost = cost_of(lambda: built.append(bench.build(app, board)))
    result = None if load_board(board).qemu is None else emulated(built[0])
    return Way(
        arena=said["models"][0]["arena"]["bytes"],
        flash=used_bytes(built[0], "FLASH"),
        ram=used_bytes(built[0], "RAM"),
        instructions=None if result is None else _mean(replace(result, runs=result.runs[warm_up:]), board),
        build_s=cost.cpu_s if cold else None,
        equal=None if result is None else equals_reference(result),
    )


def _mean(result: RunResult, board: str) -> int:
    return instructions(result, clock_hz(board)) // len(result.runs)


def lines(name: str, board: str, interpreted: Way, compiled: Way, verdict: Verdict, *, fast: bool = False) -> list[str]:
    """Both ways and their ratios, as the table shows them. `fast`: GOALS, made for CMSIS-NN's kernels, do not hold."""
    goals = Goals() if fast else GOALS.get(name, Goals())
    found = [row(name, INTERPRETER, interpreted), row("", COMPILED, compiled)]
    ratios = [verdict.of(f"{name} on {board}", *one) for one in _ratios(name, board, interpreted, compiled, goals)]
    return [*found, "  " + ", ".join(ratios)]


def _ratios(
    name: str, board: str, interpreted: Way, compiled: Way, goals: Goals
) -> Iterator[tuple[str, float, float | None]]:
    stock = STOCK_BYTES.get(name)
    wanted = not goals.boards or board in goals.boards
    if stock is not None:
        yield f"of stock's {stock:,}", compiled.arena / stock, goals.stock
    yield "arena", compiled.arena / interpreted.arena, 1.0
    yield "flash", compiled.flash / interpreted.flash, goals.flash if wanted else None
    yield "RAM", compiled.ram / interpreted.ram, goals.ram if wanted and goals.ram is not None else 1.0
    if compiled.instructions is not None and interpreted.instructions:
        yield "instructions", compiled.instructions / interpreted.instructions, goals.instructions
    if compiled.build_s is not None and interpreted.build_s is not None:
        yield "cold build", compiled.build_s / interpreted.build_s, 1.0


def row(name: str, backend: str, way: Way) -> str:
    """A way's line in the table."""
    outputs = {None: "not run", True: "equal", False: "OTHER"}[way.equal]
    count = "" if way.instructions is None else f"{way.instructions:,}"
    seconds = "" if way.build_s is None else f"{way.build_s:.1f}"
    return f"{name:24} {backend:12} {way.arena:9,} {way.flash:9,} {way.ram:9,} {count:>13} {seconds:>7} {outputs}"


@dataclass(frozen=True)
class Comparison:
    """Everything that a run has in common."""

    bench: Bench
    rows: Rows
    verdict: Verdict
    cold: Sequence[str]
    fast: bool = False

    def board(self, board: str, wanted: Sequence[str]) -> None:
        """Print the table of one board. A model that a way cannot take has its error in its place."""
        say(f"\n{board}, {kernels_named(self.fast)}")
        titles = f"{'arena':>9} {'flash':>9} {'RAM':>9} {'instructions':>13} {'build s':>7} outputs"
        say(f"{'model':24} {'backend':12} {titles}")
        for name, model in chosen(models(self.bench.folder), wanted).items():
            try:
                interpreted, compiled = (self._way(name, model, board, one) for one in (INTERPRETER, COMPILED))
            except ToolError as error:
                say(f"{name:24} {str(error).splitlines()[0]}")
                continue
            found = lines(name, board, interpreted, compiled, self.verdict, fast=self.fast)
            for line in (*found, *self._goals(name, model, board)):
                say(line)

    def _goals(self, name: str, model: Path, board: str) -> Iterator[str]:
        """The goals of fast kernels, without Zephyr, where the board's core is one of theirs."""
        from benchmarks.fast_goals import goal_lines
        from benchmarks.kernels import CORES, Machine

        key = next((key for key, core in CORES.items() if core.board == board), "")
        if self.fast and key:
            yield from goal_lines(Machine(self.bench, key), name, model, self.verdict)

    def _way(self, name: str, model: Path, board: str, backend: str) -> Way:
        flags = ("--fast-kernels",) if self.fast and backend == COMPILED else ()
        key = " ".join((board, name, backend, *flags))
        if key not in self.rows.ways:
            self.rows.add(key, measured(self.bench, model, board, backend, cold=board in self.cold, flags=flags))
        return self.rows.ways[key]


def main() -> int:
    """Measure every board that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-b", "--board", action="append", help=f"default: {' '.join(BOARDS)}; may be repeated")
    add_models(parser)
    parser.add_argument("--cold", action="append", metavar="BOARD", help=f"cold builds there; default: {COLD}")
    parser.add_argument("--fast-kernels", action="store_true", help="compiled code with its own kernels")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="keep lines in it, and take those that are there")

    def body(args: argparse.Namespace, bench: Bench) -> None:
        say_load()
        workspace = bench.workspace
        sources = f"Zephyr {workspace.zephyr_version}, TFLM {workspace.tflm_revision}, {bench.toolchain.describe}"
        comparison = Comparison(
            bench, Rows.read(args.rows, sources), Verdict(), args.cold or (COLD,), args.fast_kernels
        )
        for board in args.board or BOARDS:
            workspace.require(board, "cmsis_nn")
            comparison.board(board, args.models)
        comparison.verdict.show()

    return main_of(parser, body)


if __name__ == "__main__":
    sys.exit(main())

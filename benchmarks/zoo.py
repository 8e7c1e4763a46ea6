# SPDX-License-Identifier: Apache-2.0
"""Every model of a folder in every way: python benchmarks/zoo.py FOLDER [-b BOARD ...] [--run host|qemu|zephyr]

Each .tflite file becomes an app for each board by each way: RAM of the arena, flash of the whole app and cycles of an
inference are estimates, as `tflm-zephyr generate --optimize` has them, and a model that is refused has the refusal's
line. Ways: the interpreter; compiled code as it is, by rows, with fast kernels, with both; `--optimize` speed, ram and
flash; and apps that answer a host (`--host-link`), which are generated only. Nothing is built without --run:

    host     compiled code on this machine: each layer's whole output, compared with TFLM's, in arenas that held other
             bytes; the interpreter: TFLM on this machine with the app's memory plan and without
    qemu     compiled code in QEMU without an operating system, its outputs compared with TFLM's on this machine
    zephyr   whole apps, built by west, with their self-tests in QEMU

All comparisons are byte by byte; on this machine alone, whose compiler fuses operations, floats may differ by 1e-5.
`--summary` has a line for each model: KiB of RAM / KiB of flash / million cycles by each way. The exit code is 1 where
outputs differ, a bug shows its traceback, a way takes longer than --limit, or a way is better than the one that
`--optimize` took.

`--run` needs a west workspace (ZEPHYR_BASE) with the tflite-micro and cmsis-nn modules, and TFLM on this machine.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.common import Bench, emulated, equals_reference, say  # noqa: E402
from tests.helpers.bare_metal import MACHINES, BareMetal, random_inputs  # noqa: E402
from tests.helpers.compiled_check import check_layers, expected, random_bytes  # noqa: E402
from tests.helpers.compiled_host import Checkouts, build_all  # noqa: E402
from tflm_zephyr.build.toolchain import detect_toolchain  # noqa: E402
from tflm_zephyr.build.workspace import Workspace, find_workspace  # noqa: E402
from tflm_zephyr.cli.commands.app_writing import write_app  # noqa: E402
from tflm_zephyr.codegen import AppRequest, Generated, generate, render  # noqa: E402
from tflm_zephyr.codegen.backends.compiled import runtime_of  # noqa: E402
from tflm_zephyr.errors import ToolError  # noqa: E402
from tflm_zephyr.footprint import all_ways, generate_within, verdict  # noqa: E402
from tflm_zephyr.footprint.ways import ALIKE, optimized  # noqa: E402
from tflm_zephyr.host import run_many  # noqa: E402
from tflm_zephyr.model import without_offline_plan  # noqa: E402
from tflm_zephyr.options import COMPILED, INTERPRETER, AppConfig, ModelConfig  # noqa: E402
from tflm_zephyr.tflm import TflmRevision, tflm_of  # noqa: E402

BOARDS = ("mps2/an385", "mps2/an386")
OPTIMIZED = ("speed", "ram", "flash")
LINKS = {"link-interpreter": INTERPRETER, "link-compiled": COMPILED}
PLAIN: Mapping[str, Callable[[AppConfig], AppConfig]] = {
    "interpreter": lambda app: replace(app, backend=INTERPRETER),
    "compiled": lambda app: replace(app, backend=COMPILED),
    "rows": lambda app: replace(app, backend=COMPILED, rows=True),
    "fast-kernels": lambda app: replace(app, backend=COMPILED, fast_kernels=True),
    "fast-kernels-rows": lambda app: replace(app, backend=COMPILED, fast_kernels=True, rows=True),
}
WAYS = (*PLAIN, *OPTIMIZED, *LINKS)
_NAMES = {
    "interpreter": "interpreter",
    "compiled": "compiled",
    "rows": "compiled by rows",
    "fast-kernels": "fast kernels",
    "fast-kernels-rows": "fast kernels by rows",
}
"""The names of footprint.ways by way, for their cycles."""
RUNS = ("host", "qemu", "zephyr")
EQUAL, GENERATED = "equal", "generated"


class SlowError(Exception):
    """A way took more CPU seconds than --limit."""


@dataclass
class Entry:
    """One model by one way on one board: estimates, CPU seconds of `generate`, and how it ended.

    `result` is EQUAL, GENERATED, a refusal's line, or a fault's, which `fault` marks.
    """

    path: Path
    board: str
    way: str
    result: str = GENERATED
    fault: bool = False
    refused: bool = False
    ram: int | None = None
    flash: int | None = None
    cycles: int | None = None
    seconds: float = 0.0
    taken: str = ""
    made: Generated | None = field(default=None, repr=False)

    @property
    def model(self) -> str:
        """The name of the model."""
        return self.path.stem

    def line(self) -> str:
        """The entry's row."""
        cells = (self.model, self.way, *map(_number, (self.ram, self.flash, self.cycles)), f"{self.seconds:.1f}")
        took = f"{self.result}, {self.taken}" if self.taken else self.result
        return _row((*cells, took))


def _config(model: Path, board: str) -> AppConfig:
    return AppConfig((ModelConfig(model, name="net"),), name="net", boards=(board,), model_data="array")


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


@dataclass(frozen=True)
class Zoo:
    """All that entries share. `workspace` is None where nothing runs."""

    tflm: TflmRevision
    folder: Path
    run: str
    limit: float
    workspace: Workspace | None

    def entries(self, model: Path, board: str, ways: Sequence[str]) -> Iterator[Entry]:
        """The model by each way; the plain ways get their cycles from the ways that `--optimize speed` compares."""
        entries = {way: self._generated(model, board, way) for way in dict.fromkeys((*ways, "speed"))}
        known = self._cycles(model, board)
        for way, entry in entries.items():
            name = entry.taken or _NAMES.get(way, "")
            if entry.cycles is None and entry.ram is not None:
                entry.cycles = known.get(name)
        _compare(list(entries.values()))
        for way in ways:
            entry = entries[way]
            if self.run and entry.made is not None and not entry.fault:
                self._guarded(entry, self._ran)
            yield entry

    def _generated(self, model: Path, board: str, way: str) -> Entry:
        entry = Entry(model, board, way)
        start = time.process_time()
        self._guarded(entry, self._generate)
        entry.seconds = time.process_time() - start
        return entry

    def _generate(self, entry: Entry) -> None:
        config = _config(entry.path, entry.board)
        # A whole app with its golden outputs where it is to be built.
        request = AppRequest(config, self.folder / "app", self.tflm, golden=self.run == "zephyr")
        if entry.way in OPTIMIZED:
            made, taken = optimized(request, entry.way)
            entry.cycles, entry.taken = taken.cycles, taken.name
        elif entry.way in LINKS:
            made = generate(replace(request, config=replace(config, host_link=True, backend=LINKS[entry.way])))
        else:
            made = generate_within(replace(request, config=PLAIN[entry.way](config)))
        entry.made = made
        render(made.spec)
        entry.ram = sum(spec.arena.bytes for spec in made.spec.models)
        use = verdict(made.spec, made.spec.boards[0]).flash
        entry.flash = None if use is None else use.used_bytes

    def _cycles(self, model: Path, board: str) -> dict[str, int | None]:
        """Estimated cycles by the name of footprint's way, and by that of an entry that took it."""
        try:
            ways = all_ways(AppRequest(_config(model, board), self.folder / "app", self.tflm, golden=False))
        except ToolError:  # --optimize speed has the line already
            return {}
        return {way.name: way.cycles for way in ways}

    def _guarded(self, entry: Entry, step: Callable[[Entry], None]) -> None:
        """Take a step; a refusal and a fault become the entry's result."""
        try:
            with _limited(self.limit):
                step(entry)
        except ToolError as error:
            line = str(error).removeprefix(f"{entry.path}: ")
            entry.fault, entry.refused = step == self._ran, step != self._ran
            entry.result = f"FAULT: {line}" if entry.fault else line
        except SlowError:
            entry.result, entry.fault = f"FAULT: longer than {self.limit:g} s", True
        except Exception as error:  # a bug's traceback is what is looked for
            traceback.print_exc()
            last = str(error).strip().splitlines() or [""]
            entry.result, entry.fault = f"FAULT: {type(error).__name__}: {last[0]}", True

    def _ran(self, entry: Entry) -> None:
        assert entry.made is not None
        if entry.way in LINKS:
            return  # it waits for a host
        compiled = entry.made.spec.backend == COMPILED
        if self.run == "zephyr":
            entry.result = self._in_zephyr(entry.made, entry.board)
        elif compiled:
            entry.result = self._on_host(entry.made) if self.run == "host" else self._in_qemu(entry)
        else:
            entry.result = _interpreted(entry.made)
        entry.fault = entry.result not in (EQUAL, GENERATED)

    def _checkouts(self) -> Checkouts:
        space = self.workspace
        assert space is not None and space.tflm_dir is not None and space.cmsis_nn_dir is not None
        objects = self.folder / "objects"
        objects.mkdir(exist_ok=True)
        return Checkouts(space.tflm_dir, space.cmsis_nn_dir, objects, self.tflm)

    def _on_host(self, made: Generated) -> str:
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            check_layers(build_all(made, Path(folder), self._checkouts()))
        return EQUAL

    def _in_qemu(self, entry: Entry) -> str:
        assert entry.made is not None
        program = runtime_of(entry.made.spec.models[0]).program
        core = next((key for key, machine in MACHINES.items() if machine.board == entry.board), None)
        if program.fallbacks or program.stream is not None or core is None:
            return GENERATED  # TFLM's own kernels need Zephyr around them
        inputs = random_inputs(program)
        (want,) = expected(program, [inputs])
        metal = BareMetal(self._checkouts(), MACHINES[core], self.folder / core)
        found = metal.measured(entry.made, inputs, want)
        bound = found.stack_bound_bytes
        if bound is not None and found.stack_bytes > bound:
            return f"FAULT: {found.stack_bytes:,} bytes of stack, bound {bound:,}"
        return EQUAL

    def _in_zephyr(self, made: Generated, board: str) -> str:
        assert self.workspace is not None
        bench = Bench(self.workspace, detect_toolchain(), self.folder)
        app = self.folder / f"zephyr_{made.spec.backend}"  # as its build folder, which later models take over
        write_app(app, made, made.config, (), force=True)
        return EQUAL if equals_reference(emulated(bench.build(app, board))) else "FAULT: outputs differ"


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise SlowError after so many seconds of CPU time in this process."""

    def late(_: int, __: FrameType | None) -> None:
        raise SlowError

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _interpreted(made: Generated) -> str:
    """TFLM on this machine with the app's plan, and with its own."""
    import random

    (prepared,) = made.prepared
    rng, tensors = random.Random(1), prepared.model.main.tensors
    inputs = [random_bytes(tensors[index], rng) for index in prepared.model.main.inputs]
    own = run_many(without_offline_plan(prepared.model), [inputs])
    return EQUAL if run_many(prepared.data, [inputs]).runs == own.runs else "FAULT: outputs differ"


def _compare(entries: Sequence[Entry]) -> None:
    """Mark what `--optimize` took where a plain way is better by its measure."""
    measures: Mapping[str, Callable[[Entry], int | None]] = {
        "speed": lambda entry: entry.cycles,
        "ram": lambda entry: entry.ram,
        "flash": lambda entry: entry.flash,
    }
    for entry in entries:
        measure = measures.get(entry.way)
        own = None if measure is None else measure(entry)
        if measure is None or own is None:
            continue
        for other in entries:
            value = measure(other) if other.way in PLAIN else None
            if value is not None and value * ALIKE < own:  # so near to the best, another measure decides
                entry.result, entry.fault = f"FAULT: {other.way} has {value:,}", True


def summary(model: str, entries: Sequence[Entry]) -> str:
    """A model's line: RAM, flash and cycles by each way, and how they ended."""
    if all(entry.refused for entry in entries):
        return _row((model, *[""] * len(entries), entries[0].result))
    cells = [model]
    for entry in entries:
        if entry.ram is None:
            cells.append(entry.result)
            continue
        size = f"{entry.ram / 1024:.1f} / {_kib(entry.flash)}"
        cells.append(size + ("" if entry.cycles is None else f" / {entry.cycles / 1e6:.2f}"))
    return _row((*cells, ", ".join(sorted({entry.result for entry in entries if entry.ram is not None}))))


def _kib(size: int | None) -> str:
    return "?" if size is None else f"{size / 1024:.1f}"


TITLES = ("model", "way", "RAM", "flash", "est. cycles", "CPU s", "result")


def tables(zoo: Zoo, models: Sequence[Path], boards: Sequence[str], args: argparse.Namespace) -> list[Entry]:
    """Print a table for each board; all entries, without their apps."""
    found: list[Entry] = []
    for board in boards:
        say(f"\n{board}\n")
        titles = ("model", *args.ways, "result") if args.summary else TITLES
        for cells in (titles, ["---"] * len(titles)):
            say(_row(cells))
        for model in models:
            entries = [replace(entry, made=None) for entry in zoo.entries(model, board, args.ways)]
            found += entries
            if args.summary:
                say(summary(model.stem, entries))
            elif len({entry.result for entry in entries if entry.refused}) == 1 and all(one.refused for one in entries):
                say(replace(entries[0], way="all").line())
            else:
                for entry in entries:
                    say(entry.line())
    return found


def main() -> int:
    """Print the tables, then what is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a folder of .tflite files")
    parser.add_argument("-b", "--board", action="append", help=f"default: {' '.join(BOARDS)}; may be repeated")
    parser.add_argument("--run", choices=RUNS, default="", help="build and run what is generated, and compare")
    parser.add_argument("--models", nargs="*", default=[], metavar="NAME", help="just these models")
    parser.add_argument(
        "--ways", nargs="+", choices=WAYS, metavar="WAY", help=f"of {' '.join(WAYS)}; default: all, in a summary four"
    )
    parser.add_argument("--summary", action="store_true", help="a line for each model")
    parser.add_argument("--limit", type=float, default=60, metavar="SECONDS", help="CPU time of a way (default: 60)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="work there, and find compiled kernels there again")
    args = parser.parse_args()
    args.ways = args.ways or (("interpreter", *OPTIMIZED) if args.summary else WAYS)
    models = sorted(path for path in args.folder.glob("*.tflite") if not args.models or path.stem in args.models)
    if not models:
        parser.error(f"no such .tflite file in {args.folder}")
    try:
        workspace = find_workspace() if args.run else None
        tflm = tflm_of(None, "" if workspace is None else workspace.tflm_revision)
    except ToolError as error:
        parser.error(str(error))
    with tempfile.TemporaryDirectory(prefix="tflm_zephyr_") as made:
        folder = args.keep.absolute() if args.keep else Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        found = tables(Zoo(tflm, folder, args.run, args.limit, workspace), models, args.board or BOARDS, args)
    faults = [entry for entry in found if entry.fault]
    refused = {entry.model for entry in found} - {entry.model for entry in found if not entry.refused}
    say(f"\n{len(models)} models, {len(refused)} refused in every way, {len(faults)} faults")
    for entry in faults:
        say(f"{entry.model} on {entry.board}, {entry.way}: {entry.result}")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())

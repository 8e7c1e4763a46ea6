# SPDX-License-Identifier: Apache-2.0
"""Costs of kernels by shape: python benchmarks/kernel_costs.py [--update] [-c CORE ...]

Runs layers of a grid of shapes (tests/helpers/kernel_grid.py) on bare metal in QEMU, with CMSIS-NN's kernels at -Ofast
and with ours, as benchmarks/kernels.py does. Instructions are counted, cycles are ESTIMATED from the executed blocks,
code is what the linker gives each function. The counts of each kernel's loops (tflm_zephyr.costs.work_counts)
are fitted to them by least squares of the relative error, without negative factors. Every fifth shape is held out:
printed are the errors on these, and a line for each kernel.

`--update` writes tflm_zephyr/data/costs/<core>.json and the shapes held out, for the tests. It takes a few
minutes, and has to be repeated when our kernels change.

Needs a west workspace (ZEPHYR_BASE) with the tflite-micro and cmsis-nn modules, arm-none-eabi-gcc and QEMU.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.bare_app import run  # noqa: E402
from benchmarks.common import Bench, main_of, say, say_load  # noqa: E402
from benchmarks.kernels import CORES, Machine, Measured  # noqa: E402
from tests.helpers.kernel_grid import grid, grid_model  # noqa: E402
from tflm_zephyr.codegen.backends.cxx import kernel_name  # noqa: E402
from tflm_zephyr.compiler.kernel_shapes import shape_of  # noqa: E402
from tflm_zephyr.costs import (  # noqa: E402
    CMSIS_NN,
    FAST,
    OWN,
    CoreTable,
    Fit,
    FitError,
    KernelFits,
    LibraryTable,
    Shape,
    code_counts,
    core_table,
    dump,
    file_of,
    is_measured,
    work_counts,
)
from tflm_zephyr.errors import ToolError  # noqa: E402
from tflm_zephyr.files import write_atomically  # noqa: E402
from tflm_zephyr.kernels import CMSIS_NN_REVISION, Node  # noqa: E402

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

HELD_OUT_FILE = ROOT / "tests" / "unit" / "costs" / "held_out.json"
HELD_OUT = 5
_DIGITS = 5
_CALLED = re.compile(r"\s(?:bl|b|b\.w|bl\.w)\s+[0-9a-f]+ <(\w+)>")
_LAYER = re.compile(r"\bLayer(\d+)[A-Z]")
_DIRECTION = re.compile(r"(?<=>),(true|false)>$")
_NO_KERNEL = re.compile(r"_(?!ZN)|mem|str")
_FUNCTION = re.compile(r"^[0-9a-f]+ <(\w+)>:$")
_NAMES: Mapping[str, str] = {"m3": "cortex-m3", "m4": "cortex-m4", "m33": "cortex-m33"}


@dataclass(frozen=True)
class Sample:
    """A layer's measured work, and the bytes of its function where that is one of ours.

    `call` are the bytes of the code that calls it, with the structs of its parameters.
    """

    shape: Shape
    instructions: int
    cycles: int
    code: int | None = None
    call: int = 0


def samples(machine: Machine) -> tuple[list[Sample], dict[str, int], dict[str, tuple[str, ...]]]:
    """Each layer of the grid by both ways, and CMSIS-NN's functions: their bytes, and what each kernel calls.

    ToolError where outputs differ.
    """
    found: list[Sample] = []
    sizes: dict[str, int] = {}
    called: dict[str, tuple[str, ...]] = {}
    for family, layers in grid().items():
        path = machine.bench.folder / f"{family}.tflite"
        path.write_bytes(grid_model(layers))
        arm = machine.measure(path, fast=False)
        own = machine.measure(path, fast=True, every=True)
        if arm.outputs != own.outputs:
            raise ToolError("outputs differ", where=f"{family} on {machine.core.name}")
        for one in (arm, own):
            found += _samples(one)
        kernels = {sample.shape.kernel for sample in found if not sample.shape.own.form}
        _read_library(arm.elf, kernels, sizes, called)
        say(f"{machine.core.name}: {family}, {len(layers)} shapes")
    return found, sizes, called


def _read_library(elf: Path, kernels: set[str], sizes: dict[str, int], called: dict[str, tuple[str, ...]]) -> None:
    """Add the functions of CMSIS-NN that are in the program."""
    table, reached = reached_functions(elf, kernels)
    for kernel, names in reached.items():
        called[kernel] = tuple(sorted(names))
        sizes.update({one: table[one] for one in names})


def reached_functions(elf: Path, roots: Collection[str]) -> tuple[dict[str, int], dict[str, set[str]]]:
    """Bytes of the program's functions by name, and those that each of `roots` reaches, itself included.

    Functions of the compiler's libraries are left out: any app may have them.
    """
    table = {}
    for line in run(["arm-none-eabi-nm", "-S", elf], elf.parent).splitlines():
        parts = line.split()
        if len(parts) == 4 and parts[2] in "tTwW" and not _NO_KERNEL.match(parts[3]):
            table[parts[3]] = int(parts[1], 16)
    calls: dict[str, set[str]] = {}
    name = ""
    for line in run(["arm-none-eabi-objdump", "-d", "--no-show-raw-insn", elf], elf.parent).splitlines():
        if start := _FUNCTION.match(line):
            name = start[1]
        elif to := _CALLED.search(line):
            calls.setdefault(name, set()).add(to[1])
    found = {}
    for root in set(roots) & table.keys():
        reached, todo = set[str](), [root]
        while todo:
            at = todo.pop()
            if at in table and at not in reached:
                reached.add(at)
                todo += calls.get(at, ())
        found[root] = reached
    return table, found


def _samples(measured: Measured) -> Iterator[Sample]:
    program = measured.program
    sizes = function_bytes(measured.elf) if any(layer.fast for layer in program.layers) else {}
    calls = call_bytes(measured.elf)
    for layer, cost in zip(program.main_layers, measured.layers, strict=True):
        node = Node(program.model, program.model.main, program.model.main.operators[layer.operator])
        shape = shape_of(node, layer)
        if shape is not None and (layer.fast or not sizes):
            function = kernel_name(layer.kernels[0], whole=True).replace(" ", "")
            code = sizes[_DIRECTION.sub(">", function)] if layer.fast else None
            yield Sample(shape, cost.instructions, cost.cycles, code, calls.get(layer.operator, 0))


def call_bytes(elf: Path) -> dict[int, int]:
    """Bytes of each layer's function in the generated code, and of its structs, by operator."""
    found: dict[int, int] = {}
    for line in run(["arm-none-eabi-nm", "-S", "-C", elf], elf.parent).splitlines():
        parts = line.split(maxsplit=3)
        if len(parts) == 4 and FAST not in parts[3] and (layer := _LAYER.search(parts[3])):
            found[int(layer[1])] = found.get(int(layer[1]), 0) + int(parts[1], 16)
    return found


def function_bytes(elf: Path) -> dict[str, int]:
    """Bytes of our functions by name with template arguments, without spaces and without the direction, if any."""
    found = {}
    for line in run(["arm-none-eabi-nm", "-S", "-C", elf], elf.parent).splitlines():
        _, size, _, name = (*line.split(maxsplit=3), "", "", "", "")[:4]
        if f"{FAST}::" in name and "(" in name:
            text = name.removeprefix("void ").replace(" ", "")
            text = _DIRECTION.sub(">", text[: text.index(">(") + 1])
            found[text] = max(found.get(text, 0), int(size, 16))
    return found


def fitted(counts: Sequence[Mapping[str, int]], values: Sequence[int]) -> Fit:
    """Factors of the counts that give the values, with the error on every fifth one, which the fit has not seen."""
    import numpy

    held = [k for k in range(len(values)) if k % HELD_OUT == HELD_OUT - 1]
    seen = [k for k in range(len(values)) if k not in held]
    names = sorted({name for count in counts for name in count})
    table = numpy.array([[count.get(name, 0) for name in names] for count in counts], float)
    wanted = numpy.array(values, float)
    rows = table[seen] / wanted[seen, None]
    known = rows.any(axis=0)
    factors = numpy.zeros(len(names))
    factors[known] = non_negative(rows[:, known], numpy.ones(len(seen)))
    checked = held or seen
    off = numpy.abs(table[checked] @ factors / wanted[checked] - 1)
    found = {name: rounded(factor) for name, factor, has in zip(names, factors, known, strict=True) if has}
    return Fit(found, len(seen), FitError(rounded(off.mean()), rounded(off.max())))


def rounded(value: float) -> float:
    """The number with the digits that a table keeps."""
    return float(f"{value:.{_DIGITS}g}")


def non_negative(table: NDArray[numpy.float64], wanted: NDArray[numpy.float64]) -> NDArray[numpy.float64]:
    """Least squares without negative factors: the active sets of Lawson and Hanson (Solving Least Squares Problems)."""
    import numpy

    scale = numpy.abs(table).max(axis=0)
    scale[scale == 0] = 1
    table = table / scale
    factors = numpy.zeros(table.shape[1])
    free: list[int] = []
    for _ in range(10 * table.shape[1]):
        slope = table.T @ (wanted - table @ factors)
        slope[free] = -1
        best = int(slope.argmax())
        if slope[best] <= 1e-9:
            break
        free.append(best)
        while True:
            trial, *_ = numpy.linalg.lstsq(table[:, free], wanted, rcond=None)
            if (trial > 0).all():
                break
            now = factors[free]
            shrinks = trial <= 0
            step = (now[shrinks] / (now[shrinks] - trial[shrinks])).min()
            factors[free] = now + step * (trial - now)
            free = [k for k in free if factors[k] > 1e-12]
            factors[[k for k in range(len(factors)) if k not in free]] = 0
        factors[:] = 0
        factors[free] = trial
    return factors / scale


def libraries(
    found: Sequence[Sample], sizes: Mapping[str, int], called: Mapping[str, tuple[str, ...]], core: str
) -> tuple[LibraryTable, LibraryTable]:
    """The fits of a core's kernels, CMSIS-NN's and ours."""
    kernels = {}
    for kernel in sorted({sample.shape.kernel for sample in found}):
        own = [sample for sample in found if sample.shape.kernel == kernel]
        works = [work_counts(sample.shape, core) for sample in own]
        code = None
        if kernel.startswith(FAST):
            code = fitted([code_counts(sample.shape) for sample in own], [sample.code or 0 for sample in own])
        kernels[kernel] = KernelFits(
            fitted(works, [sample.instructions for sample in own]),
            fitted(works, [sample.cycles for sample in own]),
            round(sum(sample.call for sample in own) / len(own)),
            code,
        )
    ours = {name: fits for name, fits in kernels.items() if fits.code is not None}
    theirs = {name: fits for name, fits in kernels.items() if fits.code is None}
    return (
        LibraryTable(CMSIS_NN, CMSIS_NN_REVISION, theirs, function_bytes=sizes, called=called),
        LibraryTable(OWN, "", ours),
    )


def lines(name: str, tables: Sequence[LibraryTable]) -> Iterator[str]:
    """A line for each kernel: the errors on the shapes that were held out."""
    titles = f"{'shapes':>7}{'a call':>7}{'instructions':>17}{'est. cycles':>17}{'code':>17}"
    yield f"\n{name:40}{titles}   mean and largest error"
    for kernel, fits in ((kernel, fits) for table in tables for kernel, fits in table.calls.items()):
        errors = (fits.instructions.error, fits.cycles.error, *((fits.code.error,) if fits.code else ()))
        shown = "".join(f"{100 * error.mean:8.1f} % {100 * error.most:5.1f} %" for error in errors)
        yield f"{kernel:40}{fits.cycles.shapes:7}{fits.call_bytes:7}{shown}"


def main() -> int:
    """Measure every core that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-c", "--core", action="append", choices=tuple(CORES), help="default: all; may be repeated")
    parser.add_argument("--update", action="store_true", help="write the table, of the cores measured")

    def body(args: argparse.Namespace, bench: Bench) -> None:
        say_load()
        version = run(["arm-none-eabi-gcc", "-dumpfullversion"], bench.folder).strip()
        held: dict[str, list[Sample]] = {}
        for key in args.core or CORES:
            found, sizes, called = samples(Machine(bench, key))
            tables = libraries(found, sizes, called, _NAMES[key])
            held[_NAMES[key]] = held_out(found)
            for line in lines(_NAMES[key], tables):
                say(line)
            if args.update:
                update(CoreTable(_NAMES[key], f"GCC {version}", tables))
        if args.update:
            write_held_out(held)

    return main_of(parser, body)


def held_out(found: Sequence[Sample]) -> list[Sample]:
    """The samples that the fits have not seen."""
    kept = []
    for kernel in sorted({sample.shape.kernel for sample in found}):
        own = [sample for sample in found if sample.shape.kernel == kernel]
        kept += own[HELD_OUT - 1 :: HELD_OUT]
    return kept


def update(measured_now: CoreTable) -> None:
    """Write the libraries into the core's file, kernels, functions and operators beside those that it has of them."""
    core = measured_now.core
    old = core_table(core) if is_measured(core) else measured_now
    kept = {(one.name, one.commit): one for one in old.libraries}
    for now in measured_now.libraries:
        before = kept.get((now.name, now.commit), now)
        kept[now.name, now.commit] = replace(
            before,
            calls={**before.calls, **now.calls},
            operators={**before.operators, **now.operators},
            function_bytes={**before.function_bytes, **now.function_bytes},
            called={**before.called, **now.called},
        )
    path = ROOT / "tflm_zephyr" / "data" / file_of(core)
    write_atomically(path, dump(CoreTable(core, old.toolchain, tuple(kept.values()))).encode())
    core_table.cache_clear()


def write_held_out(held: Mapping[str, Sequence[Sample]]) -> None:
    """Write the shapes held out, a line each, with those of cores that were not measured now."""
    rows = {core: list(map(_held_row, found)) for core, found in held.items()}
    rows = {**json.loads(HELD_OUT_FILE.read_text()), **rows}
    parts = (f'"{core}": [\n' + ",\n".join(map(_compact, rows[core])) + "\n]" for core in sorted(rows))
    write_atomically(HELD_OUT_FILE, ("{\n" + ",\n".join(parts) + "\n}\n").encode())


def _held_row(sample: Sample) -> list[object]:
    shape = [*astuple(sample.shape)[:-1], *astuple(sample.shape.own)]
    return [shape, sample.instructions, sample.cycles, sample.code, sample.call]


def _compact(row: object) -> str:
    return json.dumps(row, separators=(",", ":"))


if __name__ == "__main__":
    sys.exit(main())

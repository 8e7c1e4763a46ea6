# SPDX-License-Identifier: Apache-2.0
"""Tables of costs, fitted to measurements: a file for each core, with the kernels of each library and its commit.

`benchmarks/kernel_costs.py --update` and `benchmarks/operator_costs.py --update` write data/costs/<core>.json. They run
layers of a grid of shapes in QEMU, as apps are compiled: CMSIS-NN's kernels at -Ofast, ours at -O2, TFLM at -Os.
Instructions are counted; cycles are estimated from the executed instructions with the timings that Arm publishes, and
no flash wait states. Nothing was measured on a board.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tflm_zephyr.costs.counts import FORM, Counts
from tflm_zephyr.resources import has_package_data, package_data

OWN, CMSIS_NN, REFERENCE = "own", "cmsis_nn", "reference"
FOLDER = "costs"
"""The folder of the tables below data/."""


@dataclass(frozen=True)
class FitError:
    """The distance of estimates from shapes that the fit did not see, as shares: the mean and the largest one."""

    mean: float
    most: float


@dataclass(frozen=True)
class Fit:
    """Factors of a kernel's counts, the number of shapes that they were fitted to, and the error on others."""

    factors: Mapping[str, float]
    shapes: int
    error: FitError

    def of(self, counts: Counts) -> float:
        """The estimate. A count without a factor, as no measured shape had it, adds nothing: see knows().

        A form of requantisation that no measured shape had costs as the dearest one that some had.
        """
        return sum((self._factor(name) or 0.0) * count for name, count in counts.items())

    def knows(self, counts: Counts) -> bool:
        """Whether every count has a factor."""
        return all(self._factor(name) is not None for name in counts)

    def _factor(self, name: str) -> float | None:
        exact = self.factors.get(name)
        if exact is None and (kind := name.partition(FORM)[0]) != name:
            same = (factor for other, factor in self.factors.items() if other.startswith(kind + FORM))
            return max(same, default=None)
        return exact


@dataclass(frozen=True)
class KernelFits:
    """The fits of a kernel on a core; only our kernels have `code`, as that of the others does not depend on shapes.

    `call_bytes` are those of a layer's function, which calls the kernel, and of the structs of its parameters.
    """

    instructions: Fit
    cycles: Fit
    call_bytes: int = 0
    code: Fit | None = None


@dataclass(frozen=True)
class LibraryTable:
    """The kernels of a library at a commit ("" for our own) on one core.

    `calls` are kernels as generated code calls them, `operators` as TFLM's interpreter does, by the names of shapes.
    `function_bytes` are those of the library's functions, `called` all functions that each kernel calls.
    """

    name: str
    commit: str
    calls: Mapping[str, KernelFits] = field(default_factory=dict)
    operators: Mapping[str, KernelFits] = field(default_factory=dict)
    function_bytes: Mapping[str, int] = field(default_factory=dict)
    called: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class CoreTable:
    """All libraries on a core ("cortex-m4"). `toolchain` compiled what was measured."""

    core: str
    toolchain: str
    libraries: tuple[LibraryTable, ...]

    def library(self, name: str, commit: str = "") -> LibraryTable | None:
        """The library at the commit, or at the last measured one where that was not measured; None without any."""
        same = [one for one in self.libraries if one.name == name]
        return next((one for one in same if one.commit == commit), same[-1] if same else None)


def file_of(core: str) -> str:
    """The core's file below data/."""
    return f"{FOLDER}/{core}.json"


@cache
def is_measured(core: str) -> bool:
    """Whether the core has a table."""
    return has_package_data(file_of(core))


@cache
def core_table(core: str) -> CoreTable:
    """The table of a measured core."""
    return parse(json.loads(package_data(file_of(core))))


def parse(raw: Mapping[str, Any]) -> CoreTable:
    """The table in a file's values."""
    return CoreTable(raw["core"], raw["toolchain"], tuple(map(_library, raw["libraries"])))


def _library(raw: Mapping[str, Any]) -> LibraryTable:
    return LibraryTable(
        raw["name"],
        raw["commit"],
        {name: _fits(row) for name, row in raw["calls"].items()},
        {name: _fits(row) for name, row in raw["operators"].items()},
        raw["function_bytes"],
        {name: tuple(others) for name, others in raw["called"].items()},
    )


def _fits(row: list[Any]) -> KernelFits:
    """A row: names of counts, shapes, errors and factors of instructions and of cycles, bytes of a call, code."""
    names, shapes, errors, instructions, cycles, call_bytes, *code = row
    return KernelFits(
        Fit(dict(zip(names, instructions, strict=True)), shapes, FitError(*errors[:2])),
        Fit(dict(zip(names, cycles, strict=True)), shapes, FitError(*errors[2:])),
        call_bytes,
        Fit(dict(zip(code[0], code[1], strict=True)), code[2], FitError(*code[3])) if code else None,
    )


def dump(table: CoreTable) -> str:
    """The text that core_table() reads, a kernel a line."""
    libraries = ",\n".join(map(_library_text, sorted(table.libraries, key=lambda one: (one.name, one.commit))))
    head = f'"core": {json.dumps(table.core)},\n"toolchain": {json.dumps(table.toolchain)}'
    return f'{{\n{head},\n"libraries": [\n{libraries}\n]\n}}\n'


def _library_text(library: LibraryTable) -> str:
    parts = [f'"name": {json.dumps(library.name)}', f'"commit": {json.dumps(library.commit)}']
    parts += [_lines("calls", {name: _row(fits) for name, fits in library.calls.items()})]
    parts += [_lines("operators", {name: _row(fits) for name, fits in library.operators.items()})]
    parts += [f'"function_bytes": {json.dumps(dict(sorted(library.function_bytes.items())))}']
    parts += [_lines("called", library.called)]
    return "{" + ",\n".join(parts) + "}"


def _lines(key: str, rows: Mapping[str, Any]) -> str:
    lines = (f"{json.dumps(name)}: {json.dumps(rows[name], separators=(',', ':'))}" for name in sorted(rows))
    return f"{json.dumps(key)}: {{" + ",".join(f"\n{line}" for line in lines) + "}"


def _row(fits: KernelFits) -> list[Any]:
    names = list(fits.instructions.factors)
    errors = [getattr(fit.error, what) for fit in (fits.instructions, fits.cycles) for what in ("mean", "most")]
    factors = [[fit.factors[name] for name in names] for fit in (fits.instructions, fits.cycles)]
    row = [names, fits.instructions.shapes, errors, *factors, fits.call_bytes]
    if fits.code is not None:
        code = fits.code
        row += [list(code.factors), list(code.factors.values()), code.shapes, [code.error.mean, code.error.most]]
    return row

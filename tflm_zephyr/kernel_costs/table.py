# SPDX-License-Identifier: Apache-2.0
"""Instructions, estimated cycles and code bytes of kernels by shape, from a table fitted to measurements.

`benchmarks/kernel_costs.py --update` writes kernel_costs.json in the data folder of the pinned TFLM revision, whose
CMSIS-NN all known revisions have. It runs layers of a grid of shapes in QEMU, with CMSIS-NN's kernels at -Ofast and
with ours at -O2. Instructions are counted; cycles are estimated from the executed instructions with the timings that
Arm publishes, and no flash wait states. Nothing was measured on a board.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from tflm_zephyr.kernel_costs.terms import FORM, Counts, Shape, code_terms, work_terms
from tflm_zephyr.plain_values import read_values
from tflm_zephyr.resources import package_data
from tflm_zephyr.tflm import PINNED_REVISION, data_folder

KERNEL_COSTS_FILE = "kernel_costs.json"


@dataclass(frozen=True)
class FitError:
    """The distance of estimates from shapes that the fit did not see, as shares: the mean and the largest one."""

    mean: float
    most: float


@dataclass(frozen=True)
class Fit:
    """Factors of a kernel's terms, the number of shapes that they were fitted to, and the error on others."""

    factors: Mapping[str, float]
    shapes: int
    error: FitError

    def of(self, counts: Counts) -> float | None:
        """The estimate; None where a count has no factor, as no measured shape had it.

        A form of requantisation that no measured shape had costs as the dearest one that some had.
        """
        factors = [self._factor(name) for name in counts]
        known = [factor for factor in factors if factor is not None]
        if len(known) < len(factors):
            return None
        return sum(factor * count for factor, count in zip(known, counts.values(), strict=True))

    def _factor(self, name: str) -> float | None:
        found = self.factors.get(name)
        if found is None and (kind := name.partition(FORM)[0]) != name:
            found = max((one for other, one in self.factors.items() if other.startswith(kind + FORM)), default=None)
        return found


@dataclass(frozen=True)
class KernelFits:
    """The fits of a kernel on a core; CMSIS-NN's have no `code`, which does not depend on shapes.

    `call_bytes` are those of a layer's function, which calls the kernel, and of the structs of its parameters.
    """

    instructions: Fit
    cycles: Fit
    call_bytes: int
    code: Fit | None = None


@dataclass(frozen=True)
class CoreCosts:
    """A core's kernels, and CMSIS-NN's functions: bytes of code, and all that each kernel calls."""

    kernels: Mapping[str, KernelFits]
    function_bytes: Mapping[str, int]
    called: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Table:
    """All cores by name. `toolchain` compiled what was measured, `cmsis_nn` is the commit."""

    toolchain: str
    cmsis_nn: str
    cores: Mapping[str, CoreCosts]


@dataclass(frozen=True)
class Work:
    """A kernel's estimated instructions and cycles for a layer."""

    instructions: int
    cycles: int


@dataclass(frozen=True)
class Costs:
    """The kernels of some cores, on which a layer's code is to run; estimates are means of these cores."""

    cores: tuple[CoreCosts, ...]

    def work(self, shape: Shape) -> Work | None:
        """The work of a layer; None for a kernel, or a form of requantisation, that was not measured."""
        found = [core.kernels.get(shape.kernel) for core in self.cores]
        if not found or None in found:
            return None
        counts = work_terms(shape)
        instructions = _mean([one.instructions.of(counts) for one in found if one])
        cycles = _mean([one.cycles.of(counts) for one in found if one])
        return None if instructions is None or cycles is None else Work(instructions, cycles)

    def code_bytes(self, shape: Shape) -> int | None:
        """Bytes of code of one of our functions, the most of these cores; None where they were not measured."""
        fits = [core.kernels[shape.kernel].code for core in self.cores if shape.kernel in core.kernels]
        found = [None if fit is None else fit.of(code_terms(shape)) for fit in fits]
        if len(found) < len(self.cores) or not found or None in found:
            return None
        return round(max(one for one in found if one is not None))

    def call_bytes(self, kernel: str) -> int:
        """Bytes of a layer's function that calls the kernel, the most of these cores."""
        return max((core.kernels[kernel].call_bytes for core in self.cores if kernel in core.kernels), default=0)

    def code_error(self, kernel: str) -> float:
        """The share by which code_bytes() may be off: the largest error of the fit, at least twice the mean one."""
        fits = [core.kernels[kernel].code for core in self.cores if kernel in core.kernels]
        return max((max(2 * fit.error.mean, fit.error.most) for fit in fits if fit is not None), default=0.0)

    def library_bytes(self, kernels: Collection[str]) -> int:
        """Bytes of code of CMSIS-NN's kernels with all that they call, each function once; the most of these cores."""
        return max((_together(core, kernels) for core in self.cores), default=0)


def _together(core: CoreCosts, kernels: Collection[str]) -> int:
    names = {name for kernel in kernels for name in core.called.get(kernel, ())}
    return sum(core.function_bytes[name] for name in names)


def _mean(values: Sequence[float | None]) -> int | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known)) if len(known) == len(values) else None


def costs_of(cores: Collection[str]) -> Costs:
    """The costs on these cores ("cortex-m4"); none where one of them was not measured."""
    table = cost_table()
    if not cores or not set(cores) <= table.cores.keys():
        return Costs(())
    return Costs(tuple(table.cores[name] for name in sorted(cores)))


@cache
def cost_table() -> Table:
    """The table."""
    text = package_data(f"{data_folder(PINNED_REVISION)}/{KERNEL_COSTS_FILE}")
    return read_values(Table, json.loads(text), name=KERNEL_COSTS_FILE)

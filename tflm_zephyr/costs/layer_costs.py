# SPDX-License-Identifier: Apache-2.0
"""Costs of the kernels that generated code calls, ours and CMSIS-NN's, on the cores that an app is for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tflm_zephyr.costs.counts import code_counts, work_counts
from tflm_zephyr.costs.shapes import Shape
from tflm_zephyr.costs.table import CMSIS_NN, OWN, KernelFits, core_table, is_measured


@dataclass(frozen=True)
class CoreCosts:
    """A core's kernels, and CMSIS-NN's functions: bytes of code, and all that each kernel calls."""

    kernels: Mapping[str, KernelFits]
    function_bytes: Mapping[str, int]
    called: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Work:
    """A kernel's estimated instructions and cycles for a layer."""

    instructions: int
    cycles: int


@dataclass(frozen=True)
class Costs:
    """The kernels of some cores, on which a layer's code is to run; estimates are means of these cores.

    `stands_in`: the commit of CMSIS-NN that was measured, where that is not the app's; "" where it is.
    """

    cores: tuple[CoreCosts, ...]
    stands_in: str = ""

    def work(self, shape: Shape) -> Work | None:
        """The work of a layer; None for a kernel, or a form of requantisation, that was not measured."""
        fits = [core.kernels.get(shape.kernel) for core in self.cores]
        if not fits or None in fits:
            return None
        counts = work_counts(shape)
        instructions = _mean([one.instructions.of(counts) for one in fits if one])
        cycles = _mean([one.cycles.of(counts) for one in fits if one])
        return None if instructions is None or cycles is None else Work(instructions, cycles)

    def code_bytes(self, shape: Shape) -> int | None:
        """Bytes of code of one of our functions, the most of these cores; None where they were not measured."""
        fits = [core.kernels[shape.kernel].code for core in self.cores if shape.kernel in core.kernels]
        sizes = [None if fit is None else fit.of(code_counts(shape)) for fit in fits]
        if len(sizes) < len(self.cores) or not sizes or None in sizes:
            return None
        return round(max(size for size in sizes if size is not None))

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


def costs_of(cores: Collection[str], cmsis_nn: str = "") -> Costs:
    """The costs on these cores ("cortex-m4") with CMSIS-NN at a commit, "" for any.

    None where a core was not measured. A commit that was not measured is priced by a measured one.
    """
    if not cores or not all(map(has_rivals, cores)):
        return Costs(())
    return Costs(tuple(map(_core_costs, sorted(cores))), _stands_in(sorted(cores)[0], cmsis_nn))


def has_rivals(core: str) -> bool:
    """Whether both our kernels and CMSIS-NN's were measured on the core."""
    table = core_table(core) if is_measured(core) else None
    return table is not None and bool(table.library(OWN) and table.library(CMSIS_NN))


def _core_costs(core: str) -> CoreCosts:
    table = core_table(core)
    own, arm = table.library(OWN), table.library(CMSIS_NN)
    assert own is not None and arm is not None
    return CoreCosts({**arm.calls, **own.calls}, arm.function_bytes, arm.called)


def _stands_in(core: str, commit: str) -> str:
    library = core_table(core).library(CMSIS_NN, commit)
    return library.commit if library is not None and commit not in ("", library.commit) else ""

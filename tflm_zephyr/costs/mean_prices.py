# SPDX-License-Identifier: Apache-2.0
"""The prices of kernels on all cores that an app is for."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from tflm_zephyr.costs.prices import Price, Prices
from tflm_zephyr.costs.shapes import Shape
from tflm_zephyr.costs.table import CMSIS_NN, OWN, core_table, is_measured
from tflm_zephyr.kernels import CORES, KernelLibrary


@dataclass(frozen=True)
class Costs:
    """The prices of several cores, one or more: means of work, the most bytes."""

    prices: tuple[Prices, ...]

    @property
    def cores(self) -> tuple[str, ...]:
        """The cores by name."""
        return tuple(one.core for one in self.prices)

    @property
    def of_measured(self) -> Costs:
        """The same for the libraries' commits that were measured: a price is then `measured` whatever the app's is."""
        return Costs(tuple(one.of_measured for one in self.prices))

    @property
    def stands_in(self) -> str:
        """The commit of CMSIS-NN that was measured, where that is not the app's; "" where it is."""
        return self.prices[0].stands_in

    def operator(self, shape: Shape) -> Price:
        """An operator through the interpreter; see Prices."""
        return _mean([one.operator(shape) for one in self.prices])

    def call(self, shape: Shape) -> Price:
        """A kernel as generated code calls it; see Prices."""
        if shape not in self._called:
            self._called[shape] = _mean([one.call(shape) for one in self.prices])
        return self._called[shape]

    @cached_property
    def _called(self) -> dict[Shape, Price]:
        """The prices that were asked for: many layers are of one shape, and each is priced for each choice."""
        return {}

    def function_of(self, shape: Shape) -> str:
        """The functions of CMSIS-NN that an operator calls on these cores, "" where none is known."""
        found = (one.function_of(shape) for one in self.prices if one.library == CMSIS_NN)
        return ", ".join(dict.fromkeys(name for name in found if name))

    def function_bytes(self, shape: Shape) -> tuple[int, int] | None:
        """Bytes of code of one of our functions, and by how much they may be off; None where that was not measured."""
        found = [one.function_bytes(shape) for one in self.prices]
        known = [size for size in found if size is not None]
        if len(known) < len(found):
            return None
        size = round(max(size for size, _ in known))
        return size, round(size * max(error for _, error in known))

    def call_bytes(self, kernel: str) -> int:
        """Bytes of a layer's function that calls the kernel."""
        return max(one.call_bytes(kernel) for one in self.prices)

    def library_bytes(self, kernels: Collection[str]) -> int:
        """Bytes of code of CMSIS-NN's kernels with all that they call, each function once."""
        return max(one.library_bytes(kernels) for one in self.prices)


def costs_of(libraries: Sequence[KernelLibrary]) -> Costs:
    """The costs with these libraries on their boards' cores.

    Where these are not known: on all cores of their kind on which our kernels compete with CMSIS-NN's.
    """
    return Costs(
        tuple(Prices(core, library.name, library.commit) for library in libraries for core in sorted(_cores(library)))
    )


def _cores(library: KernelLibrary) -> Sequence[str]:
    kind = (library.core.dsp, library.core.mve)
    named = [name for name in CORES if (CORES[name].dsp, CORES[name].mve) == kind]
    return library.cores or [name for name in named if has_rivals(name)] or named[:1]


def has_rivals(core: str) -> bool:
    """Whether both our kernels and CMSIS-NN's were measured on the core."""
    table = core_table(core) if is_measured(core) else None
    return table is not None and bool(table.library(OWN) and table.library(CMSIS_NN))


def millions(cycles: float) -> str:
    """Cycles in words: "4.24" million of them, or few with more digits."""
    return f"{cycles / 1e6:.2f}" if cycles >= 1e5 else f"{cycles / 1e6:.4f}"


def _mean(prices: Sequence[Price]) -> Price:
    return Price(
        sum(one.instructions for one in prices) / len(prices),
        sum(one.cycles for one in prices) / len(prices),
        max(one.error for one in prices),
        ", ".join(dict.fromkeys(one.why for one in prices if one.why)),
    )

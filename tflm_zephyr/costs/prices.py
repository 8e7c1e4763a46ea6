# SPDX-License-Identifier: Apache-2.0
"""The price of an operator through TFLM's interpreter, and of a kernel that generated code calls.

A price that was measured for something else says what stood in: another core, commit, library, type or operator.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from tflm_zephyr.costs.counts import HELIUM, code_counts, work_counts
from tflm_zephyr.costs.shapes import Shape
from tflm_zephyr.costs.table import (
    CMSIS_NN,
    OWN,
    REFERENCE,
    KernelFits,
    LibraryTable,
    core_table,
    is_measured,
)

_NEAREST: Mapping[str, tuple[str, ...]] = {
    "cortex-m0": ("cortex-m0plus", "cortex-m3"),
    "cortex-m0plus": ("cortex-m3",),
    "cortex-m23": ("cortex-m0plus", "cortex-m3"),
    "cortex-m33": ("cortex-m4",),
    "cortex-m33+nodsp": ("cortex-m3",),
    "cortex-m4": ("cortex-m33",),
    "cortex-m7": ("cortex-m4", "cortex-m33"),
    "cortex-m85": ("cortex-m55", "cortex-m33"),
    "cortex-m55": ("cortex-m33",),
}
"""Cores of the same instructions, or of most of them, the nearest first."""
_ALIKE = "ADD int8"
"""The operator that stands in for one that was measured nowhere: so much for each element."""
_UNKNOWN_ERROR = 1.0
INVOKE = Shape("Invoke", 1, 1, 1, 1, 1, 1)
"""TFLM's Invoke() behind its last operator."""
ROW_STEP = Shape("RowStep", 1, 1, 1, 1, 1, 1)
"""A step of a segment that runs row by row, beside the kernel that it calls."""
ROW_BYTES = Shape("RowBytes", 1, 1, 1024, 1, 1, 1024)
"""Bytes that move within a row buffer."""
CALLS, OPERATORS = "calls", "operators"
EVAL = "Eval "
"""Begins the name of the price of an operator's Eval beside the function that it calls."""


@dataclass(frozen=True)
class Price:
    """Estimated instructions and cycles, and the share by which each may be off, by the fit's mean error.

    `why` says what stood in where nothing was measured for the very kernel, core and commit; "" where it was.
    """

    instructions: float
    cycles: float
    error: float
    why: str = ""

    @property
    def measured(self) -> bool:
        """Whether the kernel was measured on the core at the commit."""
        return not self.why


@dataclass(frozen=True)
class Prices:
    """The prices on a core with a kernel library: CMSIS_NN at a commit, or REFERENCE at one of TFLM."""

    core: str
    library: str
    commit: str = ""

    def operator(self, shape: Shape) -> Price:
        """An operator through the interpreter, its Eval and the interpreter's loop included."""
        if self.library == CMSIS_NN and (function := self.function_of(shape)):
            around = replace(shape, kernel=EVAL + shape.kernel.partition(" ")[0])
            for core, why in self._cores():
                table = core_table(core).library(CMSIS_NN, self.commit)
                if table is not None and function in table.calls and around.kernel in table.operators:
                    call = _price(core, table.calls[function], replace(shape, kernel=function))
                    price = _sum(call, _price(core, table.operators[around.kernel], around))
                    return _with(price, why, self._commit(table))
                if table is not None and shape.kernel in table.operators:
                    break
        return self._of(shape, OPERATORS)

    def call(self, shape: Shape) -> Price:
        """A kernel as generated code calls it: one of ours, a function of CMSIS-NN, or what stands for an operator."""
        for core, why in self._cores():
            for name in (OWN, CMSIS_NN):
                table = core_table(core).library(name, self.commit)
                if table is not None and shape.kernel in table.calls and " " not in shape.kernel:
                    return _with(_price(core, table.calls[shape.kernel], shape), why, self._commit(table))
        return self._of(shape, CALLS)

    def code_bytes(self, kernels: Sequence[str]) -> int | None:
        """Bytes of generated code that calls these kernels, one for each layer, but for the models' constants.

        They are those of the layers' functions and of all functions that the kernels call, each once; of the compiler's
        libraries none. None where a kernel's code was not measured on the core.
        """
        table = core_table(self.core).library(self.library, self.commit) if is_measured(self.core) else None
        if table is None or not all(kernel in table.called and kernel in table.calls for kernel in kernels):
            return None
        functions = {name for kernel in kernels for name in table.called[kernel]}
        layers = sum(table.calls[kernel].call_bytes for kernel in kernels)
        return layers + sum(table.function_bytes[name] for name in functions)

    @property
    def stands_in(self) -> str:
        """The commit of the library that was measured, where that is not `commit`; "" where it is, or for any."""
        library = core_table(self.core).library(self.library, self.commit) if is_measured(self.core) else None
        return library.commit if library is not None and self.commit not in ("", library.commit) else ""

    @property
    def of_measured(self) -> Prices:
        """The same for the commit that was measured."""
        return replace(self, commit=self.stands_in or self.commit)

    def function_bytes(self, shape: Shape) -> tuple[float, float] | None:
        """Bytes of code of one of our functions, and the share by which they may be off; None where not measured.

        The share is the largest error of the fit, at least twice the mean one.
        """
        fits = self._calls().get(shape.kernel)
        counts = {} if fits is None or fits.code is None else code_counts(shape)
        if fits is None or fits.code is None or not fits.code.knows(counts):
            return None
        return fits.code.of(counts), max(2 * fits.code.error.mean, fits.code.error.most)

    def call_bytes(self, kernel: str) -> int:
        """Bytes of a layer's function that calls the kernel; 0 where they were not measured."""
        fits = self._calls().get(kernel)
        return 0 if fits is None else fits.call_bytes

    def library_bytes(self, kernels: Collection[str]) -> int:
        """Bytes of code of CMSIS-NN's kernels with all that they call, each function once; 0 where not measured."""
        table = core_table(self.core).library(CMSIS_NN, self.commit) if is_measured(self.core) else None
        if table is None:
            return 0
        return sum(
            table.function_bytes[one] for one in {one for kernel in kernels for one in table.called.get(kernel, ())}
        )

    def _calls(self) -> Mapping[str, KernelFits]:
        """The kernels of the core itself, CMSIS-NN's and ours."""
        tables = [
            core_table(self.core).library(name, self.commit) for name in (CMSIS_NN, OWN) if is_measured(self.core)
        ]
        return {name: fits for table in tables if table is not None for name, fits in table.calls.items()}

    def function_of(self, shape: Shape) -> str:
        """The function that CMSIS-NN's wrappers call for an int8 operator, "" for others."""
        key, _, types = shape.kernel.partition(" ")
        if types != "int8" or key not in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
            return ""
        if key == "FULLY_CONNECTED":
            return "arm_fully_connected_s8"
        helium = self.core in HELIUM
        return _convolution(shape, helium) if key == "CONV_2D" else _depthwise(shape, helium)

    def _of(self, shape: Shape, section: str) -> Price:
        """The nearest measured price: of the operator, else of its other types, else of elements.

        Each by the library on the nearest core, and where no core has that by the other library. For a call that was
        not measured the operator through the interpreter stands in.
        """
        other = CMSIS_NN if self.library == REFERENCE else REFERENCE
        sections = (section, OPERATORS) if section == CALLS else (section,)
        for (kernel, why_kernel), name, library in product(_alike(shape.kernel), sections, (self.library, other)):
            for core, why_core in self._cores():
                table = core_table(core).library(library, self.commit if library == self.library else "")
                fits = None if table is None else (table.calls if name == CALLS else table.operators).get(kernel)
                if table is not None and fits is not None:
                    price = _price(core, fits, replace(shape, kernel=kernel))
                    why = "" if name == section else f"{kernel} through the interpreter stands in"
                    return _with(price, why_core, why_kernel, why, self._why(library), self._commit(table))
        return Price(0.0, 0.0, _UNKNOWN_ERROR, f"{shape.kernel} was measured nowhere")

    def _cores(self) -> Iterator[tuple[str, str]]:
        """The measured cores, the nearest first, and why one stands in."""
        if is_measured(self.core):
            yield self.core, ""
        for core in _NEAREST.get(self.core, ("cortex-m3",)):
            if is_measured(core):
                yield core, f"{core} stands in for {self.core}"

    def _why(self, library: str) -> str:
        return "" if library == self.library else f"kernels of {library} stand in for those of {self.library}"

    def _commit(self, table: LibraryTable) -> str:
        if table.name != self.library or self.commit in ("", table.commit):
            return ""
        return f"{table.name} {table.commit[:12]} stands in for {self.commit[:12]}"


def _alike(kernel: str) -> Iterator[tuple[str, str]]:
    """Kernels that may stand in for one, the nearest first, and why."""
    yield kernel, ""
    key, _, types = kernel.partition(" ")
    for other in (types.removesuffix(" broadcast"), "int8", "float32"):
        if other != types:
            yield f"{key} {other}", f"{key} {other} stands in for {types}"
    yield _ALIKE, f"{_ALIKE} stands in for {kernel}"


def _price(core: str, fits: KernelFits, shape: Shape) -> Price:
    counts = work_counts(shape, core)
    error = max(fits.instructions.error.mean, fits.cycles.error.mean)
    price = Price(fits.instructions.of(counts), fits.cycles.of(counts), error)
    if fits.instructions.knows(counts):
        return price
    return _with(price, f"no measured shape of {shape.kernel} had all of it")


def _sum(one: Price, other: Price) -> Price:
    return Price(
        one.instructions + other.instructions,
        one.cycles + other.cycles,
        one.error,
        ", ".join(dict.fromkeys(filter(None, (one.why, other.why)))),
    )


def _with(price: Price, *whys: str) -> Price:
    return replace(price, why=", ".join(filter(None, (price.why, *whys))))


def _convolution(s: Shape, helium: bool) -> str:
    """As arm_convolve_wrapper_s8 does it."""
    if (s.top, s.left, s.high, s.wide) == (0, 0, 1, 1) and not s.dilated:
        return "arm_convolve_1x1_s8_fast" if (s.down, s.across) == (1, 1) else "arm_convolve_1x1_s8"
    if helium and s.height == s.high == 1 and not s.dilated and s.across * s.depth % 4 == 0:
        return "arm_convolve_1_x_n_s8"
    return "arm_convolve_s8"


def _depthwise(s: Shape, helium: bool) -> str:
    """As arm_depthwise_conv_wrapper_s8 does it."""
    if helium and s.depth == 1 and s.channels > 1:
        return "arm_depthwise_conv_wrapper_s8"
    if s.channels != s.depth or s.dilated:
        return "arm_depthwise_conv_s8"
    small = (s.high, s.wide) == (3, 3) and max(s.top, s.left) <= 1
    return "arm_depthwise_conv_3x3_s8" if small and not helium else "arm_depthwise_conv_s8_opt"

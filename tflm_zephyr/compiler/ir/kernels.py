# SPDX-License-Identifier: Apache-2.0
"""Kernels by library: functions that a layer's code calls, with their headers and template arguments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from tflm_zephyr.costs import FAST
from tflm_zephyr.model import TensorType

_CMSIS_HEADER = "arm_nnfunctions.h"
_REFERENCE_HEADERS = "tensorflow/lite/kernels/internal/reference"
_OWN_HEADER = "fast_kernels.hpp"


class Library(Enum):
    """Where a kernel comes from."""

    CMSIS_NN = "CMSIS-NN"
    TFLM = "TFLM's reference functions"
    FALLBACK = "TFLM's registered kernels"
    OWN = "our own kernels"
    HELPER = "helpers of the generated code"
    STANDARD = "the C++ standard library"


@dataclass(frozen=True)
class Geometry:
    """Our windowed kernels' shape: pixels and channels of an input row, of an output row the pixels, and the window.

    `high` and `wide` are the window's taps, `down` and `across` its strides, `left` the padding; `zero_point` is the
    input's.
    """

    in_pixels: int
    depth: int
    out_pixels: int
    high: int
    wide: int
    down: int
    across: int
    dilated_down: int
    dilated_across: int
    left: int
    zero_point: int


@dataclass(frozen=True)
class Rounding:
    """Our kernels' requantisation: the class `form` with the arguments of its template."""

    form: str
    arguments: tuple[int | bool | Rounding, ...]


TemplateArgument = int | bool | TensorType | Geometry | Rounding


@dataclass(frozen=True)
class Kernel:
    """A function. `namespace` begins with the outer one; `returns_status`: it returns whether it succeeds."""

    library: Library
    name: str
    namespace: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    template: tuple[TemplateArgument, ...] = ()
    returns_status: bool = False

    @property
    def qualified_name(self) -> str:
        """The name with its namespace, as tables and reports have it."""
        return "::".join((*self.namespace, self.name))

    @property
    def rounding(self) -> Rounding | None:
        """The requantisation of one of our own kernels."""
        return next((one for one in self.template if isinstance(one, Rounding)), None)

    def with_argument(self, place: int, value: TemplateArgument) -> Kernel:
        """The same template with another argument at `place`."""
        return replace(self, template=(*self.template[:place], value, *self.template[place + 1 :]))


def cmsis_kernel(name: str, *, returns_status: bool = True) -> Kernel:
    """A function of CMSIS-NN."""
    return Kernel(Library.CMSIS_NN, name, headers=(_CMSIS_HEADER,), returns_status=returns_status)


def reference_kernel(header: str, name: str, *template: TemplateArgument, integer: bool = False) -> Kernel:
    """A function of tensorflow/lite/kernels/internal/reference/`header`; `integer`: of reference_integer_ops."""
    namespace = "tflite", "reference_integer_ops" if integer else "reference_ops"
    return Kernel(Library.TFLM, name, namespace, (f"{_REFERENCE_HEADERS}/{header}",), template)


def own_kernel(name: str, *template: TemplateArgument) -> Kernel:
    """One of our own kernels (templates/app/compiled/src/fast_kernels.hpp.j2)."""
    return Kernel(Library.OWN, name, (FAST,), (_OWN_HEADER,), template)


def helper_kernel(name: str, *headers: str) -> Kernel:
    """A function that the generated code defines (templates/app/compiled/parts)."""
    return Kernel(Library.HELPER, name, headers=headers)


def standard_kernel(name: str, header: str) -> Kernel:
    """A function of the C++ standard library."""
    return Kernel(Library.STANDARD, name, ("std",), (header,))

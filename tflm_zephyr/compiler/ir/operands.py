# SPDX-License-Identifier: Apache-2.0
"""Operands of kernel calls as values; codegen/backends has the C++ of each.

Python's int, bool and float stand for int32_t, bool and float. What a call for some rows has in the place of an
operand for the whole tensor is in row_operands.
"""

from __future__ import annotations

from dataclasses import dataclass

from tflm_zephyr.compiler.ir.row_operands import RowOperand
from tflm_zephyr.compiler.ir.structs import (
    ConstantAt,
    Double,
    LocalStruct,
    Numbers,
    Scalar,
    Scratch,
    Struct,
    TensorAt,
)
from tflm_zephyr.model import TensorType


@dataclass(frozen=True)
class Null:
    """No pointer; with a `type` where a template's argument is deduced from the pointer."""

    type: TensorType | None = None


@dataclass(frozen=True)
class AsInts:
    """An array of int32_t where the function takes int."""

    array: ConstantAt


@dataclass(frozen=True)
class FirstOf:
    """The address of an array's first element."""

    array: ConstantAt


@dataclass(frozen=True)
class AddressOf:
    """The address of a layer's constant or struct; Struct and Numbers themselves are passed by reference."""

    value: Struct | Scalar | LocalStruct


@dataclass(frozen=True)
class NoContext:
    """CMSIS-NN's context without a buffer."""


@dataclass(frozen=True)
class Dims:
    """The address of CMSIS-NN's four sizes, which a file has once."""

    n: int
    h: int
    w: int
    c: int

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """n, h, w, c."""
        return self.n, self.h, self.w, self.c


@dataclass(frozen=True)
class Shape:
    """TFLM's RuntimeShape; its sizes are in the file once."""

    sizes: tuple[int, ...]


@dataclass(frozen=True)
class RunDims:
    """The Dims of a run of pixels (PixelRuns): as many as the run has, in one row."""


# Functions that are handed to a kernel


@dataclass(frozen=True)
class Clamp:
    """An element, at least `least` and at most `most`; None for no upper end."""

    type: TensorType
    least: int | float
    most: int | float | None = None


@dataclass(frozen=True)
class Convert:
    """An element in another type."""

    source: TensorType
    target: TensorType


@dataclass(frozen=True)
class Pick:
    """The larger or the smaller of two elements."""

    type: TensorType
    larger: bool


@dataclass(frozen=True)
class PickNext:
    """The larger or the smaller of an element and those before it."""

    type: TensorType
    larger: bool


@dataclass(frozen=True)
class Limit:
    """The lowest or the largest value of a type."""

    type: TensorType
    largest: bool


@dataclass(frozen=True)
class Unchanged:
    """A value as it is."""

    type: TensorType


@dataclass(frozen=True)
class AddFloat:
    """A sum and the next float."""


@dataclass(frozen=True)
class DivideFloat:
    """A sum divided by a number; None for the sum itself."""

    divisor: float | None = None


@dataclass(frozen=True)
class Order:
    """The standard library's comparison of two elements."""

    type: TensorType
    greater: bool


Function = Clamp | Convert | Pick | PickNext | Limit | Unchanged | AddFloat | DivideFloat | Order
Operand = (
    int
    | bool
    | float
    | Double
    | Null
    | TensorAt
    | ConstantAt
    | AsInts
    | FirstOf
    | Scratch
    | AddressOf
    | Struct
    | Numbers
    | NoContext
    | Dims
    | Shape
    | RunDims
    | Function
    | RowOperand
)

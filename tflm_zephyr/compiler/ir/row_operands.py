# SPDX-License-Identifier: Apache-2.0
"""Operands of a call for some rows of a layer: numbers and structs that depend on which rows these are."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tflm_zephyr.compiler.ir.structs import ConstantAt, Struct, TensorAt


@dataclass(frozen=True)
class RowCount:
    """The rows that the call computes."""


@dataclass(frozen=True)
class RowTimes:
    """The number of things that these rows have, `each` of them."""

    each: int


@dataclass(frozen=True)
class WindowRows:
    """The input rows that the call reads."""


@dataclass(frozen=True)
class WindowPadding:
    """The rows of padding above these."""


class Side(Enum):
    """The tensor that a row operand is about."""

    INPUT = "input"
    OUTPUT = "output"
    BOTH = ""


@dataclass(frozen=True)
class RowDims:
    """CMSIS-NN's sizes of the rows: `rows` of `pixels` with `channels` each."""

    side: Side
    rows: RowCount | WindowRows
    pixels: int
    channels: int


@dataclass(frozen=True)
class RowShape:
    """TFLM's RuntimeShape of the rows, of four dimensions."""

    side: Side
    rows: RowCount | WindowRows
    pixels: int
    channels: int


@dataclass(frozen=True)
class RowElements:
    """The number of elements in the rows, `each` in a row."""

    each: int


@dataclass(frozen=True)
class FlatRowShape:
    """TFLM's RuntimeShape of the rows as one dimension, with `each` elements in a row."""

    each: int


@dataclass(frozen=True)
class RowEnd:
    """The place behind the rows' last element, with `each` elements in a row."""

    begin: TensorAt
    each: int


class Change(Enum):
    """How the parameters for some rows differ from those for the whole tensor."""

    PADDING = "the window's top padding"
    TURNED = "height and width swapped, and the window's top padding"
    PADDED = "the rows of padding above and below, of PAD"


@dataclass(frozen=True)
class RowParameters:
    """The parameters for some rows; `pointer`: their address."""

    struct: Struct
    change: Change
    pointer: bool


@dataclass(frozen=True)
class RowWeights:
    """The weights of the next row of a layer that gathers: `each` for a row."""

    array: ConstantAt
    each: int


@dataclass(frozen=True)
class Sums:
    """The sums of a layer that gathers."""


@dataclass(frozen=True)
class EachScaling:
    """A function from an output's number to its multiplier and shift: those of a struct's or of two arrays, or one."""

    of: Struct | tuple[ConstantAt, ConstantAt] | tuple[int, int]


RowOperand = (
    RowCount
    | RowTimes
    | WindowRows
    | WindowPadding
    | RowDims
    | RowShape
    | RowElements
    | FlatRowShape
    | RowEnd
    | RowParameters
    | RowWeights
    | Sums
    | EachScaling
)

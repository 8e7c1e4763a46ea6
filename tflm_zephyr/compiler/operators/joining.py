# SPDX-License-Identifier: Apache-2.0
"""CONCATENATION and PACK join tensors, SPLIT, SPLIT_V and UNPACK take them apart: copies of rows. SELECT combines two.

Sources: concatenation.cc, pack.cc, split.cc, split_v.cc, unpack.cc (tensorflow/lite/micro/kernels). From the axis on, a
row of the whole tensor is a row of each part, one behind the other. SELECT, which TFLM lacks, and SELECT_V2: select.cc
(tensorflow/lite/kernels).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from tflm_zephyr.compiler.copies import Rows, copy_rows, select_elements
from tflm_zephyr.compiler.layer_builder import LayerBuilder, axis_of, integers
from tflm_zephyr.compiler.lowering import Lowering
from tflm_zephyr.kernels import scale_of, zero_point_of
from tflm_zephyr.model import Tensor, TensorType


def _parts(b: LayerBuilder, whole: Tensor, parts: Sequence[Tensor], axis: int) -> Iterator[tuple[int, int, int, int]]:
    """(row of the whole, its rows, first byte in it, bytes of it) of each part, in bytes."""
    rows = math.prod(whole.shape[:axis])
    row = whole.size_bytes // rows if rows else 0
    if any(part.type is not whole.type or (rows and part.size_bytes % rows) for part in parts):
        raise b.refuse("has tensors of several types or shapes")
    sizes = [part.size_bytes // rows if rows else 0 for part in parts]
    if sum(sizes) != row:
        raise b.refuse("has shapes that do not fit each other")
    at = 0
    for size in sizes:
        yield row, rows, at, size
        at += size


def _join(b: LayerBuilder, axis: int, ranks: int) -> None:
    """Copy all inputs, of `ranks` dimensions, into the output."""
    node = b.node
    inputs = [node.input(place) for place in range(len(node.operator.inputs))]
    if any(len(tensor.shape) != ranks for tensor in inputs):
        raise b.refuse("joins tensors of several ranks")
    for place, (row, rows, at, size) in enumerate(_parts(b, node.output(), inputs, axis)):
        if size:
            copy_rows(b, Rows(place, 0, size), Rows(0, at, row), rows, size)


def _take_apart(b: LayerBuilder, place: int, axis: int) -> None:
    """Copy the parts of input `place` to the outputs."""
    node = b.node
    outputs = [node.output(number) for number in range(len(node.operator.outputs))]
    for number, (row, rows, at, size) in enumerate(_parts(b, node.input(place), outputs, axis)):
        if size:
            copy_rows(b, Rows(place, at, row), Rows(number, 0, size), rows, size)


def concatenation(b: LayerBuilder) -> None:
    """CONCATENATION, in any type."""
    rank = len(b.node.output().shape)
    if b.node.option("fused_activation_function"):
        raise b.refuse("has an activation, which TFLM does not take")
    given = [b.node.input(place) for place in range(len(b.node.operator.inputs))]
    scales = {(scale_of(tensor), zero_point_of(tensor)) for tensor in (*given, b.node.output())}
    if given[0].type is TensorType.UINT8 and len(scales) > 1:
        raise b.refuse("has tensors of uint8 in several scales")
    _join(b, axis_of(b, b.node.option("axis"), rank), rank)


def pack(b: LayerBuilder) -> None:
    """PACK, in any type."""
    rank = len(b.node.output().shape)
    _join(b, axis_of(b, b.node.option("axis"), rank), rank - 1)


def _single_axis(b: LayerBuilder, place: int, source: Tensor) -> int:
    values = integers(b, place)
    if len(values) != 1:
        raise b.refuse("has several axes")
    return axis_of(b, values[0], len(source.shape))


def split(b: LayerBuilder) -> None:
    """SPLIT: (axis, value), in any type."""
    _take_apart(b, 1, _single_axis(b, 0, b.node.input(1)))


def split_v(b: LayerBuilder) -> None:
    """SPLIT_V: (value, sizes, axis), in any type."""
    _take_apart(b, 0, _single_axis(b, 2, b.node.input(0)))


def unpack(b: LayerBuilder) -> None:
    """UNPACK, in any type."""
    _take_apart(b, 0, axis_of(b, b.node.option("axis"), len(b.node.input(0).shape)))


def _spread(b: LayerBuilder, place: int) -> list[int]:
    """Steps of an input from one index of each of the output's dimensions to the next, 0 where it is repeated."""
    shape, whole = b.node.input(place).shape, b.node.output().shape
    shape = (1,) * (len(whole) - len(shape)) + shape
    if len(shape) > len(whole) or any(size not in (1, most) for size, most in zip(shape, whole, strict=True)):
        raise b.refuse("has shapes that do not fit each other")
    return [0 if size == 1 else math.prod(shape[axis + 1 :]) for axis, size in enumerate(shape)]


def select(b: LayerBuilder) -> None:
    """SELECT and SELECT_V2, in any type; in the first one a condition of one dimension chooses whole rows."""
    condition, one, other, output = (*(b.node.input(place) for place in range(3)), b.node.output())
    if condition.type is not TensorType.BOOL or not one.type is other.type is output.type:
        raise b.refuse(f"has no direct code for {b.node.types}")
    rows = b.node.operator.key == "SELECT" and len(condition.shape) == 1 < len(output.shape)
    if rows and condition.shape != output.shape[:1]:
        raise b.refuse("has shapes that do not fit each other")
    chosen = [1] + [0] * (len(output.shape) - 1) if rows else _spread(b, 0)
    select_elements(b, (chosen, _spread(b, 1), _spread(b, 2)))


OPERATORS: Mapping[str, Lowering] = {
    "CONCATENATION": Lowering(concatenation, legacy=True),
    "PACK": Lowering(pack, legacy=True),
    **dict.fromkeys(("SELECT", "SELECT_V2"), Lowering(select)),
    "SPLIT": Lowering(split, legacy=True),
    "SPLIT_V": Lowering(split_v, legacy=True),
    "UNPACK": Lowering(unpack, legacy=True),
}

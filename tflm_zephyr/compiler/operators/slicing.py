# SPDX-License-Identifier: Apache-2.0
"""SLICE, STRIDED_SLICE, TRANSPOSE, TILE, REVERSE_V2: elements of the input in the order in which the output has them.

Sources: slice.cc, strided_slice_common.cc, transpose.cc (tensorflow/lite/micro/kernels). TFLM's SLICE and TRANSPOSE
go through the output in the same order; CMSIS-NN's TRANSPOSE scatters, with the same in-place distance. TILE and
REVERSE_V2, which TFLM lacks: tile.cc, reverse.cc (tensorflow/lite/kernels).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

from tflm_zephyr.compiler.copies import copy_elements
from tflm_zephyr.compiler.layer_builder import LayerBuilder, axis_of, integers
from tflm_zephyr.compiler.lowering import Lowering
from tflm_zephyr.kernels import AxisSlice, axis_slices


def _steps(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Elements from one index of each dimension to the next."""
    return tuple(math.prod(shape[place + 1 :]) for place in range(len(shape)))


def _check_type(b: LayerBuilder) -> None:
    if b.node.input(0).type is not b.node.output().type:
        raise b.refuse(f"has no direct code for {b.node.types}")


def _copy(b: LayerBuilder, axes: tuple[AxisSlice, ...]) -> None:
    steps = _steps(b.node.input(0).shape)
    if math.prod(axis.count for axis in axes) != b.node.output().elements:
        raise b.refuse("has an output of another size than its slice")
    first = sum(axis.start * step for axis, step in zip(axes, steps, strict=True))
    sizes = tuple(axis.count for axis in axes)
    strides = tuple(axis.step * step for axis, step in zip(axes, steps, strict=True))
    copy_elements(b, first, sizes, strides)


def slice_(b: LayerBuilder) -> None:
    """SLICE, in any type. A size of -1 goes to the end of its axis."""
    _check_type(b)
    shape, begins, sizes = b.node.input(0).shape, integers(b, 1), integers(b, 2)
    if not len(begins) == len(sizes) == len(shape):
        raise b.refuse("has begins or sizes of another number than dimensions")
    axes = tuple(
        AxisSlice(begin, 1, whole - begin if size == -1 else size)
        for begin, size, whole in zip(begins, sizes, shape, strict=True)
    )
    if any(
        axis.start < 0 or axis.count < 0 or axis.start + axis.count > whole
        for axis, whole in zip(axes, shape, strict=True)
    ):
        raise b.refuse("reaches out of its input")
    _copy(b, axes)


def strided_slice(b: LayerBuilder) -> None:
    """STRIDED_SLICE, in any type, of up to four dimensions."""
    _check_type(b)
    node = b.node
    rank = len(node.input(0).shape)
    begins, ends, strides = (integers(b, place) for place in (1, 2, 3))
    if not len(begins) == len(ends) == len(strides) == rank or rank > 4 or 0 in strides:
        raise b.refuse("has begins, ends or strides that TFLM does not take")
    if node.option("offset") or node.option("ellipsis_mask") or node.option("new_axis_mask"):
        raise b.refuse("has a mask that TFLM ignores")
    _copy(b, axis_slices(node, begins, ends, strides))


def transpose(b: LayerBuilder) -> None:
    """TRANSPOSE, in any type."""
    _check_type(b)
    shape, order = b.node.input(0).shape, integers(b, 1)
    if sorted(order) != list(range(len(shape))) or b.node.output().shape != tuple(shape[i] for i in order):
        raise b.refuse("has a permutation that does not fit its shapes")
    steps = _steps(shape)
    copy_elements(b, 0, [shape[i] for i in order], [steps[i] for i in order])


def reverse(b: LayerBuilder) -> None:
    """REVERSE_V2 along constant axes, in any type."""
    _check_type(b)
    shape = b.node.input(0).shape
    turned = {axis_of(b, axis, len(shape)) for axis in integers(b, 1)}
    axes = [AxisSlice(size - 1, -1, size) if i in turned else AxisSlice(0, 1, size) for i, size in enumerate(shape)]
    _copy(b, tuple(axes))


def tile(b: LayerBuilder) -> None:
    """TILE by constant multiples, in any type."""
    _check_type(b)
    shape, repeats = b.node.input(0).shape, integers(b, 1)
    wanted = tuple(size * count for size, count in zip(shape, repeats, strict=False))
    if len(repeats) != len(shape) or b.node.output().shape != wanted:
        raise b.refuse("has multiples that do not fit its shapes")
    loops = zip(repeats, itertools.repeat(0)), zip(shape, _steps(shape), strict=True)
    nested = [loop for pair in zip(*loops, strict=True) for loop in pair]
    copy_elements(b, 0, [size for size, _ in nested], [step for _, step in nested])


OPERATORS: Mapping[str, Lowering] = {
    "REVERSE_V2": Lowering(reverse),
    "SLICE": Lowering(slice_, legacy=True),
    "STRIDED_SLICE": Lowering(strided_slice, legacy=True),
    "TILE": Lowering(tile),
    "TRANSPOSE": Lowering(transpose, legacy=True),
}

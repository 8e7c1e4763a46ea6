# SPDX-License-Identifier: Apache-2.0
"""Operators that pad, cut out and overwrite boxes of elements.

Sources: pad.cc, pad_common.cc, mirror_pad.cc, slice.cc, strided_slice_common.cc, dynamic_update_slice.cc and
cmsis_nn/pad.cc (tensorflow/lite/micro/kernels); strided_slice_logic.h (tensorflow/lite/kernels/internal); CMSIS-NN
e9328d61, Source/PadFunctions/arm_pad_s8.c. From TFLM fcc760af on int8 PAD and PADV2 have a CMSIS-NN kernel,
STRIDED_SLICE wants constant begins, ends and strides, and DYNAMIC_UPDATE_SLICE is there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tflm_zephyr.kernels.core import Core
from tflm_zephyr.kernels.in_place.geometry import affine_lead
from tflm_zephyr.kernels.in_place.last_readers import numbers, place_of
from tflm_zephyr.kernels.in_place.rules import InPlaceDistance, at_distance, constants, steps
from tflm_zephyr.kernels.in_place.runs import COPY, Run
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.kernels.quantisation import check_constant
from tflm_zephyr.kernels.revisions import BEFORE_4_4, SINCE_4_4
from tflm_zephyr.kernels.spec import CmsisNn, Kernel, OperatorSpec, Specs, fixed, nothing, types
from tflm_zephyr.model import Tensor, TensorType

_INT = 4
_ARM_PAD_RANK = 4


def _mirror_scratch(node: Node, core: Core) -> tuple[int, ...]:
    return (len(node.input(0).shape) * _INT,) * 2


@dataclass(frozen=True)
class AxisSlice:
    """Elements start, start + step, ... of an axis, `count` of them."""

    start: int
    step: int
    count: int


def axis_slice(node: Node, axis: int, begin: int, end: int, step: int) -> AxisSlice:
    """The slice of one axis: StridedSliceStartForAxis() and StridedSliceEndForAxis() of strided_slice_logic.h."""
    size, bit = node.input(0).shape[axis], 1 << axis
    low, high = (0, size) if step > 0 else (-1, size - 1)

    def bounded(value: int) -> int:
        return min(max(value + (size if value < 0 else 0), low), high)

    start = bounded(begin)
    if node.option("begin_mask") & bit:
        start = 0 if step > 0 else size - 1
    stop = bounded(end)
    if node.option("end_mask") & bit:
        stop = size if step > 0 else -1
    if node.option("shrink_axis_mask") & bit:
        stop = start if start >= size else start + 1
    return AxisSlice(start, step, len(range(start, stop, step)))


def axis_slices(
    node: Node, begins: Sequence[int], ends: Sequence[int], strides: Sequence[int]
) -> tuple[AxisSlice, ...]:
    """The slices of all axes of a STRIDED_SLICE; one begin, end and stride, which is not 0, for each."""
    along = zip(begins, ends, strides, strict=True)
    return tuple(axis_slice(node, axis, *three) for axis, three in enumerate(along))


# In-place distances


def _pad_in_place(node: Node, core: Core) -> tuple[InPlaceDistance, ...]:
    """PAD, PADV2: reference/pad.h PadImpl.

    Loops over the output's dimensions in order; an element of the input is read when its place in the output comes.
    The last element has moved farthest: all padding before it counts.
    """
    widths = _widths(node)
    if widths is None:
        return ()
    source, element = node.input(0), node.input(0).type.size_bytes
    out_steps, in_steps = steps(node.output().shape, element), steps(source.shape, element)
    start = sum(before * step for (before, _), step in zip(widths, out_steps, strict=True))
    return at_distance(affine_lead(zip(source.shape, out_steps, in_steps, strict=True), start))


def _widths(node: Node) -> list[tuple[int, int]] | None:
    """Padding before and after each dimension; None where it is not constant or does not fit the shapes."""
    source, result, paddings = node.input(0), node.output(), constants(node.optional_input(1))
    rank = len(source.shape)
    if paddings is None or len(paddings) != 2 * rank or len(result.shape) != rank or not source.elements:
        return None
    widths = list(zip(paddings[::2], paddings[1::2], strict=True))
    if min(paddings, default=0) < 0 or result.shape != tuple(
        n + before + after for n, (before, after) in zip(source.shape, widths, strict=True)
    ):
        return None
    return widths


def _arm_pad_in_place(node: Node, core: Core) -> tuple[InPlaceDistance, ...]:
    """PAD, PADV2, int8 of four dimensions: arm_pad_s8.

    Loops: batch, row; a row is one memcpy when its pixels are not padded, else there is one a pixel. A memcpy's two
    sides must not overlap, so its own bytes count as written while its input is read.
    """
    source = node.input(0)
    if source.type is not TensorType.INT8:
        return _pad_in_place(node, core)
    widths = _widths(node)
    if widths is None or len(source.shape) != _ARM_PAD_RANK:
        return ()
    outer = 2 if widths[3] == (0, 0) else 3
    out_steps, in_steps = steps(node.output().shape, 1), steps(source.shape, 1)
    copied = in_steps[outer - 1]
    start = sum(before * step for (before, _), step in zip(widths, out_steps, strict=True))
    loops = list(zip(source.shape, out_steps, in_steps, strict=True))[:outer]
    return at_distance(affine_lead(loops, start + copied))


def _slice_in_place(node: Node, core: Core) -> tuple[InPlaceDistance, ...]:
    """SLICE: reference/slice.h, SequentialTensorWriter::Write.

    Loops over the output in order, one element at a time: the output may begin where the slice does in the input.
    """
    source, result, begin = node.input(0), node.output(), constants(node.optional_input(1))
    rank = len(source.shape)
    if begin is None or len(begin) != rank or len(result.shape) != rank or min(begin, default=0) < 0:
        return ()
    if any(start + count > size for start, count, size in zip(begin, result.shape, source.shape, strict=True)):
        return ()
    element = source.type.size_bytes
    out_steps, in_steps = steps(result.shape, element), steps(source.shape, element)
    start = sum(first * step for first, step in zip(begin, in_steps, strict=True))
    return at_distance(affine_lead(zip(result.shape, out_steps, in_steps, strict=True), -start))


def _strided_slice_in_place(node: Node, core: Core) -> tuple[InPlaceDistance, ...]:
    """STRIDED_SLICE: reference/strided_slice.h, SequentialTensorWriter::Write and WriteN.

    Loops over the output in order, one element at a time. With a last stride of 1 a row is one memcpy, whose own bytes
    count as written while its input is read.
    """
    axes, source = _slices(node), node.input(0)
    if axes is None:
        return ()
    element, counts = source.type.size_bytes, [axis.count for axis in axes]
    in_steps = steps(source.shape, element)
    moves = [axis.step * step for axis, step in zip(axes, in_steps, strict=True)]
    loops = list(zip(counts, steps(tuple(counts), element), moves, strict=True))
    start = -sum(axis.start * step for axis, step in zip(axes, in_steps, strict=True))
    if axes[-1].step == 1:
        return at_distance(affine_lead(loops[:-1], start + counts[-1] * element))
    return at_distance(affine_lead(loops, start))


def _slices(node: Node) -> tuple[AxisSlice, ...] | None:
    """The slices of all axes; None where they are not constant, do not fit the shapes or take nothing."""
    rank = len(node.input(0).shape)
    begins, ends, strides = (constants(node.optional_input(place)) for place in (1, 2, 3))
    if begins is None or ends is None or strides is None or not rank or 0 in strides:
        return None
    if not len(begins) == len(ends) == len(strides) == rank:
        return None
    axes = axis_slices(node, begins, ends, strides)
    count = math.prod(axis.count for axis in axes)
    return axes if count and count == node.output().elements else None


def _update_in_place(node: Node, core: Core) -> tuple[InPlaceDistance, ...]:
    """DYNAMIC_UPDATE_SLICE: dynamic_update_slice.cc EvalImpl.

    The operand is copied by one memcpy unless the output's pointer is the operand's, then the update is written there.
    """
    source, result = node.input(0), node.output()
    same = source.type is result.type and source.shape == result.shape
    return (InPlaceDistance(0, 0, None, in_place=True),) if same else ()


# Last reads, for the checker


def _pad_last_reads(node: Node, core: Core, place: int, output: int) -> Iterable[Run] | None:
    """A row of input is read while the output is written at its place."""
    given, before = node.input(0), _before(node)
    return None if place != 0 or before is None else _rows(given, given.shape, node.output().shape, before)


def _before(node: Node) -> list[int] | None:
    """Padding before each dimension; None when the shapes do not fit."""
    given, taken, table = node.input(0), node.output(), numbers(node.input(1))
    before = table[0::2]
    fits = [n + a + b for n, a, b in zip(given.shape, before, table[1::2], strict=True)] == list(taken.shape)
    return before if fits else None


def _arm_pad_last_reads(node: Node, core: Core, place: int, output: int) -> Iterable[Run] | None:
    """A block of input, a row or where pixels are padded a pixel, is read until its copy stands in the output."""
    given = node.input(place)
    if given.type is not TensorType.INT8:
        return _pad_last_reads(node, core, place, output)
    before = _before(node)
    if place != 0 or before is None or len(given.shape) != 4:
        return None
    taken = node.output().shape
    by_row = given.shape[3] == taken[3]
    block = given.shape[2] * given.shape[3] if by_row else given.shape[3]

    def runs() -> Iterator[Run]:
        for number in range(given.elements // block if block else 0):
            index = [0] * 4
            left = number * block
            for dimension in (3, 2, 1, 0):
                left, index[dimension] = divmod(left, given.shape[dimension])
            target = place_of([i + a for i, a in zip(index, before, strict=True)], taken)
            yield Run(number * block, block, 1, target + block, 0)

    return runs()


def _slice_last_reads(node: Node, core: Core, place: int, output: int) -> Iterable[Run] | None:
    """A row of output is written while the input is read at its place; what lies between the rows is not read."""
    given, taken, begin = node.input(0), node.output(), numbers(node.input(1))
    if place != 0 or any(b < 0 or b + m > n for b, m, n in zip(begin, taken.shape, given.shape, strict=True)):
        return None
    return _rows(given, taken.shape, taken.shape, [0] * len(begin), begin)


def _strided_slice_last_reads(node: Node, core: Core, place: int, output: int) -> Iterable[Run] | None:
    """An element of input is read while the output is written at its place; rows side by side are one copy each."""
    given = node.input(0)
    if place != 0:
        return None
    taken = [_taken(node, axis) for axis in range(len(given.shape))]
    size, last = given.type.size_bytes, taken[-1]
    row = len(last) * size

    def runs() -> Iterator[Run]:
        for number, index in enumerate(itertools.product(*taken[:-1])):
            source, target = place_of([*index, 0], given.shape) * size, number * row
            if last.step == 1:
                yield Run(source + last.start * size, row, 1, target + row, 0)
                continue
            for k, element in enumerate(last):
                yield Run(source + element * size, 1, size, target + k * size, 0)

    return runs()


def _taken(node: Node, axis: int) -> range:
    """The indices of an axis that STRIDED_SLICE takes; Python counts and bounds them as it does."""
    bit, size = 1 << axis, node.input(0).shape[axis]
    begin, end, stride = (numbers(node.input(which))[axis] for which in (1, 2, 3))
    begins = None if node.option("begin_mask") & bit else begin
    ends = None if node.option("end_mask") & bit else end
    taken = range(*slice(begins, ends, stride).indices(size))
    return range(taken.start, taken.start + 1, stride) if node.option("shrink_axis_mask") & bit else taken


def _rows(
    given: Tensor, shape: tuple[int, ...], out_shape: tuple[int, ...], at: Sequence[int], begin: Sequence[int] = ()
) -> Iterator[Run]:
    """A box of `shape`, element by element, from `begin` of the input to `at` of the output."""
    size, begin = given.type.size_bytes, begin or [0] * len(shape)
    for outer in itertools.product(*map(range, shape[:-1])):
        index = [*outer, 0]
        source = place_of([i + b for i, b in zip(index, begin, strict=True)], given.shape)
        target = place_of([i + a for i, a in zip(index, at, strict=True)], out_shape)
        yield Run(source * size, shape[-1], size, target * size, size)


def _update_last_reads(node: Node, core: Core, place: int, output: int) -> Iterable[Run] | None:
    """The operand is one memcpy, or stays; the update is read while the output is written."""
    return COPY if place == 0 else None


# CMSIS-NN and Prepare's checks


def _wrong_rank(node: Node, core: Core) -> str:
    """PadEvalInt8 in cmsis_nn/pad.cc reads four dimensions and paddings, however many the tensor has."""
    rank = len(node.input(0).shape)
    return "" if rank == _ARM_PAD_RANK else f"reads four dimensions of a tensor that has {rank}"


def _check_strided_slice(node: Node) -> None:
    check_constant(node, 1, 2, 3)


_PAD = OperatorSpec(
    Kernel(nothing, fixed(56), _pad_in_place, _pad_last_reads),
    types=types("i0 o0 i1 i2", "float32|int8|int16|int32 = int32 ="),
)
_PADS = (
    replace(_PAD, revisions=BEFORE_4_4),
    replace(
        _PAD,
        cmsis_nn=CmsisNn(
            Kernel(nothing, fixed(56), _arm_pad_in_place, _arm_pad_last_reads),
            {"INT8": "i0 int8 o0 int8"},
            miscomputes=_wrong_rank,
        ),
        revisions=SINCE_4_4,
    ),
)
_STRIDED_SLICE = OperatorSpec(
    Kernel(nothing, fixed(84), _strided_slice_in_place, _strided_slice_last_reads),
    types=types("o0 i0 i1 i2 i3", "float32|int8|int16|int32|bool = int32 int32 int32"),
    revisions=BEFORE_4_4,
    reads_positions=True,
)

OPERATORS: Mapping[str, Specs] = {
    "DYNAMIC_UPDATE_SLICE": (
        OperatorSpec(
            Kernel(nothing, nothing, _update_in_place, _update_last_reads),
            types=types("i0 i1 i2", "float32|int8|int16|int32 = int32|int64"),
            revisions=SINCE_4_4,
        ),
    ),
    "MIRROR_PAD": (OperatorSpec(Kernel(_mirror_scratch, fixed(20)), types=types("o0 i0", "float32|int8 =")),),
    "PAD": _PADS,
    "PADV2": _PADS,
    "SLICE": (
        OperatorSpec(
            Kernel(nothing, nothing, _slice_in_place, _slice_last_reads),
            types=types(
                "i0 i1 i2 o0",
                "float32|int32|int8|int16|bool int32 int32 =",
                "float32|int32|int8|int16|bool int64 int64 =",
            ),
            reads_positions=True,
        ),
    ),
    "STRIDED_SLICE": (
        _STRIDED_SLICE,
        replace(_STRIDED_SLICE, checks=(_check_strided_slice,), revisions=SINCE_4_4),
    ),
}

# SPDX-License-Identifier: Apache-2.0
"""The loops of TFLM's reference kernels (tensorflow/lite/kernels/internal/reference, 8d404de7), as traces."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tests.helpers.overlap_trace import Shapes, Trace, dense


def convolution(s: Shapes, t: Trace) -> None:
    """integer_ops/conv.h, conv.h."""
    filters, group_depth = s.out_depth // s.groups, s.depth // s.groups
    for b, y, x in s.pixels():
        for c in range(s.out_depth):
            group = c // filters
            for iy, ix in s.taps(y, x):
                for i in range(group_depth):
                    t.read(s.at(b, iy, ix, i + group * group_depth), s.element)
            t.write(s.out(b, y, x, c), s.element)


def depthwise(s: Shapes, t: Trace) -> None:
    """integer_ops/depthwise_conv.h, depthwiseconv_float.h."""
    for b, y, x in s.pixels():
        for i in range(s.depth):
            for m in range(s.multiplier):
                for iy, ix in s.taps(y, x):
                    t.read(s.at(b, iy, ix, i), s.element)
                t.write(s.out(b, y, x, m + i * s.multiplier), s.element)


def pool(s: Shapes, t: Trace) -> None:
    """integer_ops/pooling.h, pooling.h."""
    for b, y, x in s.pixels():
        for c in range(s.depth):
            for iy, ix in s.taps(y, x):
                t.read(s.at(b, iy, ix, c), s.element)
            t.write(s.out(b, y, x, c), s.element)


def fully_connected(batches: int, depth: int, out_depth: int, element: int) -> Trace:
    """integer_ops/fully_connected.h, fully_connected.h."""
    t = Trace(batches * depth * element, batches * out_depth * element)
    for b in range(batches):
        for c in range(out_depth):
            for d in range(depth):
                t.read((d + b * depth) * element, element)
            t.write((c + b * out_depth) * element, element)
    return t


def elementwise(count: int, in_element: int, out_element: int) -> Trace:
    """Any loop that reads element i and then writes it."""
    t = Trace(count * in_element, count * out_element)
    for i in range(count):
        t.read(i * in_element, in_element)
        t.write(i * out_element, out_element)
    return t


def broadcast(out_shape: Sequence[int], in_shape: Sequence[int], element: int) -> Trace:
    """Loops over the output's dimensions, an input dimension of 1 standing still."""
    steps = [step if size > 1 else 0 for step, size in zip(dense(in_shape), in_shape, strict=True)]
    t = Trace(_count(in_shape) * element, _count(out_shape) * element)
    for number, index in enumerate(itertools.product(*map(range, out_shape))):
        t.read(sum(i * step for i, step in zip(index, steps, strict=True)) * element, element)
        t.write(number * element, element)
    return t


def rows(outer: int, depth: int, in_element: int, out_element: int, passes: int) -> Trace:
    """softmax.h (2 passes before int8 writes; for float and int16 1, then output alone is read), log_softmax.h,
    l2normalization.h."""
    t = Trace(outer * depth * in_element, outer * depth * out_element)
    for i in range(outer):
        for _ in range(passes):
            for c in range(depth):
                t.read((i * depth + c) * in_element, in_element)
        for c in range(depth):
            t.read((i * depth + c) * in_element, in_element)
            t.write((i * depth + c) * out_element, out_element)
        for c in range(depth):
            t.write((i * depth + c) * out_element, out_element)
    return t


def concatenation(outer: int, pieces: Sequence[int], which: int, element: int) -> Trace:
    """concatenation.h, as input `which` sees it; `pieces` are elements of each input a turn."""
    t = Trace(outer * pieces[which] * element, outer * sum(pieces) * element)
    place = 0
    for k in range(outer):
        for number, piece in enumerate(pieces):
            if number == which:
                t.copy(k * piece * element, place, piece * element)
            else:
                t.write(place, piece * element)
            place += piece * element
    return t


def split(outer: int, pieces: Sequence[int], which: int, element: int) -> Trace:
    """split.cc, split_v.cc, as output `which` sees it."""
    t = Trace(outer * sum(pieces) * element, outer * pieces[which] * element)
    place = 0
    for k in range(outer):
        for number, piece in enumerate(pieces):
            for j in range(piece):
                t.read(place, element)
                if number == which:
                    t.write((k * piece + j) * element, element)
                place += element
    return t


def pad(shape: Sequence[int], paddings: Sequence[tuple[int, int]], element: int) -> Trace:
    """pad.h."""
    out_shape = [n + before + after for n, (before, after) in zip(shape, paddings, strict=True)]
    t = Trace(_count(shape) * element, _count(out_shape) * element)
    place = 0
    for number, index in enumerate(itertools.product(*map(range, out_shape))):
        if all(before <= i < before + n for i, n, (before, _) in zip(index, shape, paddings, strict=True)):
            t.read(place, element)
            place += element
        t.write(number * element, element)
    return t


def take_slice(shape: Sequence[int], begin: Sequence[int], size: Sequence[int], element: int) -> Trace:
    """slice.h."""
    t = Trace(_count(shape) * element, _count(size) * element)
    for number, index in enumerate(itertools.product(*map(range, size))):
        place = sum((b + i) * step for b, i, step in zip(begin, index, dense(shape), strict=True))
        t.read(place * element, element)
        t.write(number * element, element)
    return t


def strided_slice(
    shape: Sequence[int], begin: Sequence[int], stride: Sequence[int], size: Sequence[int], element: int
) -> Trace:
    """strided_slice.h; `size` elements of each axis, a row at once where they lie side by side."""
    t = Trace(_count(shape) * element, _count(size) * element)
    row = size[-1] * element
    for number, index in enumerate(itertools.product(*map(range, size))):
        place = sum((b + i * s) * step for b, i, s, step in zip(begin, index, stride, dense(shape), strict=True))
        if stride[-1] != 1:
            t.read(place * element, element)
            t.write(number * element, element)
        elif index[-1] == 0:
            t.copy(place * element, number * element, row)
    return t


def transpose(shape: Sequence[int], order: Sequence[int], element: int) -> Trace:
    """transpose.h."""
    t = Trace(_count(shape) * element, _count(shape) * element)
    steps = [dense(shape)[i] for i in order]
    for number, index in enumerate(itertools.product(*(range(shape[i]) for i in order))):
        t.read(sum(i * step for i, step in zip(index, steps, strict=True)) * element, element)
        t.write(number * element, element)
    return t


def copy_pixels(batch: int, size: tuple[int, int], sources: Sequence[Sequence[int]], pixel: int) -> Trace:
    """resize_nearest_neighbor.h, with the source row and column of every output row and column."""
    t = Trace(batch * size[0] * size[1] * pixel, batch * len(sources[0]) * len(sources[1]) * pixel)
    target = 0
    for b in range(batch):
        for y, x in itertools.product(*sources):
            t.copy(((b * size[0] + y) * size[1] + x) * pixel, target, pixel)
            target += pixel
    return t


def _count(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count

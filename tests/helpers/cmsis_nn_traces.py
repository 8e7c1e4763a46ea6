# SPDX-License-Identifier: Apache-2.0
"""The loops of CMSIS-NN's functions on a plain core, with DSP and with Helium, as traces.

Those of e9328d61, which are the same at e096196a, the CMSIS-NN that TFLM fcc760af names.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from tests.helpers.overlap_trace import Shapes, Trace, dense

PLAIN, DSP, MVE = "plain", "dsp", "mve"


def _whole_window(s: Shapes, t: Trace, b: int, y: int, x: int, first: int = 0, count: int | None = None) -> None:
    for iy, ix in s.taps(y, x):
        t.read(s.at(b, iy, ix, first), (s.depth if count is None else count) * s.element)


def convolve_s8(s: Shapes, t: Trace, core: str) -> None:
    """arm_convolve_s8.c: windows are copied; every 2 (Helium: 4) of them are multiplied, and what is left at the end
    of a batch's group."""
    together = 4 if core == MVE else 2
    waiting: list[tuple[int, int, int]] = []
    filters, group_depth = s.out_depth // s.groups, s.depth // s.groups

    def flush(group: int) -> None:
        for c in range(filters):
            for b, y, x in waiting:
                t.write(s.out(b, y, x, c + group * filters))
        waiting.clear()

    for batch in range(s.batch):
        for group in range(s.groups):
            for b, y, x in s.pixels():
                if b != batch:
                    continue
                for iy, ix in s.taps(y, x):
                    t.read(s.at(b, iy, ix, group * group_depth), group_depth)
                waiting.append((b, y, x))
                if len(waiting) == together:
                    flush(group)
            flush(group)


def _mat_mult_nt_t_s8(s: Shapes, t: Trace, core: str, rows: list[tuple[int, int]]) -> None:
    """arm_nn_mat_mult_nt_t_s8.c over rows of (input byte, output byte)."""
    if core != MVE:
        for channel in range(0, s.out_depth - 1, 2):
            for first in range(0, len(rows), 2):
                pair = rows[first : first + 2]
                for source, _ in pair:
                    t.read(source, s.depth)
                for _, target in pair:
                    t.write(target + channel, 2)
        if s.out_depth % 2:
            for source, target in rows:
                t.read(source, s.depth)
                t.write(target + s.out_depth - 1)
        return
    whole = len(rows) // 4 * 4
    for first in range(0, whole, 4):
        for channel in range(s.out_depth):
            for source, _ in rows[first : first + 4]:
                t.read(source, s.depth)
            for _, target in rows[first : first + 4]:
                t.write(target + channel)
    for source, target in rows[whole:]:
        for channel in range(s.out_depth):
            t.read(source, s.depth)
            if channel % 4 == 3:
                t.write(target + channel - 3, 4)
        t.write(target + s.out_depth // 4 * 4, s.out_depth % 4)


def convolve_1x1_s8_fast(s: Shapes, t: Trace, core: str) -> None:
    """arm_convolve_1x1_s8_fast.c: one product of all pixels."""
    _mat_mult_nt_t_s8(s, t, core, [(s.at(b, y, x, 0), s.out(b, y, x, 0)) for b, y, x in s.pixels()])


def convolve_1x1_s8(s: Shapes, t: Trace, core: str) -> None:
    """arm_convolve_1x1_s8.c: a product for each row of the output."""
    for b in range(s.batch):
        for y in range(s.out_size[0]):
            row = range(s.out_size[1])
            rows = [(s.at(b, y * s.stride[0], x * s.stride[1], 0), s.out(b, y, x, 0)) for x in row]
            _mat_mult_nt_t_s8(s, t, core, rows)


def depthwise(s: Shapes, t: Trace, core: str) -> None:
    """arm_depthwise_conv_wrapper_s8.c and the functions that it takes."""
    if s.multiplier == 1 and s.batch == 1 and s.dilation == (1, 1):
        if core != MVE and s.window == (3, 3) and max(s.padding) <= 1:
            _depthwise_3x3(s, t)
            return
        if core != PLAIN:
            _depthwise_opt(s, t, core)
            return
    if s.multiplier % 4 == 0 and s.batch == 1 and s.dilation == (1, 1):
        _depthwise_tiles(s, t)
    else:
        for b, y, x in s.pixels():
            for i in range(s.depth):
                for m in range(s.multiplier):
                    _whole_window(s, t, b, y, x, i, 1)
                    t.write(s.out(b, y, x, m + i * s.multiplier))


def _depthwise_3x3(s: Shapes, t: Trace) -> None:
    for b, y, x in s.pixels():
        for first, count in _blocks(s.depth // 4 * 4, 4):
            _whole_window(s, t, b, y, x, first, count)
            t.write(s.out(b, y, x, first), count)
        for c in range(s.depth // 4 * 4, s.depth):
            _whole_window(s, t, b, y, x, c, 1)
            t.write(s.out(b, y, x, c))


def _depthwise_tiles(s: Shapes, t: Trace) -> None:
    for b, y, x in s.pixels():
        for i in range(s.depth):
            for tile in range(0, s.multiplier, 4):
                _whole_window(s, t, b, y, x, i, 1)
                t.write(s.out(b, y, x, i * s.multiplier + tile), 4)


def _depthwise_opt(s: Shapes, t: Trace, core: str) -> None:
    together, width = (4, 124) if core == MVE else (1, s.depth)
    for first, count in _blocks(s.depth, width):
        waiting: list[tuple[int, int, int]] = []
        for b, y, x in s.pixels():
            _whole_window(s, t, b, y, x, first, count)
            waiting.append((b, y, x))
            if len(waiting) == together:
                for pixel in waiting:
                    t.write(s.out(*pixel, first), count)
                waiting.clear()
        for pixel in waiting:
            t.write(s.out(*pixel, first), count)


def average_pool(s: Shapes, t: Trace, core: str) -> None:
    """arm_avgpool_s8.c, arm_avgpool_s16.c."""
    width = {PLAIN: 1, DSP: s.depth, MVE: 16 // s.element}[core]
    for b, y, x in s.pixels():
        for first, count in _blocks(s.depth, width):
            _whole_window(s, t, b, y, x, first, count)
            t.write(s.out(b, y, x, first), count * s.element)


def max_pool(s: Shapes, t: Trace, core: str) -> None:
    """arm_max_pool_s8.c, arm_max_pool_s16.c; the same order on every core."""
    size, pixels = s.depth * s.element, list(s.pixels())
    for batch in range(s.batch):
        mine = [pixel for pixel in pixels if pixel[0] == batch]
        for b, y, x in mine:
            for number, (iy, ix) in enumerate(s.taps(y, x)):
                if number == 0:
                    t.copy(s.at(b, iy, ix, 0), s.out(b, y, x, 0), size)
                else:
                    t.read(s.at(b, iy, ix, 0), size)
                    t.write(s.out(b, y, x, 0), size)
        for pixel in mine:
            t.write(s.out(*pixel, 0), size)


def blockwise(count: int, width: int, element: int) -> Trace:
    """arm_elementwise_add_s8.c and its like: `width` elements are read, then written."""
    t = Trace(count * element, count * element)
    for first, some in _blocks(count, width):
        t.read(first * element, some * element)
        t.write(first * element, some * element)
    return t


def softmax(rows: int, depth: int, width: int, out_element: int) -> Trace:
    """arm_nn_softmax_common_s8.c (width 1), arm_softmax_s8.c with Helium (width 4)."""
    t = Trace(rows * depth, rows * depth * out_element)
    for row in range(rows):
        for _ in range(2):
            t.read(row * depth, depth)
        for first, some in _blocks(depth, width):
            t.read(row * depth + first, some)
            t.write((row * depth + first) * out_element, some * out_element)
    return t


def pad_s8(shape: Sequence[int], paddings: Sequence[tuple[int, int]]) -> Trace:
    """arm_pad_s8.c over four dimensions."""
    out = [n + before + after for n, (before, after) in zip(shape, paddings, strict=True)]
    t = Trace(shape[0] * dense(shape)[0], out[0] * dense(out)[0])
    source = target = 0

    def fill(count: int) -> None:
        nonlocal target
        t.write(target, count)
        target += count

    def copy(count: int) -> None:
        nonlocal source, target
        t.copy(source, target, count)
        source, target = source + count, target + count

    (batch, rows, columns, depth), steps = shape, dense(out)
    fill(steps[0] * paddings[0][0])
    for _ in range(batch):
        fill(steps[1] * paddings[1][0])
        for _ in range(rows):
            fill(steps[2] * paddings[2][0])
            if depth == out[3]:
                copy(columns * depth)
            else:
                for _ in range(columns):
                    fill(paddings[3][0])
                    copy(depth)
                    fill(paddings[3][1])
            fill(steps[2] * paddings[2][1])
        fill(steps[1] * paddings[1][1])
    fill(steps[0] * paddings[0][1])
    return t


def transpose_s8(shape: Sequence[int], order: Sequence[int], core: str) -> Trace:
    """arm_transpose_s8.c of two to four dimensions."""
    t = Trace(shape[0] * dense(shape)[0], shape[0] * dense(shape)[0])
    steps = dense([shape[i] for i in order])
    if core == MVE and (len(shape) == 2 or (len(shape) == 4 and list(order[:2]) == [0, 1])):
        rows, columns = shape[-2:]
        for image in range(0, len(t.last_read), rows * columns):  # arm_transpose_s8_nhcw with Helium
            for column in range(columns):
                for first, count in _blocks(rows, 8):
                    for row in range(first, first + count):
                        t.read(image + row * columns + column)
                    t.write(image + column * rows + first, count)
        return t
    for number, index in enumerate(itertools.product(*map(range, shape))):
        t.read(number)
        t.write(sum(index[order[i]] * steps[i] for i in range(len(shape))))
    return t


def _blocks(count: int, width: int) -> Iterator[tuple[int, int]]:
    for first in range(0, count, width):
        yield first, min(width, count - first)

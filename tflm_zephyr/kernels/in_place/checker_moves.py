# SPDX-License-Identifier: Apache-2.0
"""For the checker of overlap: when the kernels that only move elements have read each of them."""

from __future__ import annotations

import itertools
import math
from array import array
from collections.abc import Iterable, Iterator

from tflm_zephyr.kernels.in_place.runs import COPY, Run
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.model import Tensor, TensorType


def _numbers(tensor: Tensor | None) -> list[int]:
    """A constant's integers; ValueError for anything else."""
    widths = {TensorType.INT32: 4, TensorType.INT64: 8}
    if tensor is None or tensor.data is None or tensor.type not in widths:
        raise ValueError("not a constant of integers")
    width = widths[tensor.type]
    whole = tensor.data[: tensor.elements * width]
    return [int.from_bytes(whole[i : i + width], "little", signed=True) for i in range(0, len(whole), width)]


def copy(node: Node, place: int, output: int) -> Iterable[Run] | None:
    """RESHAPE, SQUEEZE: one memcpy."""
    return COPY if place == 0 else None


def concatenation(node: Node, place: int, output: int) -> Iterable[Run] | None:
    """Each turn copies a piece of every input; a piece is read until it is copied."""
    taken, inputs = node.output(), [node.input(i) for i in range(len(node.operator.inputs))]
    axis = node.option("axis") % len(taken.shape)
    size = taken.type.size_bytes
    pieces = [math.prod(tensor.shape[axis:]) * size for tensor in inputs]
    turn = sum(pieces)
    end = sum(pieces[: place + 1])
    turns, rest = divmod(taken.size_bytes, turn)
    if rest or turns * pieces[place] != inputs[place].size_bytes:
        return None
    return (Run(k * pieces[place], pieces[place], 1, k * turn + end, 0) for k in range(turns))


def split(node: Node, place: int, output: int) -> Iterable[Run] | None:
    """SPLIT: (axis, value)."""
    return _split(node, output, _numbers(node.input(0))[0]) if place == 1 else None


def split_v(node: Node, place: int, output: int) -> Iterable[Run] | None:
    """SPLIT_V: (value, sizes, axis)."""
    return _split(node, output, _numbers(node.input(2))[0]) if place == 0 else None


def _split(node: Node, output: int, axis: int) -> Iterable[Run] | None:
    """The input is read from front to back; meanwhile the output grows only during its own piece of each turn."""
    given = node.input(1 if node.operator.key == "SPLIT" else 0)
    outputs = [node.output(i) for i in range(len(node.operator.outputs))]
    axis %= len(given.shape)
    size = given.type.size_bytes
    pieces = [math.prod(tensor.shape[axis:]) * size for tensor in outputs]
    turn, before, own = sum(pieces), sum(pieces[:output]), pieces[output]
    if math.prod(given.shape[axis:]) * size != turn:
        return None

    def runs() -> Iterator[Run]:
        for k in range(given.size_bytes // turn):
            yield Run(k * turn, before, 1, k * own, 0)
            yield Run(k * turn + before, own // size, size, k * own, size)
            yield Run(k * turn + before + own, turn - before - own, 1, (k + 1) * own, 0)

    return runs()


def pad(node: Node, place: int, output: int) -> Iterable[Run] | None:
    """A row of input is read while the output is written at its place."""
    given, taken, table = node.input(0), node.output(), _numbers(node.input(1))
    before = table[0::2]
    if place != 0 or [n + a + b for n, a, b in zip(given.shape, before, table[1::2], strict=True)] != list(taken.shape):
        return None
    return _rows(given, given.shape, taken.shape, before)


def take_slice(node: Node, place: int, output: int) -> Iterable[Run] | None:
    """A row of output is written while the input is read at its place; what lies between the rows is not read."""
    given, taken, begin = node.input(0), node.output(), _numbers(node.input(1))
    if place != 0 or any(b < 0 or b + m > n for b, m, n in zip(begin, taken.shape, given.shape, strict=True)):
        return None
    return _rows(given, taken.shape, taken.shape, [0] * len(begin), begin)


def _rows(
    given: Tensor, shape: tuple[int, ...], out_shape: tuple[int, ...], at: list[int], begin: list[int] | None = None
) -> Iterator[Run]:
    """A box of `shape`, element by element, from `begin` of the input to `at` of the output."""
    size, begin = given.type.size_bytes, begin or [0] * len(shape)
    for outer in itertools.product(*map(range, shape[:-1])):
        index = [*outer, 0]
        source = _place([i + b for i, b in zip(index, begin, strict=True)], given.shape)
        target = _place([i + a for i, a in zip(index, at, strict=True)], out_shape)
        yield Run(source * size, shape[-1], size, target * size, size)


def _place(index: list[int], shape: tuple[int, ...]) -> int:
    place = 0
    for i, n in zip(index, shape, strict=True):
        place = place * n + i
    return place


def transpose(node: Node, place: int, output: int) -> Iterable[Run] | None:
    """The output is written in order; each element of the input is read for the one place that it goes to."""
    given, taken, order = node.input(0), node.output(), _numbers(node.input(1))
    if place != 0 or tuple(given.shape[i] for i in order) != taken.shape or len(set(order)) != len(given.shape):
        return None
    size, inverse = given.type.size_bytes, [order.index(i) for i in range(len(order))]

    def runs() -> Iterator[Run]:
        for number, index in enumerate(itertools.product(*map(range, given.shape))):
            moved = [0] * len(index)
            for dimension, i in enumerate(index):
                moved[inverse[dimension]] = i
            yield Run(number * size, 1, size, _place(moved, taken.shape) * size, 0)

    return runs()


def resize_nearest(node: Node, place: int, output: int) -> Iterable[Run] | None:
    """A pixel of input is read until the last pixel of output that is copied from it is there."""
    given, taken = node.input(0), node.output()
    batches, height, width, depth = given.shape
    _, out_height, out_width, _ = taken.shape
    if place != 0 or taken.shape[0] != batches or taken.shape[3] != depth:
        return None
    pixel = depth * given.type.size_bytes
    corners, half = bool(node.option("align_corners")), bool(node.option("half_pixel_centers"))
    rows, columns = _last_copies(height, out_height, corners, half), _last_copies(width, out_width, corners, half)

    def runs() -> Iterator[Run]:
        for b, (y, down), (x, across) in itertools.product(range(batches), rows.items(), columns.items()):
            reader = (b * out_height + down) * out_width + across
            yield Run(((b * height + y) * width + x) * pixel, pixel, 1, (reader + 1) * pixel, 0)

    return runs()


def _last_copies(size: int, outputs: int, corners: bool, half: bool) -> dict[int, int]:
    """The last output index that is copied from each input index (GetNearestNeighbor, whose floats are 32 bits)."""
    whole, parts = (size - 1, outputs - 1) if corners and outputs > 1 else (size, outputs)
    scale = array("f", [whole / parts])[0]
    found = {}
    for index in range(outputs):
        place = array("f", [(index + half / 2) * scale])[0]
        nearest = int(place + 0.5) if corners else int(place)
        found[min(nearest, size - 1)] = index
    return found

# SPDX-License-Identifier: Apache-2.0
"""Overlap of the reference kernels that move elements without changing them (tflite-micro 8d404de7)."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping

from tflm_zephyr.kernels.in_place.geometry import affine_lead
from tflm_zephyr.kernels.in_place.rules import InPlaceDistance, Rule, at_distance, constants, steps
from tflm_zephyr.kernels.node import Node

_MOST_DIMENSIONS = 6
_MOST_PIXELS = 1 << 16  # along one axis of an image


def table() -> Mapping[str, Rule]:
    """The rules by operator key."""
    return {
        "CONCATENATION": concatenation,
        "PAD": pad,
        "PADV2": pad,
        "RESIZE_NEAREST_NEIGHBOR": resize_nearest,
        "SLICE": take_slice,
        "SPLIT": lambda node: split(node, value=1, axis=0),
        "SPLIT_V": lambda node: split(node, value=0, axis=2),
        "TRANSPOSE": transpose,
    }


def concatenation(node: Node) -> tuple[InPlaceDistance, ...]:
    """CONCATENATION: reference/concatenation.h.

    For each of the outer indices, one memcpy from every input in turn. The two sides of a memcpy must not overlap,
    so its own bytes count as written: input i, with p bytes of a turn before it, n of its own and t in all, is at
    k * t + p + n against k * n in turn k.
    """
    result, inputs = node.output(), [node.input(place) for place in range(len(node.operator.inputs))]
    rank, axis = len(result.shape), node.option("axis")
    axis += rank if axis < 0 else 0
    if not 0 <= axis < rank or any(len(tensor.shape) != rank for tensor in inputs):
        return ()
    outer = math.prod(result.shape[:axis])
    turns = [math.prod(tensor.shape[axis:]) * tensor.type.size_bytes for tensor in inputs]
    total, before = sum(turns), 0
    found: list[InPlaceDistance] = []
    if outer * total != result.size_bytes:
        return ()
    for place, turn in enumerate(turns):
        before += turn
        found += at_distance(affine_lead([(outer, total, turn)], before), place)
    return tuple(found)


def pad(node: Node) -> tuple[InPlaceDistance, ...]:
    """PAD, PADV2: reference/pad.h PadImpl.

    Loops over the output's dimensions in order; an element of the input is read when its place in the output comes.
    The last element has moved farthest: all padding before it counts.
    """
    source, result, paddings = node.input(0), node.output(), constants(node.optional_input(1))
    rank = len(source.shape)
    if paddings is None or len(paddings) != 2 * rank or len(result.shape) != rank or not source.elements:
        return ()
    widths = list(zip(paddings[::2], paddings[1::2], strict=True))
    if min(paddings, default=0) < 0 or result.shape != tuple(
        n + before + after for n, (before, after) in zip(source.shape, widths, strict=True)
    ):
        return ()
    element = source.type.size_bytes
    out_steps, in_steps = steps(result.shape, element), steps(source.shape, element)
    start = sum(before * step for (before, _), step in zip(widths, out_steps, strict=True))
    return at_distance(affine_lead(zip(source.shape, out_steps, in_steps, strict=True), start))


def take_slice(node: Node) -> tuple[InPlaceDistance, ...]:
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


def split(node: Node, *, value: int, axis: int) -> tuple[InPlaceDistance, ...]:
    """SPLIT, SPLIT_V: split.cc, split_v.cc SplitImpl.

    The input is read once from front to back, its pieces go to the outputs in turn. Output i is written no farther
    than what was read of its own pieces, so it may begin where its first piece does. (The outputs may not overlap
    each other, but each bounds only what the input still has to give.)
    """
    source, axes = node.input(value), constants(node.optional_input(axis))
    rank = len(source.shape)
    dimension = axes[0] if axes is not None and len(axes) == 1 else rank
    dimension += rank if dimension < 0 else 0
    if not 0 <= dimension < rank:
        return ()
    outputs = [node.output(number) for number in range(len(node.operator.outputs))]
    if any(len(tensor.shape) != rank for tensor in outputs):
        return ()
    pieces = [math.prod(tensor.shape[dimension:]) * source.type.size_bytes for tensor in outputs]
    if sum(pieces) != math.prod(source.shape[dimension:]) * source.type.size_bytes:
        return ()
    return tuple(InPlaceDistance(value, number, -sum(pieces[:number])) for number in range(len(pieces)))


def transpose(node: Node) -> tuple[InPlaceDistance, ...]:
    """TRANSPOSE: reference/transpose.h TransposeImpl.

    Recursion over the output's dimensions in order, one element at a time, read at the permuted step.
    """
    source, result, order = node.input(0), node.output(), constants(node.optional_input(1))
    rank = len(source.shape)
    if order is None or rank > _MOST_DIMENSIONS or sorted(order) != list(range(rank)):
        return ()
    if result.shape != tuple(source.shape[i] for i in order):
        return ()
    element = source.type.size_bytes
    in_steps = steps(source.shape, element)
    loops = zip(result.shape, steps(result.shape, element), (in_steps[i] for i in order), strict=True)
    return at_distance(affine_lead(loops))


def resize_nearest(node: Node) -> tuple[InPlaceDistance, ...]:
    """RESIZE_NEAREST_NEIGHBOR: reference/resize_nearest_neighbor.h.

    Loops: batch, y, x, then one memcpy of a pixel, whose own bytes count as written. A pixel's place in the output
    and that of its source are sums of a part for each loop.
    """
    source, result = node.input(0), node.output()
    if len(source.shape) != 4 or len(result.shape) != 4 or max(*source.shape[1:3], *result.shape[1:3]) > _MOST_PIXELS:
        return ()
    if (source.shape[0], source.shape[3]) != (result.shape[0], result.shape[3]) or not result.elements:
        return ()
    element = source.type.size_bytes
    out_steps, in_steps = steps(result.shape, element), steps(source.shape, element)
    lead = affine_lead([(source.shape[0], out_steps[0], in_steps[0])])
    for axis in (1, 2):
        sizes = source.shape[axis], result.shape[axis]
        lead += max(i * out_steps[axis] - _nearest(node, i, *sizes) * in_steps[axis] for i in range(sizes[1]))
    return at_distance(lead + out_steps[2])


def _nearest(node: Node, index: int, in_size: int, out_size: int) -> int:
    """GetNearestNeighbor, in single precision as there."""
    corners, half = bool(node.option("align_corners")), bool(node.option("half_pixel_centers"))
    scale = _single((in_size - 1) / (out_size - 1)) if corners and out_size > 1 else _single(in_size / out_size)
    place = _single((index + (0.5 if half else 0.0)) * scale)
    return max(0, min(math.floor(place + 0.5 if corners else place), in_size - 1))


def _single(value: float) -> float:
    single: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return single

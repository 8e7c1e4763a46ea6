# SPDX-License-Identifier: Apache-2.0
"""Counts of TFLM's operators that a library computes by functions of its own choice: "MAX_POOL_2D int8"."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tflm_zephyr.costs.shapes import Shape

Counts = dict[str, int]


def operator_counts(shape: Shape) -> Counts:
    """The counts of an operator by its name, and for all others those of elements."""
    key, _, types = shape.kernel.partition(" ")
    if key in _WINDOWED and types.startswith("int8") and shape.pixels > 0:
        return {**_COUNTS[key](shape), **_blocks(shape)}
    return _COUNTS.get(key, _elements)(shape)


def _products(s: Shape) -> Counts:
    """The reference loops: a check for each tap's pixel, a product for each inside of the image."""
    inside = s.inside * s.channels * (1 if s.depthwise else s.depth)
    return {
        "rows": s.out_height,
        "pixels": s.pixels,
        "outputs": s.outputs,
        "window rows": s.outputs * s.high,
        "windows": s.outputs * s.high * s.wide,
        "pixels inside": s.inside * s.channels,
        "taps inside": inside,
    }


def _blocks(s: Shape) -> Counts:
    """Counts of CMSIS-NN's loops besides: pixels are gathered, two pixels and four channels go together."""
    return {
        "window pixels": s.pixels * s.high * s.wide,
        "window taps": s.pixels * s.taps,
        "odd pixels' taps": s.pixels % 2 * s.channels * s.taps,
        "last taps": s.outputs * (s.taps % 4),
    }


def _dense(s: Shape) -> Counts:
    return {"rows": s.pixels, "outputs": s.outputs, "taps": s.outputs * s.taps, "last taps": s.outputs * (s.taps % 4)}


def _pool(s: Shape) -> Counts:
    return {
        "rows": s.out_height,
        "pixels": s.pixels,
        "outputs": s.outputs,
        "pixels inside": s.inside,
        "taps inside": s.inside * s.channels,
        "last channels": s.inside * (s.channels % 16 if s.channels % 4 else s.channels % 4),
    }


def _rows(s: Shape) -> Counts:
    return {"rows": s.pixels, "elements": s.outputs}


def _reduced(s: Shape) -> Counts:
    """The reference loops step through the index of each element, whose dimensions are `width`."""
    return {"elements": s.depth, "dimensions": s.depth * s.width, "outputs": s.channels}


def _elements(s: Shape) -> Counts:
    return {"elements": s.channels, "last elements": s.channels % 4}


def _moved(s: Shape) -> Counts:
    """Runs of elements that lie together, `width` of them."""
    return {"runs": s.width, "elements": s.channels}


def _moved_bytes(s: Shape) -> Counts:
    return {"elements": s.channels}


def _nothing(_: Shape) -> Counts:
    return {}


_WINDOWED = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D"})
_COUNTS: Mapping[str, Callable[[Shape], Counts]] = {
    "ARG_MAX": _reduced,
    "ARG_MIN": _reduced,
    "AVERAGE_POOL_2D": _pool,
    "CONCATENATION": _moved,
    "CONV_2D": _products,
    "DEPTHWISE_CONV_2D": _products,
    "FULLY_CONNECTED": _dense,
    "Eval": _nothing,
    "Invoke": _nothing,
    "LOG_SOFTMAX": _rows,
    "MAX_POOL_2D": _pool,
    "MEAN": _reduced,
    "PAD": _moved,
    "PADV2": _moved,
    "REDUCE_MAX": _reduced,
    "RESIZE_NEAREST_NEIGHBOR": _moved,
    "RowBytes": _moved_bytes,
    "RowStep": _nothing,
    "SOFTMAX": _rows,
    "SUM": _reduced,
    "TRANSPOSE": _elements,
    "TRANSPOSE_CONV": _products,
}

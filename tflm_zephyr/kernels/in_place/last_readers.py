# SPDX-License-Identifier: Apache-2.0
"""For the checker: which output pixel reads each input pixel last, and constants of integers.

The rules of in-place distances use none of this."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tflm_zephyr.kernels.core import Core
from tflm_zephyr.kernels.in_place.runs import Run
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.model import Tensor, TensorType

_VALID = 1


@dataclass(frozen=True)
class WindowImage:
    """The shapes of a window operator with, for each input row and column, the last output row and column to read it.

    -1 for rows and columns that nobody reads.
    """

    batches: int
    rows: list[int]
    columns: list[int]
    out_size: tuple[int, int]
    depth: int
    out_depth: int
    element: int

    def pixels(self) -> Iterator[tuple[int, int]]:
        """(first byte of an input pixel, number of the output pixel that reads it last)."""
        place = 0
        for batch in range(self.batches):
            for y in self.rows:
                for x in self.columns:
                    if y >= 0 and x >= 0:
                        yield place, (batch * self.out_size[0] + y) * self.out_size[1] + x
                    place += self.depth * self.element


def _last(size: int, outputs: int, window: int, stride: int, dilation: int, padding: int) -> list[int]:
    """The last output index that reads each index along one axis.

    Padding SAME puts half of the padding before the data, VALID none.
    """
    missing = 0 if padding == _VALID else max(0, (outputs - 1) * stride + (window - 1) * dilation + 1 - size)
    found = [-1] * size
    for output in range(outputs):
        begin = output * stride - missing // 2
        for tap in range(begin, begin + (window - 1) * dilation + 1, dilation):
            if 0 <= tap < size:
                found[tap] = output
    return found


def _image(node: Node, window: tuple[int, int], dilation: tuple[int, int]) -> WindowImage:
    """ValueError for other than four dimensions."""
    given, taken = node.input(0), node.output()
    batches, height, width, depth = given.shape
    if taken.shape[0] != batches or min(*window, *dilation) < 1 or node.option("padding") not in (0, _VALID):
        raise ValueError("no window operator")
    strides = node.option("stride_h"), node.option("stride_w")
    _, out_height, out_width, out_depth = taken.shape
    sizes = ((height, out_height), (width, out_width))
    rows, columns = (
        _last(size, outputs, window[i], strides[i], dilation[i], node.option("padding"))
        for i, (size, outputs) in enumerate(sizes)
    )
    return WindowImage(batches, rows, columns, (out_height, out_width), depth, out_depth, given.type.size_bytes)


def weighted_image(node: Node) -> WindowImage:
    """The windows of an operator whose input 1 is the weights."""
    _, height, width, _ = node.input(1).shape
    return _image(node, (height, width), (node.option("dilation_h_factor"), node.option("dilation_w_factor")))


def pooled_image(node: Node) -> WindowImage:
    """The windows of a pooling operator; ValueError when channels do not stay apart."""
    image = _image(node, (node.option("filter_height"), node.option("filter_width")), (1, 1))
    if image.depth != image.out_depth:
        raise ValueError("no pooling")
    return image


def numbers(tensor: Tensor | None) -> list[int]:
    """A constant's integers; ValueError for anything else."""
    widths = {TensorType.INT32: 4, TensorType.INT64: 8}
    if tensor is None or tensor.data is None or tensor.type not in widths:
        raise ValueError("not a constant of integers")
    width = widths[tensor.type]
    whole = tensor.data[: tensor.elements * width]
    return [int.from_bytes(whole[i : i + width], "little", signed=True) for i in range(0, len(whole), width)]


def place_of(index: list[int], shape: tuple[int, ...]) -> int:
    """Number of the element at `index` of a tensor of `shape`."""
    place = 0
    for i, n in zip(index, shape, strict=True):
        place = place * n + i
    return place


def one_by_one(node: Node, core: Core, place: int, output: int) -> Iterable[Run] | None:
    """Element k is read when k elements are written; a broadcast input is read until the end."""
    given, taken = node.input(place), node.output()
    if given.elements != taken.elements:
        return None
    return (Run(0, given.elements, given.type.size_bytes, 0, taken.type.size_bytes),)

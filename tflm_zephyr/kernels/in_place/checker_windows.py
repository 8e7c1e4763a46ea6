# SPDX-License-Identifier: Apache-2.0
"""For the checker of overlap: which output pixel reads each input pixel last, in convolutions and pooling."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tflm_zephyr.kernels.base import Core
from tflm_zephyr.kernels.in_place.runs import Run, RunsOf
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.model import TensorType

_VALID = 1


@dataclass(frozen=True)
class _Image:
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
    """Padding SAME puts half of what is missing before the data, VALID nothing."""
    missing = 0 if padding == _VALID else max(0, (outputs - 1) * stride + (window - 1) * dilation + 1 - size)
    found = [-1] * size
    for output in range(outputs):
        begin = output * stride - missing // 2
        for tap in range(begin, begin + (window - 1) * dilation + 1, dilation):
            if 0 <= tap < size:
                found[tap] = output
    return found


def _image(node: Node, window: tuple[int, int], dilation: tuple[int, int]) -> _Image:
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
    return _Image(batches, rows, columns, (out_height, out_width), depth, out_depth, given.type.size_bytes)


def _weighted(node: Node) -> _Image:
    _, height, width, _ = node.input(1).shape
    return _image(node, (height, width), (node.option("dilation_h_factor"), node.option("dilation_w_factor")))


def _pooled(node: Node) -> _Image:
    image = _image(node, (node.option("filter_height"), node.option("filter_width")), (1, 1))
    if image.depth != image.out_depth:
        raise ValueError("no pooling")
    return image


def _convolution(node: Node, place: int, output: int) -> Iterator[Run] | None:
    """All channels of a group are read for each of its output channels, the last one included."""
    if place != 0:
        return None
    image, read = _weighted(node), node.input(1).shape[3]
    groups, rest = divmod(image.depth, read)
    if rest or image.out_depth % groups:
        return None
    filters = image.out_depth // groups
    return (
        Run(
            byte + group * read * image.element,
            read,
            image.element,
            (reader * image.out_depth + (group + 1) * filters - 1) * image.element,
            0,
        )
        for byte, reader in image.pixels()
        for group in range(groups)
    )


def _depthwise(node: Node, place: int, output: int) -> Iterator[Run] | None:
    """Channel c is read for its output channels c * m to c * m + m - 1."""
    if place != 0:
        return None
    image = _weighted(node)
    times, rest = divmod(image.out_depth, image.depth)
    if rest or times != node.option("depth_multiplier"):
        return None
    element = image.element
    return (
        Run(byte, image.depth, element, (reader * image.out_depth + times - 1) * element, times * element)
        for byte, reader in image.pixels()
    )


def _pool(node: Node, place: int, output: int) -> Iterator[Run] | None:
    """Channel c is read for output channel c."""
    image = _pooled(node)
    element = image.element
    return (
        Run(byte, image.depth, element, reader * image.out_depth * element, element) for byte, reader in image.pixels()
    )


def _fully_connected(node: Node, place: int, output: int) -> Iterator[Run] | None:
    """A row of input is read for each output channel of its batch, the last one included."""
    if place != 0:
        return None
    given, taken = node.input(0), node.output()
    depth, out_depth = node.input(1).shape[-1], taken.shape[-1]
    batches, rest = divmod(given.elements, depth)
    if rest or batches * out_depth != taken.elements:
        return None
    element, out_element = given.type.size_bytes, taken.type.size_bytes
    return (
        Run(b * depth * element, depth, element, ((b + 1) * out_depth - 1) * out_element, 0) for b in range(batches)
    )


REFERENCE: Mapping[str, RunsOf] = {
    "AVERAGE_POOL_2D": _pool,
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": _depthwise,
    "FULLY_CONNECTED": _fully_connected,
    "L2_POOL_2D": _pool,
    "MAX_POOL_2D": _pool,
}


def _int8(node: Node, place: int) -> bool:
    return place == 0 and node.input(0).type is node.input(1).type is TensorType.INT8


def arm_convolution(core: Core, node: Node, place: int) -> Iterable[Run] | None:
    """CMSIS-NN's CONV_2D: a pixel's window is read before the pixel is written (arm_convolve_s8), or all through the
    writing of an output row (arm_convolve_1x1_s8), of four pixels (arm_convolve_1x1_s8_fast with Helium) or of all.
    """
    if not _int8(node, place):
        return None
    image = _weighted(node)
    _, height, width, read = node.input(1).shape
    if read != image.depth:
        return None
    spread = node.option("dilation_h_factor") > 1 or node.option("dilation_w_factor") > 1
    pixel = image.out_depth
    if height == width == 1 and not spread:
        if node.option("stride_h") > 1 or node.option("stride_w") > 1:
            row = image.out_size[1] * pixel
            return (Run(byte, read, 1, (reader * pixel // row + 1) * row, 0) for byte, reader in image.pixels())
        if not core.mve:
            return None
        return (Run(byte, read, 1, (reader + 4) * pixel - 1, 0) for byte, reader in image.pixels())
    if core.mve and len(image.rows) == height == 1:
        return None
    return (Run(byte, read, 1, reader * pixel, 0) for byte, reader in image.pixels())


def arm_depthwise(core: Core, node: Node, place: int) -> Iterable[Run] | None:
    """CMSIS-NN's DEPTHWISE_CONV_2D reads a channel before it writes it, at most with others of its pixel.

    With Helium, one input channel becomes a CONV_2D, and more than 124 channels take several rounds.
    """
    if not _int8(node, place):
        return None
    image = _weighted(node)
    if core.mve and (image.depth == 1 or image.out_depth > 124):
        return None
    return _depthwise(node, place, 0)


def arm_max_pool(node: Node, place: int) -> Iterable[Run] | None:
    """CMSIS-NN's MAX_POOL_2D copies a pixel to the output and compares it there with the rest of its window."""
    image = _pooled(node)
    pixel = image.out_depth * image.element
    return (Run(byte, image.depth, image.element, (reader + 1) * pixel, 0) for byte, reader in image.pixels())

# SPDX-License-Identifier: Apache-2.0
"""An operator of a model as the tables of costs see it, whatever library computes it."""

from __future__ import annotations

from dataclasses import replace

from tflm_zephyr.costs import Shape
from tflm_zephyr.kernels import Node
from tflm_zephyr.model import Tensor

_POOLS = ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")
_WINDOWED = ("CONV_2D", "DEPTHWISE_CONV_2D")
_RUNS = ("CONCATENATION", "PAD", "PADV2", "RESIZE_NEAREST_NEIGHBOR", "RESIZE_BILINEAR")
_ROWS = ("SOFTMAX", "LOG_SOFTMAX")


def operator_shape(node: Node) -> Shape:
    """The shape of a whole operator; its kernel is named by operator and types."""
    key, source, output = node.operator.key, _first(node), node.optional_output(0)
    if source is None or output is None:
        return Shape(key, 1, 1, 0, 1, 1, 0)
    name = f"{key} {source.type.name.lower()}"
    if output.type is not source.type:
        name += f" {output.type.name.lower()}"
    if key in _WINDOWED and len(source.shape) == 4:
        return _windowed(node, name)
    if key in _POOLS and len(source.shape) == 4:
        return _pool(node, name)
    if key == "FULLY_CONNECTED":
        depth = node.input(1).shape[-1]
        channels = node.input(1).elements // depth
        pixels = output.elements // channels
        return Shape(name, 1, pixels, depth, 1, pixels, channels)
    if key in _ROWS:
        depth = output.shape[-1] if output.shape else 1
        rows = output.elements // depth
        return Shape(name, 1, rows, depth, 1, rows, depth)
    runs = _runs(node, output) if key in _RUNS else len(source.shape)
    if _broadcasts(node, output):
        name += " broadcast"
    return Shape(name, 1, runs, source.elements, 1, 1, output.elements)


def operator_shape_by_rows(node: Node, rows: int, steps: int) -> Shape:
    """The shape of a call for some of an operator's `steps` rows; those in the middle of an image."""
    whole = operator_shape(node)
    if whole.out_height * whole.out_width > 1 or whole.high * whole.wide > 1:
        images = whole if whole.height > 1 or whole.width == 1 else whole.turned()
        return replace(images, top=0).of_rows(rows)
    share = rows / steps
    runs = max(1, round(whole.width * share)) if node.operator.key in _RUNS else whole.width
    return replace(whole, width=runs, depth=round(whole.depth * share), channels=round(whole.channels * share))


def _first(node: Node) -> Tensor | None:
    """The first input that is there; that of types for operators whose constants come first."""
    tensors = (node.optional_input(place) for place in range(len(node.operator.inputs)))
    return next((tensor for tensor in tensors if tensor is not None), None)


def _broadcasts(node: Node, output: Tensor) -> bool:
    """Whether an operator on elements has inputs of different shapes."""
    if len(node.operator.inputs) != 2 or node.operator.key not in ("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "DIV"):
        return False
    return any(node.input(place).elements != output.elements for place in (0, 1))


def _runs(node: Node, output: Tensor) -> int:
    """The runs of elements that are copied together."""
    shape = output.shape
    if node.operator.key == "CONCATENATION":
        axis = node.option("axis") % len(shape)
        outer = 1
        for size in shape[:axis]:
            outer *= size
        return outer * len(node.operator.inputs)
    return output.elements // shape[-1] if shape else 1


def _windowed(node: Node, name: str) -> Shape:
    source, weights, output = node.input(0), node.input(1), node.output()
    images, height, width, depth = source.shape
    stride = node.option("stride_h"), node.option("stride_w")
    dilation = node.option("dilation_h_factor"), node.option("dilation_w_factor")
    sizes = zip((height, width), weights.shape[1:3], stride, dilation, strict=True)
    top, left = (node.padding(*axis) for axis in sizes)
    _, out_height, out_width, channels = output.shape
    return Shape(
        name,
        height=height * images,
        width=width,
        depth=depth,
        out_height=out_height * images,
        out_width=out_width,
        channels=channels,
        high=weights.shape[1],
        wide=weights.shape[2],
        down=stride[0],
        across=stride[1],
        top=top,
        left=left,
        dilated=dilation[1] > 1,
    )


def _pool(node: Node, name: str) -> Shape:
    source, output = node.input(0), node.output()
    images, height, width, depth = source.shape
    window = node.option("filter_height"), node.option("filter_width")
    stride = node.option("stride_h"), node.option("stride_w")
    top, left = (
        node.padding(size, one, step, 1) for size, one, step in zip((height, width), window, stride, strict=True)
    )
    _, out_height, out_width, channels = output.shape
    return Shape(
        name,
        height=height * images,
        width=width,
        depth=depth,
        out_height=out_height * images,
        out_width=out_width,
        channels=channels,
        high=window[0],
        wide=window[1],
        down=stride[0],
        across=stride[1],
        top=top,
        left=left,
    )

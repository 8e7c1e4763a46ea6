# SPDX-License-Identifier: Apache-2.0
"""Tensors of an operator that do not fit each other, by operator.

Kernels take their loops' bounds from one tensor or another, and TFLM's Prepare compares just some of them. Calls with
constant parameters are proven by the sizes of the tensors, so these have to fit.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from itertools import zip_longest

from tflm_zephyr.kernels import Node
from tflm_zephyr.model import Tensor, TensorType

Shape = tuple[int, ...]


def misfit(node: Node) -> str:
    """Why the operator's tensors do not fit each other; "" where they do, and for operators without a rule."""
    rule = _RULES.get(node.operator.key)
    return "" if rule is None else rule(node)


def _shown(*tensors: Tensor) -> str:
    return " and ".join(f"{tensor.label} of shape {list(tensor.shape)}" for tensor in tensors)


def _as_many(node: Node) -> str:
    """As many elements in output 0 as in input 0."""
    source, output = node.input(0), node.output()
    return "" if source.elements == output.elements else f"has different numbers of elements: {_shown(source, output)}"


def _broadcast(node: Node) -> str:
    """An output of the shape that both inputs together give, each dimension of 1 repeated."""
    one, other, output = node.input(0), node.input(1), node.output()
    wanted = []
    for first, second in zip_longest(reversed(one.shape), reversed(other.shape), fillvalue=1):
        if first != second and 1 not in (first, second):
            return f"has inputs that do not fit each other: {_shown(one, other)}"
        wanted.append(second if first == 1 else first)
    return "" if _plain(tuple(reversed(wanted))) == _plain(output.shape) else f"has another output: {_shown(output)}"


def _plain(shape: Shape) -> Shape:
    """The shape without leading dimensions of 1."""
    first = next((k for k, size in enumerate(shape) if size != 1), len(shape))
    return shape[first:]


def _biased(node: Node, place: int, channels: int) -> str:
    bias = node.optional_input(place)
    if bias is None or bias.elements == channels:
        return ""
    return f"has {channels} output channels and {bias.elements} biases: {_shown(bias)}"


def _windows(channels_at: int) -> Callable[[Node], str]:
    """Batches of input and output, and a bias for each channel; `channels_at`: the weights' dimension of channels."""

    def rule(node: Node) -> str:
        source, weights, output = node.input(0), node.input(1), node.output()
        if not len(source.shape) == len(weights.shape) == len(output.shape) == 4:
            return ""  # refused elsewhere
        if source.shape[0] != output.shape[0]:
            return f"has different numbers of batches: {_shown(source, output)}"
        return _biased(node, 2, weights.shape[channels_at])

    return rule


def _transposed(node: Node) -> str:
    weights, source, output = node.input(1), node.input(2), node.output()
    if not len(source.shape) == len(weights.shape) == len(output.shape) == 4:
        return ""
    if source.shape[0] != output.shape[0] or source.shape[3] != weights.shape[3]:
        return f"has batches or channels that do not fit each other: {_shown(source, weights, output)}"
    return _biased(node, 3, weights.shape[0])


def _dense(node: Node) -> str:
    source, weights, output = node.input(0), node.input(1), node.output()
    if len(weights.shape) != 2 or not output.shape:
        return ""
    outputs, depth = weights.shape
    if outputs <= 0 or depth <= 0 or output.elements * depth != source.elements * outputs:
        return f"has tensors that do not fit each other: {_shown(source, weights, output)}"
    return _biased(node, 2, outputs)


def _pooled(node: Node) -> str:
    source, output = node.input(0), node.output()
    same = len(source.shape) == len(output.shape) == 4 and source.shape[::3] == output.shape[::3]
    return "" if same else f"has batches or channels that do not fit each other: {_shown(source, output)}"


def _padded(node: Node) -> str:
    source, pads, output = node.input(0), node.input(1), node.output()
    if pads.data is None or pads.type not in (TensorType.INT32, TensorType.INT64):
        return ""
    count = pads.elements
    sizes = struct.unpack(f"<{count}{'i' if pads.type is TensorType.INT32 else 'q'}", pads.data)
    if count != 2 * len(source.shape) or min(sizes, default=0) < 0:
        return f"has paddings that do not fit its input: {_shown(source, pads)}"
    wanted = tuple(
        before + size + after for before, size, after in zip(sizes[::2], source.shape, sizes[1::2], strict=True)
    )
    return "" if wanted == output.shape else f"pads to {list(wanted)}, not to {_shown(output)}"


_RULES: Mapping[str, Callable[[Node], str]] = {
    **dict.fromkeys(
        "CAST DEQUANTIZE HARD_SWISH LEAKY_RELU LOGISTIC QUANTIZE RELU RELU6 RELU_N1_TO_1 SOFTMAX TANH "
        "EXPAND_DIMS RESHAPE SQUEEZE".split(),
        _as_many,
    ),
    **dict.fromkeys("ADD MAXIMUM MINIMUM MUL SUB".split(), _broadcast),
    **dict.fromkeys("AVERAGE_POOL_2D MAX_POOL_2D".split(), _pooled),
    **dict.fromkeys("PAD PADV2".split(), _padded),
    "CONV_2D": _windows(0),
    "DEPTHWISE_CONV_2D": _windows(3),
    "FULLY_CONNECTED": _dense,
    "TRANSPOSE_CONV": _transposed,
}

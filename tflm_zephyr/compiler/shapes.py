# SPDX-License-Identifier: Apache-2.0
"""Tensors of an operator that do not fit each other, as several families have them (Lowering.misfit)."""

from __future__ import annotations

from itertools import zip_longest

from tflm_zephyr.kernels import Node
from tflm_zephyr.model import Tensor

Shape = tuple[int, ...]


def shown(*tensors: Tensor) -> str:
    """Tensors with their shapes, for a message."""
    return " and ".join(f"{tensor.label} of shape {list(tensor.shape)}" for tensor in tensors)


def as_many(node: Node) -> str:
    """As many elements in output 0 as in input 0."""
    source, output = node.input(0), node.output()
    return "" if source.elements == output.elements else f"has different numbers of elements: {shown(source, output)}"


def broadcast(node: Node) -> str:
    """An output of the shape that both inputs together give, each dimension of 1 repeated."""
    one, other, output = node.input(0), node.input(1), node.output()
    wanted = []
    for first, second in zip_longest(reversed(one.shape), reversed(other.shape), fillvalue=1):
        if first != second and 1 not in (first, second):
            return f"has inputs that do not fit each other: {shown(one, other)}"
        wanted.append(second if first == 1 else first)
    return "" if _plain(tuple(reversed(wanted))) == _plain(output.shape) else f"has another output: {shown(output)}"


def _plain(shape: Shape) -> Shape:
    """The shape without leading dimensions of 1."""
    first = next((k for k, size in enumerate(shape) if size != 1), len(shape))
    return shape[first:]


def biased(node: Node, place: int, channels: int) -> str:
    """A bias at `place`, if there is one, for each channel."""
    bias = node.optional_input(place)
    if bias is None or bias.elements == channels:
        return ""
    return f"has {channels} output channels and {bias.elements} biases: {shown(bias)}"

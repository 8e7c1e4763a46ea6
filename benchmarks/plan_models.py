# SPDX-License-Identifier: Apache-2.0
"""Synthetic models of any number of operators for benchmarks of planning: they allow overlaps, some other orders."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.helpers.model_builder import ModelBuilder, SubgraphBuilder

SIDE = 16
"""Of the images in the models below, which convolutions with strides halve."""


class Layers:
    """Operators of consistent shapes, on images of SIDE x SIDE or half of that, of 1 to 16 channels."""

    def __init__(self, graph: SubgraphBuilder) -> None:
        self.graph = graph
        self.shapes: dict[int, tuple[int, int]] = {}  # side and channels

    def image(self, side: int, channels: int, name: str | None = None) -> int:
        tensor = self.graph.tensor((1, side, side, channels), "int8", name, scale=0.5)
        self.shapes[tensor] = side, channels
        return tensor

    def relu(self, image: int) -> int:
        result = self.image(*self.shapes[image])
        self.graph.op("RELU", [image], [result])
        return result

    def add(self, one: int, other: int) -> int:
        result = self.image(*self.shapes[one])
        self.graph.op("ADD", [one, other], [result], options={"fused_activation_function": 0})
        return result

    def conv(self, image: int, channels: int, stride: int = 1) -> int:
        side, depth = self.shapes[image]
        weights = self.graph.tensor((channels, 1, 1, depth), "int8", scale=0.5, data=bytes(channels * depth))
        result = self.image(side // stride, channels)
        options = {
            "padding": 0, "stride_h": stride, "stride_w": stride, "dilation_h_factor": 1, "dilation_w_factor": 1,
            "fused_activation_function": 0,
        }  # fmt: skip
        self.graph.op("CONV_2D", [image, weights, -1], [result], options=options)
        return result

    def double(self, image: int) -> int:
        side, depth = self.shapes[image]
        size = self.graph.tensor((2,), "int32", data=(2 * side).to_bytes(4, "little") * 2)
        result = self.image(2 * side, depth)
        self.graph.op("RESIZE_NEAREST_NEIGHBOR", [image, size], [result])
        return result

    def join(self, images: list[int]) -> int:
        result = self.image(SIDE, sum(self.shapes[image][1] for image in images))
        self.graph.op("CONCATENATION", images, [result], options={"axis": 3})
        return result


def chain(layers: Layers, rng: random.Random, operators: int) -> None:
    """One operator after the other, tensors of all sizes."""
    last = layers.graph.inputs[0]
    while len(layers.graph.operators) < operators:
        side, _ = layers.shapes[last]
        kind = rng.randrange(4)
        if kind == 0:
            last = layers.relu(last)
        elif kind == 1 and side < SIDE:
            last = layers.double(last)
        else:
            last = layers.conv(last, rng.randrange(1, 17), 2 if kind == 2 and side == SIDE else 1)
    layers.graph.outputs = [last]


def branches(layers: Layers, rng: random.Random, operators: int) -> None:
    """Cells of branches, given one layer of all of them after the other, that are joined, added to what went in, and
    every now and then to a tensor of much earlier."""
    last = layers.graph.inputs[0]
    kept: list[int] = []
    while len(layers.graph.operators) < operators:
        arms = [layers.conv(last, rng.randrange(8, 17)) for _ in range(rng.randrange(2, 5))]
        arms = [layers.relu(arm) for arm in arms]
        arms = [layers.conv(arm, rng.randrange(1, 4)) for arm in arms]
        last = layers.add(layers.conv(layers.join(arms), layers.shapes[last][1]), last)
        if kept and rng.random() < 0.3:
            last = layers.add(last, kept.pop(rng.randrange(len(kept))))
        if rng.random() < 0.5:
            kept = [*kept[-3:], last]
    layers.graph.outputs = [last]


def model_of(shape: Callable[[Layers, random.Random, int], None], operators: int) -> bytes:
    """A model of `operators` operators, or a few more."""
    model = ModelBuilder()
    layers = Layers(model.subgraph("main"))
    layers.graph.inputs = [layers.image(SIDE, 4, "input")]
    shape(layers, random.Random(operators), operators)
    return model.finish()

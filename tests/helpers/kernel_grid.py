# SPDX-License-Identifier: Apache-2.0
"""Models of independent int8 layers over a grid of shapes, for benchmarks/kernel_costs.py.

Each layer goes from an input of its own to an output of its own. The sizes are those of small networks' layers, and odd
ones; the ways to requantise come from zero points, clamps and scales.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.helpers.model_builder import ModelBuilder, SubgraphBuilder

RELU, RELU6 = 1, 3
_SCALE = 0.05


@dataclass(frozen=True)
class Rule:
    """The output's zero point and activation, and a `large` scale of the weights, which lead to a form."""

    zero_point: int = -128
    activation: int = 0
    large: bool = False


RULES: Mapping[str, Rule] = {
    "floor": Rule(activation=RELU),
    "clamped": Rule(activation=RELU6),
    "free": Rule(zero_point=5),
    "large": Rule(zero_point=5, large=True),
}
"""One floor, the same with a clamp; two floors; TFLM's own arithmetic."""
COMMON = "floor"


@dataclass(frozen=True)
class GridLayer:
    """A layer: operator, height, width, depth, channels, window, strides, SAME padding, dilation, and its rule."""

    key: str
    height: int
    width: int
    depth: int
    channels: int
    window: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    same: bool = True
    dilation: int = 1
    rule: str = COMMON
    low_weights: bool = False
    one_scale: bool = False

    def add(self, main: SubgraphBuilder) -> None:
        """Add the layer with its tensors to `main`."""
        given, weights, taken, options = self._parts()
        rule, depthwise = RULES[self.rule], self.key == "DEPTHWISE_CONV_2D"
        taps = self.window[0] * self.window[1] * (1 if depthwise else self.depth)
        real = 0.3 / (74 * taps**0.5)
        scales = [real * 2.0 ** (-0.2 * (k % 3)) for k in range(self.channels)]
        if rule.large:
            scales[0] = 3.0
        scales = scales[:1] if self.one_scale else scales
        dimension = 3 if depthwise else 0
        source = main.tensor(given, "int8", scale=_SCALE, zero_point=-128)
        size = _size(weights)
        least = 1 if not self.low_weights else 0  # -128 beside a negative weight cannot be joined
        data = bytes(max(least - 128, main.rng.randint(-128, 127)) & 255 for _ in range(size))
        if self.low_weights:
            data = bytes([128]) * size
        table = main.tensor(weights, "int8", scale=scales, dimension=dimension, data=data)
        starts = struct.pack(f"<{self.channels}i", *(main.rng.randint(-9999, 9999) for _ in range(self.channels)))
        bias = main.tensor((self.channels,), "int32", scale=_SCALE * scales[0], data=starts)
        output = main.tensor(taken, "int8", scale=_SCALE, zero_point=rule.zero_point)
        options = {**options, "fused_activation_function": rule.activation}
        main.op(self.key, [source, table, bias], [output], options=options)
        main.inputs.append(source)
        main.outputs.append(output)

    def _parts(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], dict[str, int]]:
        """Shapes of input, weights and output, and the options."""
        if self.key == "FULLY_CONNECTED":
            return (self.height, self.depth), (self.channels, self.depth), (self.height, self.channels), {}
        options = {"padding": 0 if self.same else 1, "stride_h": self.stride[0], "stride_w": self.stride[1]}
        options |= {"dilation_h_factor": self.dilation, "dilation_w_factor": self.dilation}
        sizes = zip((self.height, self.width), self.window, self.stride, strict=True)
        out = [
            -(-size // stride) if self.same else (size - (window - 1) * self.dilation - 1) // stride + 1
            for size, window, stride in sizes
        ]
        if self.key == "DEPTHWISE_CONV_2D":
            options["depth_multiplier"] = self.channels // self.depth
            weights: tuple[int, ...] = (1, *self.window, self.channels)
        else:
            weights = (self.channels, *self.window, self.depth)
        return (1, self.height, self.width, self.depth), weights, (1, *out, self.channels), options


def grid_model(layers: Sequence[GridLayer]) -> bytes:
    """The .tflite file with these layers."""
    model = ModelBuilder(seed=5)
    main = model.subgraph("main")
    for layer in layers:
        layer.add(main)
    return model.finish()


def grid() -> dict[str, list[GridLayer]]:
    """The layers by family: one model each."""
    return {
        "pointwise": list(_pointwise()),
        "convolution": list(_convolution()),
        "first": list(_first()),
        "depthwise": list(_depthwise()),
        "wide_depthwise": list(_wide_depthwise()),
        "dense": list(_dense()),
        "low_depthwise": list(_low_depthwise()),
        "tall_depthwise": list(_tall_depthwise()),
    }


def _with_rules(layers: Sequence[tuple[str, GridLayer]]) -> Iterator[GridLayer]:
    yield from (GridLayer(**{**layer.__dict__, "rule": rule}) for rule, layer in layers)


def _ruled(some: Sequence[GridLayer], every: int = 1) -> Iterator[GridLayer]:
    """All with the common rule, and every so-manieth with each of the others."""
    yield from some
    others = [rule for rule in RULES if rule != COMMON]
    for number, rule in enumerate(others):
        chosen = some[number % every :: every]
        yield from _with_rules([(rule, layer) for layer in chosen])


def _pointwise() -> Iterator[GridLayer]:
    sizes = [
        (12, 12, 8, 16), (12, 12, 16, 32), (12, 12, 32, 32), (6, 6, 32, 64), (6, 6, 64, 64), (6, 6, 64, 128),
        (3, 3, 128, 128), (3, 3, 128, 256), (25, 5, 64, 64), (24, 24, 8, 16), (12, 12, 10, 20), (5, 5, 24, 24),
        (7, 3, 40, 12), (4, 4, 20, 60), (6, 5, 17, 9), (9, 7, 12, 40), (3, 1, 64, 32), (5, 7, 48, 16),
        (1, 1, 64, 32), (2, 1, 32, 32), (8, 8, 4, 8), (7, 7, 33, 31), (11, 3, 96, 24), (5, 5, 80, 10), (6, 6, 3, 8),
        (4, 2, 65, 1), (6, 4, 33, 1), (5, 5, 2, 13), (3, 3, 1, 5), (6, 6, 16, 2), (7, 5, 9, 3),
    ]  # fmt: skip
    some = [GridLayer("CONV_2D", *size) for size in sizes]
    yield from _ruled(some, 4)
    yield from (GridLayer("CONV_2D", *size, low_weights=True) for size in sizes[1::4])
    yield from (GridLayer("CONV_2D", h, w, d, c, stride=(2, 2)) for h, w, d, c in sizes[:18:2])


def _convolution() -> Iterator[GridLayer]:
    sizes: list[tuple[int, int, int, int, tuple[int, int], tuple[int, int]]] = [
        (16, 16, 16, 16, (3, 3), (1, 1)), (8, 8, 32, 32, (3, 3), (1, 1)), (16, 16, 16, 32, (3, 3), (2, 2)),
        (8, 8, 32, 64, (3, 3), (2, 2)), (8, 8, 64, 64, (3, 3), (1, 1)), (9, 7, 8, 12, (3, 3), (1, 1)),
        (12, 12, 3, 8, (3, 3), (2, 2)), (24, 24, 3, 8, (3, 3), (2, 2)), (16, 16, 3, 16, (3, 3), (1, 1)),
        (10, 10, 4, 10, (5, 5), (1, 1)), (9, 11, 6, 7, (2, 3), (1, 2)), (7, 7, 16, 24, (1, 3), (1, 1)),
        (20, 10, 1, 16, (10, 4), (2, 2)), (1, 40, 8, 16, (1, 5), (1, 2)), (30, 1, 12, 20, (7, 1), (2, 1)),
        (11, 9, 5, 9, (3, 3), (1, 1)), (6, 6, 40, 16, (3, 3), (1, 1)), (14, 6, 10, 20, (5, 2), (1, 1)),
        (9, 7, 1, 9, (2, 1), (1, 1)), (6, 6, 1, 17, (3, 1), (1, 1)), (8, 5, 2, 13, (1, 1), (2, 1)),
        (5, 8, 1, 5, (4, 4), (1, 1)),
    ]  # fmt: skip
    some = [GridLayer("CONV_2D", *size) for size in sizes]
    yield from _ruled(some, 4)
    yield from (GridLayer("CONV_2D", *size, same=False) for size in sizes[1:14:3])
    yield from (GridLayer("CONV_2D", *size, low_weights=True) for size in sizes[:9:3])
    yield GridLayer("CONV_2D", 12, 12, 8, 16, (3, 3), dilation=2)
    yield GridLayer("CONV_2D", 16, 10, 16, 12, (3, 3), dilation=2, same=False)


def _first() -> Iterator[GridLayer]:
    """Depthwise convolutions of one input channel, which are convolutions to our kernels."""
    sizes: list[tuple[int, int, int, int, tuple[int, int], tuple[int, int]]] = [
        (24, 24, 1, 8, (3, 3), (2, 2)), (25, 20, 1, 8, (10, 8), (2, 2)), (48, 48, 1, 8, (3, 3), (2, 2)),
        (12, 12, 1, 16, (5, 5), (1, 1)), (9, 9, 1, 5, (3, 3), (1, 1)), (16, 16, 1, 32, (3, 3), (1, 1)),
        (30, 12, 1, 12, (7, 4), (2, 2)), (6, 7, 1, 32, (7, 8), (1, 1)), (4, 12, 1, 4, (5, 6), (2, 2)),
    ]  # fmt: skip
    some = [GridLayer("DEPTHWISE_CONV_2D", *size) for size in sizes]
    yield from _ruled(some, 4)


def _depthwise() -> Iterator[GridLayer]:
    sizes = [
        (12, 12, 16, 1), (12, 12, 8, 1), (24, 24, 8, 1), (24, 24, 16, 2), (12, 12, 32, 1), (12, 12, 32, 2),
        (6, 6, 64, 1), (6, 6, 64, 2), (3, 3, 256, 1), (25, 5, 64, 1), (13, 11, 12, 1), (13, 11, 20, 2),
        (6, 6, 128, 1), (5, 5, 24, 2), (9, 9, 7, 1), (8, 8, 10, 2), (48, 48, 8, 1), (7, 7, 48, 1), (15, 15, 24, 2),
    ]  # fmt: skip
    some = [GridLayer("DEPTHWISE_CONV_2D", h, w, c, c, (3, 3), (s, s)) for h, w, c, s in sizes]
    yield from _ruled(some, 4)
    yield from (GridLayer("DEPTHWISE_CONV_2D", h, w, c, c, (3, 3), (s, s), same=False) for h, w, c, s in sizes[1:12:4])


def _wide_depthwise() -> Iterator[GridLayer]:
    sizes: list[tuple[int, int, int, tuple[int, int], int]] = [
        (12, 12, 16, (5, 5), 1), (12, 12, 16, (5, 5), 2), (25, 1, 32, (5, 1), 1), (1, 40, 24, (1, 9), 1),
        (9, 7, 10, (2, 2), 1), (10, 10, 12, (4, 3), 2), (8, 8, 64, (3, 1), 1), (6, 6, 40, (1, 3), 1),
        (12, 5, 9, (3, 5), 1), (3, 3, 32, (3, 3), 1), (2, 2, 64, (2, 2), 1),
    ]  # fmt: skip
    some = [GridLayer("DEPTHWISE_CONV_2D", h, w, c, c, window, (s, s)) for h, w, c, window, s in sizes]
    yield from _ruled(some, 3)


def _low_depthwise() -> Iterator[GridLayer]:
    """Images of few output rows, all within the image: kernels that take several rows at a time take these few."""
    sizes = [
        (3, 12, 16, 1), (4, 7, 64, 1), (5, 24, 8, 1), (6, 10, 32, 1), (3, 5, 128, 1), (4, 25, 24, 1), (7, 16, 12, 2),
        (3, 8, 40, 2), (5, 13, 20, 2),
    ]  # fmt: skip
    some = [GridLayer("DEPTHWISE_CONV_2D", h, w, c, c, (3, 3), (s, s), same=False) for h, w, c, s in sizes]
    yield from _ruled(some, 4)


def _tall_depthwise() -> Iterator[GridLayer]:
    """Windows over time alone, as keyword models have, of up to all rows that are left."""
    sizes = [
        (30, 1, 40, 3), (28, 1, 128, 5), (24, 1, 128, 10), (15, 1, 128, 15), (20, 1, 48, 7), (12, 1, 64, 12),
        (9, 1, 24, 9), (40, 1, 32, 21), (16, 3, 20, 11), (11, 5, 16, 8),
    ]  # fmt: skip
    some = [GridLayer("DEPTHWISE_CONV_2D", h, w, c, c, (high, 1), same=False) for h, w, c, high in sizes]
    yield from _ruled(some, 4)


def _dense() -> Iterator[GridLayer]:
    sizes = [
        (64, 12), (640, 128), (128, 128), (128, 8), (8, 128), (256, 2), (16, 16), (4000, 4), (33, 10), (96, 24),
        (50, 7), (200, 30), (27, 64), (512, 10), (12, 3), (40, 5), (17, 17), (100, 9), (30, 1), (7, 13), (257, 5),
        (1, 16), (16, 1), (2, 6), (4, 2), (3, 3), (8, 8), (1, 4), (5, 12), (20, 2), (24, 20), (32, 3), (60, 60),
        (6, 40), (128, 1), (128, 256),
    ]  # fmt: skip
    some = [GridLayer("FULLY_CONNECTED", 1, 1, depth, channels) for depth, channels in sizes]
    yield from _ruled(some, 4)
    yield from (GridLayer("FULLY_CONNECTED", 1, 1, depth, channels, one_scale=True) for depth, channels in sizes)
    yield from (
        GridLayer("FULLY_CONNECTED", count, 1, d, c, one_scale=one)
        for count, d, c in ((6, 32, 16), (9, 20, 12), (4, 50, 7))
        for one in (False, True)
    )


def _size(shape: Sequence[int]) -> int:
    return math.prod(shape)

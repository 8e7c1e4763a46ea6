# SPDX-License-Identifier: Apache-2.0
"""Models of independent random int8 layers: 1 to 257 channels, odd sizes, strides, padding, shifts of either sign."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable, Iterator

import pytest

from tests.helpers.model_builder import ModelBuilder, SubgraphBuilder

_CHANNELS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 31, 32, 33, 64)
_RARE_CHANNELS = (65, 127, 128, 129, 255, 256, 257)
_SMALL_PIXELS = 12


def seeds(config: pytest.Config, most: int) -> Iterator[range]:
    """The seeds of --random-layers layers, at most so many at a time."""
    count = int(config.getoption("--random-layers"))
    for first in range(0, count, most):
        yield range(first, min(first + most, count))


def random_layers(kind: str, seed: int, count: int) -> bytes:
    """A model of `count` layers of `kind`, a key of KINDS, each from an input of its own to an output of its own.

    They are those of the seeds from `seed` on.
    """
    model = ModelBuilder()
    main = model.subgraph("main")
    for layer in range(seed, seed + count):
        given, taken = KINDS[kind](main, random.Random(f"{kind} {layer}"))
        main.inputs.append(given)
        main.outputs.append(taken)
    return model.finish()


def _channels(rng: random.Random, most: int = 257) -> int:
    found = rng.choice(_RARE_CHANNELS if rng.random() < 0.15 else _CHANNELS)
    return min(found, most)


def _size(given: int, window: int, stride: int, dilation: int, padding: int) -> int:
    reach = (window - 1) * dilation + 1
    return -(-given // stride) if padding == 0 else -(-(given - reach + 1) // stride)


def _weights(rng: random.Random, size: int) -> bytes:
    if rng.random() < 0.2:
        return bytes(rng.choice((128, 127, 129)) for _ in range(size))
    return rng.randbytes(size)


def _layer(
    main: SubgraphBuilder,
    rng: random.Random,
    code: str,
    shapes: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]],
    options: dict[str, int],
    *,
    channel_dimension: int,
) -> tuple[int, int]:
    """Tensors with scales that spread the outputs, or leave them at a few values, and the operator."""
    channels, taps = shapes[1][channel_dimension], math.prod(shapes[1]) // shapes[1][channel_dimension]
    source, output = (rng.choice((-128, -1, 0, 127, rng.randint(-128, 127))) for _ in range(2))
    dense = code == "FULLY_CONNECTED"
    scale = 0.05
    real = 2.0 ** rng.uniform(-4, 1) / (74 * math.sqrt(taps)) * rng.choice((1, 1, 1, 0.01, 40))
    each = [real * 2.0 ** rng.uniform(-1.5, 1.5) for _ in range(1 if dense and rng.random() < 0.5 else channels)]
    if rng.random() < 0.05:
        each[0] = 3.0
    given = main.tensor(shapes[0], "int8", scale=scale, zero_point=source)
    data = _weights(rng, math.prod(shapes[1]))
    weights = main.tensor(shapes[1], "int8", scale=each, dimension=channel_dimension, data=data)
    inputs = [given, weights]
    if rng.random() < 0.9:
        most = rng.choice((100, 5_000, 200_000))
        values = [rng.randint(-most, most) for _ in range(channels)]
        scales = [scale * one for one in each]
        inputs.append(main.tensor((channels,), "int32", scale=scales, data=struct.pack(f"<{channels}i", *values)))
    elif code != "DEPTHWISE_CONV_2D":
        inputs.append(-1)  # which TFLM's depthwise convolution does not survive
    taken = main.tensor(shapes[2], "int8", scale=scale, zero_point=output)
    activation = rng.choice((0, 0, 1, 3, 2))
    main.op(code, inputs, [taken], options={**options, "fused_activation_function": activation})
    return given, taken


def _window(
    rng: random.Random, window: tuple[int, int], *, stride: int, dilation: int
) -> tuple[dict[str, int], list[int]]:
    """Options, and an input's height and width that the window fits."""
    padding = rng.randint(0, 1)
    options = {"padding": padding}
    sizes = []
    for side, size in zip("hw", window, strict=True):
        options[f"stride_{side}"] = rng.randint(1, stride)
        options[f"dilation_{side}_factor"] = rng.randint(1, dilation)
        least = 1 if padding == 0 else (size - 1) * options[f"dilation_{side}_factor"] + 1
        sizes.append(least + rng.randint(0, _SMALL_PIXELS - 1))
    return options, sizes


def _outputs(options: dict[str, int], sizes: list[int], window: tuple[int, int]) -> list[int]:
    return [
        _size(given, size, options[f"stride_{side}"], options[f"dilation_{side}_factor"], options["padding"])
        for side, given, size in zip("hw", sizes, window, strict=True)
    ]


def _pointwise(main: SubgraphBuilder, rng: random.Random) -> tuple[int, int]:
    depth, channels, height, width = _channels(rng), _channels(rng), rng.randint(1, 6), rng.randint(1, 6)
    options = {"padding": 0, "stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1}
    shapes = (1, height, width, depth), (channels, 1, 1, depth), (1, height, width, channels)
    return _layer(main, rng, "CONV_2D", shapes, options, channel_dimension=0)


def _convolution(main: SubgraphBuilder, rng: random.Random) -> tuple[int, int]:
    depth, channels = _channels(rng, 33), _channels(rng)
    window = rng.randint(1, 5), rng.randint(1, 5)
    options, sizes = _window(rng, window, stride=3, dilation=2)
    shapes = (1, *sizes, depth), (channels, *window, depth), (1, *_outputs(options, sizes, window), channels)
    return _layer(main, rng, "CONV_2D", shapes, options, channel_dimension=0)


def _first(main: SubgraphBuilder, rng: random.Random) -> tuple[int, int]:
    """DEPTHWISE_CONV_2D of one input channel, which is a convolution."""
    channels = _channels(rng)
    window = rng.randint(1, 8), rng.randint(1, 8)
    options, sizes = _window(rng, window, stride=3, dilation=2)
    shapes = (1, *sizes, 1), (1, *window, channels), (1, *_outputs(options, sizes, window), channels)
    options["depth_multiplier"] = channels
    return _layer(main, rng, "DEPTHWISE_CONV_2D", shapes, options, channel_dimension=3)


def _depthwise(main: SubgraphBuilder, rng: random.Random) -> tuple[int, int]:
    channels = max(2, _channels(rng))
    window = (3, 3) if rng.random() < 0.6 else (rng.randint(1, 5), rng.randint(1, 6))
    options, sizes = _window(rng, window, stride=3 if rng.random() < 0.2 else 2, dilation=1)
    shapes = (1, *sizes, channels), (1, *window, channels), (1, *_outputs(options, sizes, window), channels)
    options["depth_multiplier"] = 1
    return _layer(main, rng, "DEPTHWISE_CONV_2D", shapes, options, channel_dimension=3)


def _dense(main: SubgraphBuilder, rng: random.Random) -> tuple[int, int]:
    depth, channels = _channels(rng), _channels(rng)
    batches = 1 if rng.random() < 0.7 else rng.randint(2, 9)
    shapes = (batches, depth), (channels, depth), (batches, channels)
    return _layer(main, rng, "FULLY_CONNECTED", shapes, {}, channel_dimension=0)


KINDS: dict[str, Callable[[SubgraphBuilder, random.Random], tuple[int, int]]] = {
    "convolution": _convolution,
    "dense": _dense,
    "depthwise": _depthwise,
    "first": _first,
    "pointwise": _pointwise,
}

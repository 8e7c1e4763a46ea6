# SPDX-License-Identifier: Apache-2.0
"""Models made for the tests on real Zephyr."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tests.helpers.model_builder import ModelBuilder


def dense_chain(widths: Sequence[int], *, seed: int = 0) -> bytes:
    """An int8 chain of FULLY_CONNECTED layers whose activations have `widths` bytes, the input's first."""
    model = ModelBuilder(seed=seed)
    main = model.subgraph("main")
    last = main.tensor((1, widths[0]), "int8", "input", scale=0.05)
    main.inputs = [last]
    for layer, (width, following) in enumerate(pairwise(widths)):
        weights = main.tensor((following, width), "int8", f"weights{layer}", scale=0.01, data="random")
        bias = main.tensor((following,), "int32", f"bias{layer}", scale=0.0005, data=bytes(4 * following))
        out = main.tensor((1, following), "int8", f"dense{layer}", scale=0.2)
        main.op("FULLY_CONNECTED", [last, weights, bias], [out], options={"fused_activation_function": 0})
        last = out
    main.outputs = [last]
    return model.finish()


def flat_convolutions(layers: int = 3, *, width: int = 64, channels: int = 8, window: int = 5, seed: int = 3) -> bytes:
    """An int8 chain of convolutions over images one pixel high: on Helium CMSIS-NN takes another function."""
    model = ModelBuilder(seed=seed)
    main = model.subgraph("main")
    last = main.tensor((1, 1, width, channels), "int8", "input", scale=0.05)
    main.inputs = [last]
    options = {"padding": 0, "stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1}
    for layer in range(layers):
        scales = [0.004] * channels
        shape = (channels, 1, window, channels)
        weights = main.tensor(shape, "int8", f"weights{layer}", scale=scales, dimension=0, data="random")
        biases = [scale * 0.05 for scale in scales]
        bias = main.tensor((channels,), "int32", f"bias{layer}", scale=biases, dimension=0, data=bytes(4 * channels))
        out = main.tensor((1, 1, width, channels), "int8", f"flat{layer}", scale=0.05)
        main.op("CONV_2D", [last, weights, bias], [out], options={**options, "fused_activation_function": 0})
        last = out
    main.outputs = [last]
    return model.finish()


def mobilenet(side: int = 96, width: float = 0.25, *, colours: int = 3, classes: int = 10, seed: int = 0) -> bytes:
    """MobileNet v1 in int8 with random weights, channels times `width`, for images of side x side x colours.

    Scales keep the activations of random inputs in the middle of their range, so that outputs depend on all layers.
    """
    model = ModelBuilder(seed=seed)
    main = model.subgraph("main")
    pixels = 0.05
    last, depth = main.tensor((1, side, side, colours), "int8", "image", scale=pixels), colours
    main.inputs = [last]

    def layer(code: str, name: str, filters: int, kernel: int, stride: int) -> None:
        nonlocal last, depth, side
        depthwise = code == "DEPTHWISE_CONV_2D"
        shape = (1, kernel, kernel, filters) if depthwise else (filters, kernel, kernel, depth)
        inputs = kernel * kernel * (1 if depthwise else depth)
        scales = [1 / (50 * inputs**0.5)] * filters
        dimension = 3 if depthwise else 0
        weights = main.tensor(shape, "int8", f"{name}/w", scale=scales, dimension=dimension, data="random")
        bias_scales = [scale * pixels for scale in scales]
        bias = main.tensor((filters,), "int32", f"{name}/b", scale=bias_scales, data=bytes(4 * filters))
        side = -(-side // stride)
        last_one = name == "scores"
        scale, zero_point, activation = (pixels / 8, 0, 0) if last_one else (pixels, -64, 3)
        out = main.tensor((1, side, side, filters), "int8", name, scale=scale, zero_point=zero_point)
        options = {"padding": 0, "stride_w": stride, "stride_h": stride, "fused_activation_function": activation}
        options |= {"dilation_w_factor": 1, "dilation_h_factor": 1} | ({"depth_multiplier": 1} if depthwise else {})
        main.op(code, [last, weights, bias], [out], options=options)
        last, depth = out, filters

    def channels(count: int) -> int:
        return max(8, int(count * width))

    layer("CONV_2D", "conv", channels(32), 3, 2)
    blocks = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]
    for number, (filters, stride) in enumerate(blocks):
        layer("DEPTHWISE_CONV_2D", f"depthwise{number}", depth, 3, stride)
        layer("CONV_2D", f"pointwise{number}", channels(filters), 1, 1)
    pooled = main.tensor((1, 1, 1, depth), "int8", "pooled", scale=pixels, zero_point=-64)
    pool = {"padding": 1, "stride_w": side, "stride_h": side, "filter_width": side, "filter_height": side}
    main.op("AVERAGE_POOL_2D", [last], [pooled], options={**pool, "fused_activation_function": 0})
    last, side = pooled, 1
    layer("CONV_2D", "scores", classes, 1, 1)
    shape = main.tensor((2,), "int32", "shape", data=(1).to_bytes(4, "little") + classes.to_bytes(4, "little"))
    flat = main.tensor((1, classes), "int8", "flat", scale=pixels / 8)
    main.op("RESHAPE", [last, shape], [flat], options={"new_shape": [1, classes]})
    probabilities = main.tensor((1, classes), "int8", "probabilities", scale=1 / 256, zero_point=-128)
    main.op("SOFTMAX", [flat], [probabilities], options={"beta": 4.0})
    main.outputs = [probabilities]
    return model.finish()

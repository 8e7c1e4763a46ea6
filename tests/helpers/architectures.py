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


class _Images:
    """Int8 layers with random weights, one after the other, on images of side x side x depth.

    Scales keep the activations of random inputs in the middle of their range, so that outputs depend on all layers.
    """

    pixels = 0.05

    def __init__(self, side: int, colours: int, seed: int) -> None:
        self.model = ModelBuilder(seed=seed)
        self.main = self.model.subgraph("main")
        self.side, self.depth = side, colours
        self.last = self.main.tensor((1, side, side, colours), "int8", "image", scale=self.pixels)
        self.main.inputs = [self.last]

    def layer(self, code: str, name: str, filters: int, kernel: int, stride: int, *, linear: bool = False) -> None:
        """A convolution with RELU6, or without."""
        main, depth = self.main, self.depth
        depthwise = code == "DEPTHWISE_CONV_2D"
        shape = (1, kernel, kernel, filters) if depthwise else (filters, kernel, kernel, depth)
        inputs = kernel * kernel * (1 if depthwise else depth)
        scales = [1 / (50 * inputs**0.5)] * filters
        dimension = 3 if depthwise else 0
        weights = main.tensor(shape, "int8", f"{name}/w", scale=scales, dimension=dimension, data="random")
        bias_scales = [scale * self.pixels for scale in scales]
        bias = main.tensor((filters,), "int32", f"{name}/b", scale=bias_scales, data=bytes(4 * filters))
        self.side = -(-self.side // stride)
        scale, zero_point, activation = (self.pixels / 8, 0, 0) if name == "scores" else (self.pixels, -64, 3)
        activation = 0 if linear else activation
        out = main.tensor((1, self.side, self.side, filters), "int8", name, scale=scale, zero_point=zero_point)
        options = {"padding": 0, "stride_w": stride, "stride_h": stride, "fused_activation_function": activation}
        options |= {"dilation_w_factor": 1, "dilation_h_factor": 1} | ({"depth_multiplier": 1} if depthwise else {})
        main.op(code, [self.last, weights, bias], [out], options=options)
        self.last, self.depth = out, filters

    def add(self, other: int) -> None:
        """The sum with an earlier tensor of the same shape."""
        shape = (1, self.side, self.side, self.depth)
        out = self.main.tensor(shape, "int8", f"sum{self.last}", scale=self.pixels, zero_point=-64)
        self.main.op("ADD", [self.last, other], [out], options={"fused_activation_function": 0})
        self.last = out

    def squeeze(self, name: str, between: int) -> None:
        """Scale each channel by a function, with `between` channels, of all averages (squeeze and excitation)."""
        main, image, (side, depth) = self.main, self.last, (self.side, self.depth)
        axes = main.tensor((2,), "int32", f"{name}/axes", data=b"\1\0\0\0\2\0\0\0")
        self.last, self.side = (
            main.tensor((1, 1, 1, depth), "int8", f"{name}/mean", scale=self.pixels, zero_point=-64),
            1,
        )
        main.op("MEAN", [image, axes], [self.last], options={"keep_dims": True})
        self.layer("CONV_2D", f"{name}/reduce", between, 1, 1)
        self.layer("CONV_2D", f"{name}/expand", depth, 1, 1, linear=True)
        scales = main.tensor((1, 1, 1, depth), "int8", f"{name}/scales", scale=1 / 256, zero_point=-128)
        main.op("LOGISTIC", [self.last], [scales])
        self.last, self.side = (
            main.tensor((1, side, side, depth), "int8", name, scale=self.pixels, zero_point=-64),
            side,
        )
        main.op("MUL", [image, scales], [self.last], options={"fused_activation_function": 0})

    def classified(self, classes: int) -> bytes:
        """The model, with an average over all pixels and a classifier at the end."""
        main, side = self.main, self.side
        pooled = main.tensor((1, 1, 1, self.depth), "int8", "pooled", scale=self.pixels, zero_point=-64)
        pool = {"padding": 1, "stride_w": side, "stride_h": side, "filter_width": side, "filter_height": side}
        main.op("AVERAGE_POOL_2D", [self.last], [pooled], options={**pool, "fused_activation_function": 0})
        self.last, self.side = pooled, 1
        self.layer("CONV_2D", "scores", classes, 1, 1)
        shape = main.tensor((2,), "int32", "shape", data=(1).to_bytes(4, "little") + classes.to_bytes(4, "little"))
        flat = main.tensor((1, classes), "int8", "flat", scale=self.pixels / 8)
        main.op("RESHAPE", [self.last, shape], [flat], options={"new_shape": [1, classes]})
        probabilities = main.tensor((1, classes), "int8", "probabilities", scale=1 / 256, zero_point=-128)
        main.op("SOFTMAX", [flat], [probabilities], options={"beta": 4.0})
        main.outputs = [probabilities]
        return self.model.finish()


def mobilenet(
    side: int = 96, width: float = 0.25, *, colours: int = 3, classes: int = 10, seed: int = 0, most: int = 13
) -> bytes:
    """MobileNet v1 in int8 with random weights, channels times `width`, for images of side x side x colours.

    It has at most `most` blocks.
    """
    net = _Images(side, colours, seed)

    def channels(count: int) -> int:
        return max(8, int(count * width))

    net.layer("CONV_2D", "conv", channels(32), 3, 2)
    blocks = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]
    for number, (filters, stride) in enumerate(blocks[:most]):
        net.layer("DEPTHWISE_CONV_2D", f"depthwise{number}", net.depth, 3, stride)
        net.layer("CONV_2D", f"pointwise{number}", channels(filters), 1, 1)
    return net.classified(classes)


def mobilenet_v2(side: int = 96, width: float = 0.35, *, colours: int = 3, classes: int = 10, seed: int = 0) -> bytes:
    """MobileNet v2 in int8 with random weights: inverted residuals, whose widest tensors are inside the blocks.

    Sandler et al. 2018, table 2: expansion, channels (times `width`, in multiples of 8), repeats and stride; the last
    convolution has as many channels as the last block.
    """
    net = _Images(side, colours, seed)

    def channels(count: int) -> int:
        return max(8, int(count * width + 4) // 8 * 8)

    net.layer("CONV_2D", "conv", channels(32), 3, 2)
    rows = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    blocks = [(factor, filters, first if n == 0 else 1) for factor, filters, count, first in rows for n in range(count)]
    for number, (factor, filters, stride) in enumerate(blocks):
        source, depth = net.last, net.depth
        if factor > 1:
            net.layer("CONV_2D", f"expand{number}", factor * depth, 1, 1)
        net.layer("DEPTHWISE_CONV_2D", f"depthwise{number}", net.depth, 3, stride)
        net.layer("CONV_2D", f"project{number}", channels(filters), 1, 1, linear=True)
        if stride == 1 and depth == net.depth:
            net.add(source)
    return net.classified(classes)


def efficientnet(side: int = 96, width: float = 0.25, *, colours: int = 3, most: int = 16) -> bytes:
    """EfficientNet-B0 in int8 with random weights and RELU6: each block scales its widest tensor by its averages.

    Tan and Le 2019, table 1: window, expansion, channels (times `width`, in multiples of 8), repeats and stride; at
    most so many blocks.
    """
    net = _Images(side, colours, 0)

    def channels(count: int) -> int:
        return max(8, int(count * width + 4) // 8 * 8)

    net.layer("CONV_2D", "conv", channels(32), 3, 2)
    rows = [(3, 1, 16, 1, 1), (3, 6, 24, 2, 2), (5, 6, 40, 2, 2), (3, 6, 80, 3, 2), (5, 6, 112, 3, 1)]
    rows += [(5, 6, 192, 4, 2), (3, 6, 320, 1, 1)]
    blocks = [(k, factor, n, s if first == 0 else 1) for k, factor, n, count, s in rows for first in range(count)]
    for number, (kernel, factor, filters, stride) in enumerate(blocks[:most]):
        source, depth = net.last, net.depth
        if factor > 1:
            net.layer("CONV_2D", f"expand{number}", factor * depth, 1, 1)
        net.layer("DEPTHWISE_CONV_2D", f"depthwise{number}", net.depth, kernel, stride)
        net.squeeze(f"squeeze{number}", max(1, depth // 4))
        net.layer("CONV_2D", f"project{number}", channels(filters), 1, 1, linear=True)
        if stride == 1 and depth == net.depth:
            net.add(source)
    return net.classified(10)

# SPDX-License-Identifier: Apache-2.0
"""Small models that several tests share."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tests.helpers.model_builder import ModelBuilder


def dense(**names: str) -> bytes:
    """An int8 FULLY_CONNECTED of 4 to 8; `names` may name its tensors x, w and y."""
    model = ModelBuilder()
    main = model.subgraph()
    x = main.tensor((1, 4), "int8", names.get("x", "x"), scale=0.5, zero_point=-1)
    w = main.tensor((8, 4), "int8", names.get("w", "w"), scale=0.25, data="random")
    y = main.tensor((1, 8), "int8", names.get("y", "y"), scale=0.5)
    main.op("FULLY_CONNECTED", [x, w, -1], [y], options={"fused_activation_function": 0})
    main.inputs, main.outputs = [x], [y]
    return model.finish()


def unary(code: str, kind: str = "int8", *, shape: Sequence[int] = (1, 8), out: str | None = None) -> bytes:
    """One operator from an input to an output of the same shape."""
    model = ModelBuilder()
    main = model.subgraph()
    scale = 0.5 if kind in ("int8", "int16") else None
    x = main.tensor(shape, kind, "x", scale=scale)
    y = main.tensor(shape, out or kind, "y", scale=scale)
    main.op(code, [x], [y])
    main.inputs, main.outputs = [x], [y]
    return model.finish()


def converted(outer: str = "float32", *, read_twice: bool = False) -> bytes:
    """int8 LEAKY_RELU between a QUANTIZE from `outer` and the conversion back to it; output 1 is int8 already.

    `read_twice`: another operator reads the input, too.
    """
    model = ModelBuilder()
    main = model.subgraph()
    scale = None if outer == "float32" else 0.05
    x, y = (main.tensor((1, 4, 2), outer, name, scale=scale) for name in ("x", "y"))
    inside, half = main.tensor((1, 4, 2), "int8", "inside", scale=0.05), main.tensor((1, 4, 2), "int8", scale=0.04)
    other = main.tensor((1, 4, 2), "int8", "z", scale=0.04)
    main.op("QUANTIZE", [x], [inside], options={})
    main.op("LEAKY_RELU", [inside], [half], options={"alpha": 0.25})
    main.op("RELU6", [half], [other])
    main.op("DEQUANTIZE" if outer == "float32" else "QUANTIZE", [half], [y], options={})
    main.inputs, main.outputs = [x], [y, other]
    if read_twice:
        copy = main.tensor((1, 4, 2), outer, scale=scale)
        main.op("RESHAPE", [x], [copy], options={})
        main.outputs += [copy]
    return model.finish()


def legacy(seed: int = 1) -> bytes:
    """A network of uint8 as TensorFlow 1 made them: weights of one scale and any zero point."""
    model = ModelBuilder(seed=seed)
    main = model.subgraph()
    rng = model.rng

    def tensor(shape: Sequence[int], kind: str = "uint8", *, constant: bool = False) -> int:
        scale, data = rng.uniform(0.02, 0.05), "random" if constant else None
        return main.tensor(shape, kind, data=data, scale=scale, zero_point=rng.randrange(90, 160))

    def weighted(key: str, source: int, weights: Sequence[int], output: Sequence[int], **options: int) -> int:
        channels = output[-1]
        filters, result = tensor(weights, constant=True), tensor(output)
        product = main.tensors[source].scales[0] * main.tensors[filters].scales[0]
        bias = main.tensor((channels,), "int32", data=struct.pack(f"<{channels}i", *range(channels)), scale=product)
        main.op(key, [source, filters, bias], [result], options={"fused_activation_function": 1, **options})
        return result

    window = {"padding": 0, "stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1}
    x = tensor((1, 8, 8, 3))
    first = weighted("CONV_2D", x, (4, 3, 3, 3), (1, 8, 8, 4), **window)
    second = weighted("DEPTHWISE_CONV_2D", first, (1, 3, 3, 4), (1, 8, 8, 4), depth_multiplier=1, **window)
    third = weighted("CONV_2D", second, (6, 1, 1, 4), (1, 8, 8, 6), **window)
    pooled, flat, out = tensor((1, 1, 1, 6)), tensor((1, 6)), main.tensor((1, 5), "uint8", scale=2.0**-8)
    pool = {"padding": 1, "stride_h": 8, "stride_w": 8, "filter_height": 8, "filter_width": 8}
    main.op("AVERAGE_POOL_2D", [third], [pooled], options=pool)
    main.op("RESHAPE", [pooled], [flat], options={"new_shape": [1, 6]})
    dense_out = weighted("FULLY_CONNECTED", flat, (5, 6), (1, 5))
    main.op("SOFTMAX", [dense_out], [out], options={"beta": 1.0})
    main.inputs, main.outputs = [x], [out]
    return model.finish()

# SPDX-License-Identifier: Apache-2.0
"""Small models that several tests share."""

from __future__ import annotations

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

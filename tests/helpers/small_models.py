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

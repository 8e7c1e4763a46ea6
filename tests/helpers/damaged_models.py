# SPDX-License-Identifier: Apache-2.0
"""Models that the reader must take or refuse."""

from __future__ import annotations

import random
import struct
from typing import Any

from tests.helpers.model_builder import ModelBuilder


def rich(**finish: Any) -> bytes:
    """A bit of everything."""
    model = ModelBuilder(seed=3)
    main, then, other = model.subgraph("main"), model.subgraph("then"), model.subgraph("else")
    for graph in (then, other):
        x = graph.tensor((1, 8), "int8", "x", scale=0.5)
        w = graph.tensor((8, 8), "int8", "w", scale=[0.25] * 8, data="random")
        y = graph.tensor((1, 8), "int8", "y", scale=0.5, zero_point=-3)
        graph.op("FULLY_CONNECTED", [x, w, -1], [y], options={"fused_activation_function": 1})
        graph.inputs, graph.outputs = [x], [y]
    flag = main.tensor((), "bool", "flag")
    x, y, z = (main.tensor((1, 8), "int8", name, scale=0.5, signature=(-1, 8)) for name in "xyz")
    main.tensor((4,), "int8", "state", variable=True)
    main.op("IF", [flag, x], [y], options={"then_subgraph_index": 1, "else_subgraph_index": 2})
    main.op("CUSTOM", [y], [z], custom_code="SignalWindow", custom_options=b"abc", version=2)
    main.op("SQUEEZE", [y], [z], options={"squeeze_dims": [0, 2]})
    main.op("BROADCAST_ARGS", [y], [z])
    main.inputs, main.outputs = [flag, x], [z]
    count = sum(len(s.tensors) for s in model.subgraphs)
    model.metadata("OfflineMemoryAllocation", struct.pack(f"<{3 + count}i", 1, 3, count, *range(count)))
    model.metadata("other", b"hi")
    return model.finish(**finish)


def damaged(data: bytes, rng: random.Random) -> bytes:
    """A few bytes, words or offsets changed, with a liking for awkward values."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        pos, kind = rng.randrange(len(out) - 8), rng.random()
        if kind < 0.4:
            out[pos] = rng.randrange(256)
        elif kind < 0.6:
            out[pos] = rng.choice((0, 1, 2, 4, 0x7F, 0x80, 0xFF))
        elif kind < 0.8:
            value = rng.choice((-1, 0, 1, 4, len(out), 2**31 - 1, -(2**31), rng.randrange(len(out))))
            struct.pack_into("<i", out, pos & ~3, value)
        else:
            struct.pack_into("<H", out, pos & ~1, rng.choice((0, 2, 4, 8, 0xFFFF, rng.randrange(64))))
    return bytes(out)

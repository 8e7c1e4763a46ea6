# SPDX-License-Identifier: Apache-2.0
"""Models made for the tests on real Zephyr."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tests.builder import ModelBuilder


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

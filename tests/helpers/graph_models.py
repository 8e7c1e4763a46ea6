# SPDX-License-Identifier: Apache-2.0
"""Models whose arena heads differ by planner."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.helpers.heads import plan_head
from tests.helpers.model_builder import ModelBuilder
from tflm_zephyr.kernels.core import Core
from tflm_zephyr.kernels.library import KernelLibrary
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.kernels.spec import Kernel
from tflm_zephyr.model.reader import parse_model
from tflm_zephyr.model.types import Model


def library(scratch: Callable[[Node], tuple[int, ...]] | None = None, keys: str = "RELU ADD") -> KernelLibrary:
    """Kernels of which those of `keys` are known and RELU asks for `scratch`."""
    known = {key: Kernel() for key in keys.split()}
    if scratch is not None:
        known["RELU"] = Kernel(lambda node, core: scratch(node))
    return KernelLibrary("fake", Core(), known)


def graph_model(sizes: list[int], links: list[tuple[list[int], int]], variables: tuple[int, ...] = ()) -> Model:
    """A model of RELU and ADD_N: tensor 0 is the input, each link writes a tensor from others, the last the output."""
    builder = ModelBuilder()
    main = builder.subgraph()
    for i, size in enumerate(sizes):
        main.tensor((1, size), "int8", f"t{i}", scale=0.5, variable=i in variables)
    for inputs, output in links:
        main.op("RELU" if len(inputs) == 1 else "ADD", inputs, [output])
    main.inputs, main.outputs = [0], [links[-1][1]]
    return parse_model(builder.finish(), where="m.tflite")


def fits_not_greedy() -> Model:
    """A chain whose greedy head (96) is above its lower bound (80)."""
    for seed in range(2000):
        rng = random.Random(seed)
        sizes = [16 * rng.randrange(1, 5) for _ in range(7)]
        links = [([i], i + 1) for i in range(4)] + [([1, 4], 5), ([2, 5], 6)]
        model = graph_model(sizes, links)
        head = plan_head(model, library())
        if head.greedy_bytes > head.packed_bytes == head.lower_bound_bytes:
            return model
    raise AssertionError("no such graph")

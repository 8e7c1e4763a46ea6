# SPDX-License-Identifier: Apache-2.0
"""Models for the engines on the host."""

from __future__ import annotations

from tests.helpers.model_builder import ModelBuilder


def svdf() -> bytes:
    """An int8 SVDF, whose state is a variable tensor."""
    model = ModelBuilder(seed=3)
    main = model.subgraph("main")
    x = main.tensor((1, 4), "int8", "x", scale=0.1)
    feature = main.tensor((2, 4), "int8", "feature", scale=0.02, data="random")
    time_weights = main.tensor((2, 3), "int16", "time", scale=0.0005, data="random")
    bias = main.tensor((2,), "int32", "bias", scale=0.000001, data=bytes(8))
    state = main.tensor((1, 6), "int16", "state", scale=0.002, variable=True)
    y = main.tensor((1, 2), "int8", "y", scale=0.5)
    main.op("SVDF", [x, feature, time_weights, bias, state], [y], options={"rank": 1})
    main.inputs, main.outputs = [x], [y]
    return model.finish()


def unknown_operator() -> bytes:
    """A model with a custom operator that nobody registers."""
    model = ModelBuilder()
    main = model.subgraph("main")
    x, y = main.tensor((1, 4), "float32", "x"), main.tensor((1, 4), "float32", "y")
    main.op("CUSTOM", [x], [y], custom_code="NobodyKnowsMe")
    main.inputs, main.outputs = [x], [y]
    return model.finish()

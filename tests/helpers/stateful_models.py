# SPDX-License-Identifier: Apache-2.0
"""A model for one window of a signal after the other: convolutions, and a state that lasts between windows."""

from __future__ import annotations

import numpy

from tests.helpers.model_builder import ModelBuilder

WINDOW = (1, 14, 6, 2)
"""The input's shape."""


def stateful(*, seed: int = 0) -> bytes:
    """Two convolutions, and an SVDF that remembers five windows."""
    model = ModelBuilder(seed=seed)
    main = model.subgraph()
    source = main.tensor(WINDOW, "int8", "window", scale=0.05, zero_point=3)
    first = main.tensor((1, 12, 4, 4), "int8", scale=0.04, zero_point=-5)
    second = main.tensor((1, 5, 2, 4), "int8", scale=0.04, zero_point=2)
    flat = main.tensor((1, 40), "int8", scale=0.04, zero_point=2)
    for given, taken, depth, stride in ((source, first, 2, 1), (first, second, 4, 2)):
        weights = main.tensor((4, 3, 3, depth), "int8", scale=[0.02] * 4, data="random")
        bias = main.tensor((4,), "int32", scale=[0.001] * 4, data=bytes(16))
        main.op(
            "CONV_2D", [given, weights, bias], [taken], options={"padding": 1, "stride_h": stride, "stride_w": stride}
        )
    main.op(
        "RESHAPE",
        [second, main.tensor((2,), "int32", data=numpy.array((1, 40), "int32"))],
        [flat],
        options={"new_shape": [1, 40]},
    )
    values = numpy.array([97 * (k % 19) - 900 for k in range(30)], "int16")
    features = main.tensor((6, 40), "int8", scale=0.01, data="random")
    state = main.tensor((1, 5 * 6), "int16", "state", scale=0.001, variable=True)
    times = main.tensor((6, 5), "int16", scale=0.0002, data=values)
    bias = main.tensor((6,), "int32", scale=0.0000002, data=bytes(24))
    result = main.tensor((1, 6), "int8", "result", scale=0.02)
    main.op("SVDF", [flat, features, times, bias, state], [result], options={"rank": 1, "fused_activation_function": 0})
    main.inputs, main.outputs = [source], [result]
    return model.finish()

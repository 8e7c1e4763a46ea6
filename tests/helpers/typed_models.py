# SPDX-License-Identifier: Apache-2.0
"""Small models by operator and tensor types."""

from __future__ import annotations

from typing import Any

from tests.helpers.model_builder import ModelBuilder
from tflm_zephyr.model.reader import parse_model
from tflm_zephyr.model.types import Model

CONV = {"padding": 0, "stride_w": 1, "stride_h": 1, "dilation_w_factor": 1, "dilation_h_factor": 1}


def model_of(
    key: str,
    inputs: list[dict[str, Any] | None],
    outputs: list[dict[str, Any]],
    *,
    intermediates: list[dict[str, Any]] | None = None,
    **keywords: Any,
) -> Model:
    """One operator; each tensor a dict of arguments for SubgraphBuilder.tensor."""
    model = ModelBuilder()
    main = model.subgraph()

    def add(name: str, values: dict[str, Any] | None) -> int:
        return -1 if values is None else main.tensor(**{"shape": (1, 4), "name": name, **values})

    ins = [add(f"in{k}", values) for k, values in enumerate(inputs)]
    outs = [add(f"out{k}", values) for k, values in enumerate(outputs)]
    extra = [add(f"im{k}", values) for k, values in enumerate(intermediates or [])]
    main.op(key, ins, outs, intermediates=extra, **keywords)
    main.inputs = [i for i, v in zip(ins, inputs, strict=True) if v and "data" not in v and not v.get("variable")]
    main.outputs = outs
    return parse_model(model.finish())


def dense(
    source: str, weights: str, output: str, bias: str | None = None, scales: Any = 0.5, bias_scale: float = 0.25
) -> Model:
    return model_of(
        "FULLY_CONNECTED",
        [
            {"type": source, "scale": 0.5},
            {"shape": (8, 4), "type": weights, "data": "random", "scale": scales},
            {"shape": (8,), "type": bias, "data": "random", "scale": bias_scale} if bias else None,
        ],
        [{"shape": (1, 8), "type": output, "scale": 1.0}],
    )


def conv(scales: Any, *, input_scale: float | None = 0.5, dimension: int = 0) -> Model:
    return model_of(
        "CONV_2D",
        [
            {"shape": (1, 4, 4, 2), "scale": input_scale},
            {"shape": (3, 2, 2, 2), "data": "random", "scale": scales, "dimension": dimension},
            None,
        ],
        [{"shape": (1, 4, 4, 3), "scale": 1.0}],
        options=CONV,
    )


def lstm(**changes: dict[str, Any] | None) -> Model:
    inputs: list[dict[str, Any] | None] = [None] * 24
    inputs[0] = {"shape": (1, 2, 3), "scale": 0.5}
    for place in range(1, 9):
        inputs[place] = {"shape": (4, 3 if place < 5 else 4), "data": "random", "scale": 0.5}
    for place in range(12, 16):
        inputs[place] = {"shape": (4,), "type": "int32", "data": "random", "scale": 0.25}
    inputs[18] = {"variable": True, "scale": 0.5}
    inputs[19] = {"type": "int16", "variable": True, "scale": 2.0**-11}
    for place, values in changes.items():
        inputs[int(place[1:])] = values
    return model_of("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [{"shape": (1, 2, 4), "scale": 0.5}])

# SPDX-License-Identifier: Apache-2.0
"""How much of a model CMSIS-NN would compute: multiply-accumulates, by the definitions of TFLite's operators.

An operator that is no sum of products counts the elements that it reads or writes. What CMSIS-NN's kernels hand to
the reference code (kernels.variants) counts nothing.
"""

from __future__ import annotations

from math import prod

from tflm_zephyr.kernels.variants import OperatorUse, has_cmsis_nn, uses_of, why_reference
from tflm_zephyr.model import Model, Tensor


def cmsis_nn_work(model: Model) -> int:
    """Multiply-accumulates of one Invoke() that CMSIS-NN's kernels compute, each subgraph run once."""
    return sum(
        _work(use)
        for key, uses in uses_of(model).items()
        if has_cmsis_nn(key)
        for use in uses
        if not why_reference(use)
    )


def _work(use: OperatorUse) -> int:
    out, weights = _tensor(use, "o", 0), _tensor(use, "i", 1)
    if out is None:
        return 0
    elements = prod(out.shape)
    first = _tensor(use, "i", 0)
    key = use.operator.key
    if weights is not None and len(weights.shape) == 4 and key == "CONV_2D":
        return elements * prod(weights.shape[1:])
    if weights is not None and len(weights.shape) == 4 and key == "DEPTHWISE_CONV_2D":
        return elements * weights.shape[1] * weights.shape[2]
    if weights is not None and weights.shape and key == "FULLY_CONNECTED":
        return elements * weights.shape[-1]
    if weights is not None and key == "TRANSPOSE_CONV":
        source = _tensor(use, "i", 2)
        return 0 if source is None else prod(source.shape) * prod(weights.shape[:3])
    if first is not None and first.shape and key == "BATCH_MATMUL":
        return elements * first.shape[-1]
    if first is not None and first.shape and key in ("SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM"):
        constant = [use.subgraph.tensors[i] for i in use.operator.inputs if i >= 0]
        return prod(first.shape[:-1]) * sum(prod(tensor.shape) for tensor in constant if tensor.is_constant)
    return max([elements, *([prod(first.shape)] if first is not None else [])])


def _tensor(use: OperatorUse, side: str, place: int) -> Tensor | None:
    indices = use.operator.inputs if side == "i" else use.operator.outputs
    if place >= len(indices) or indices[place] < 0:
        return None
    return use.subgraph.tensors[indices[place]]

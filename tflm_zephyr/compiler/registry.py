# SPDX-License-Identifier: Apache-2.0
"""All operators with compiled code, by key; their families' files have the entries."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from tflm_zephyr.compiler.lowering import Lowering
from tflm_zephyr.compiler.operators import (
    activation,
    arithmetic,
    convolution,
    dense,
    joining,
    layout,
    matmul,
    pooling,
    rectifiers,
    recurrent,
    reductions,
    resize,
    slicing,
)
from tflm_zephyr.kernels import Node
from tflm_zephyr.model import TensorType

_FAMILIES = (
    activation,
    arithmetic,
    convolution,
    dense,
    joining,
    layout,
    matmul,
    pooling,
    rectifiers,
    recurrent,
    reductions,
    resize,
    slicing,
)
OPERATORS: Mapping[str, Lowering] = dict(chain.from_iterable(family.OPERATORS.items() for family in _FAMILIES))


def runs_legacy(node: Node) -> bool:
    """Whether compiled code alone runs the operator, as its tensors are of uint8."""
    lowering, operator = OPERATORS.get(node.operator.key), node.operator
    if lowering is None or not lowering.legacy or operator.custom_code is not None:
        return False
    tensors = [node.subgraph.tensors[i] for i in (*operator.inputs, *operator.outputs) if i >= 0]
    return any(tensor.type is TensorType.UINT8 for tensor in tensors)


FAST_KEYS = tuple(sorted(key for key, lowering in OPERATORS.items() if lowering.own))
"""Operators that have some of our own kernels."""

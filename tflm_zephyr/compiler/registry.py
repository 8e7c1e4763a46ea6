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
FAST_KEYS = tuple(sorted(key for key, lowering in OPERATORS.items() if lowering.own))
"""Operators that have some of our own kernels."""

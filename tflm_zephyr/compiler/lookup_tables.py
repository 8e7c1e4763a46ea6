# SPDX-License-Identifier: Apache-2.0
"""Lookup tables that TFLM's kernels fill in Prepare, each step in float32 as there.

Source: LUTPopulateInt16 in tensorflow/lite/kernels/internal/common.h, InitializeLutForInt16 in softmax_common.cc.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

from tflm_zephyr.compiler.fixed_point import float32, rounded

_STEPS = 512
_LEAST, _MOST = -32768, 32767
_RANGE = _MOST - _LEAST


def int16_table(
    input_scale: float, input_zero_point: int, output_scale: float, transform: Callable[[float], float]
) -> tuple[int, ...]:
    """`transform` at 513 places of the input's range, each moved by half of the error that interpolation makes."""
    first = float32(input_scale * (_LEAST - input_zero_point))
    last = float32(input_scale * (_MOST - input_zero_point))
    step = float32(float32(last - first) / _STEPS)
    lowest, highest = float32(output_scale * _LEAST), float32(output_scale * _MOST)
    scaling = float32((_RANGE + 1) / float32(highest - lowest))

    def scaled(place: float) -> float:
        return float32(float32(transform(place)) * scaling)

    found = []
    for i in range(_STEPS):
        place = float32(first + float32(i * step))
        following = scaled(float32(first + float32((i + 1) * step)))
        sample = rounded(scaled(place))
        between = rounded(float32(float32(following + sample) / 2))
        middle = rounded(scaled(float32(place + float32(step / 2))))
        found.append(sample - rounded(float32((between - middle) / 2)))
    found.append(rounded(scaled(last)))
    return tuple(min(max(value, _LEAST), _MOST) for value in found)


@cache
def exp_table() -> tuple[int, ...]:
    """exp(x) from -10 to 0, for SOFTMAX in int16."""
    return int16_table(float32(10.0 / _RANGE), _MOST, float32(2.0 / _RANGE), math.exp)


@cache
def reciprocal_table() -> tuple[int, ...]:
    """1 / (1 + x) from 0 to 1, for SOFTMAX in int16."""
    return int16_table(float32(1.0 / _RANGE), _LEAST, float32(2.0 / _RANGE), lambda x: float32(1.0 / float32(1.0 + x)))

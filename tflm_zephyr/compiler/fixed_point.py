# SPDX-License-Identifier: Apache-2.0
"""Quantisation arithmetic of TFLM's Prepare functions: multipliers with shifts, clamps, in the same float types.

Sources: tensorflow/lite/kernels/internal/quantization_util.cc and tensorflow/lite/kernels/kernel_util.cc at revision
8d404de7, compiled without TFLITE_SINGLE_ROUNDING. Scales are float32 in the file; Python's floats are C's doubles.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from functools import lru_cache

from tflm_zephyr.model import TensorType

NONE, RELU, RELU_N1_TO_1, RELU6 = 0, 1, 2, 3
"""ActivationFunctionType of the schema: the fused activations that TFLM's kernels clamp for."""

LIMITS = {
    TensorType.INT8: (-128, 127),
    TensorType.UINT8: (0, 255),
    TensorType.INT16: (-32768, 32767),
    TensorType.INT32: (-(2**31), 2**31 - 1),
}
"""Least and greatest value of an integer type."""
_FLOAT_RANGES = {RELU: (0.0, None), RELU_N1_TO_1: (-1.0, 1.0), RELU6: (0.0, 6.0)}
FLOAT_LIMIT = 3.4028234663852886e38
"""std::numeric_limits<float>::max()."""


@dataclass(frozen=True)
class Multiplier:
    """A real multiplier as value * 2^(shift - 31), value of 31 bits; shift is positive to the left."""

    value: int
    shift: int


def float32(value: float) -> float:
    """`value` rounded to float32, as a C float holds it."""
    found: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return found


def finite(value: float) -> float:
    """The value. ArithmeticError for an infinite one, and for no number."""
    if not math.isfinite(value):
        raise ArithmeticError(f"{value} is no finite number")
    return float(value)


def rounded(value: float) -> int:
    """std::round: to the nearest integer, halves away from zero."""
    low = math.floor(abs(value))
    magnitude = low + (abs(value) - low >= 0.5)
    return -magnitude if value < 0 else magnitude


@lru_cache(maxsize=1 << 16)
def multiplier(real: float) -> Multiplier:
    """QuantizeMultiplier()."""
    if real == 0.0:
        return Multiplier(0, 0)
    if not math.isfinite(real):
        raise ArithmeticError(f"{real} is no multiplier")
    fraction, shift = math.frexp(real)
    value = rounded(fraction * 2.0**31)
    if value == 1 << 31:
        value //= 2
        shift += 1
    return Multiplier(0, 0) if shift < -31 else Multiplier(value, shift)


def logarithm(scale: float) -> float:
    """The binary logarithm that CheckedLog2() rounds, in float32. ArithmeticError for what has none."""
    if not (math.isfinite(scale) and scale > 0):
        raise ArithmeticError(f"{scale} has no logarithm")
    return float32(float32(math.log(scale)) * float32(1.0 / float32(math.log(2.0))))


def activation_range(activation: int, kind: TensorType, scale: float, zero_point: int) -> tuple[int, int]:
    """CalculateActivationRangeQuantized(): the clamp of an integer output, both ends included."""
    low, high = LIMITS[kind]
    least, most = _FLOAT_RANGES.get(activation, (None, None))
    if least is not None:
        low = max(low, quantised(least, scale, zero_point))
    if most is not None:
        high = min(high, quantised(most, scale, zero_point))
    return low, high


def float_range(activation: int) -> tuple[float, float]:
    """CalculateActivationRange(): the clamp of a float output."""
    least, most = _FLOAT_RANGES.get(activation, (None, None))
    return -FLOAT_LIMIT if least is None else least, FLOAT_LIMIT if most is None else most


def quantised(real: float, scale: float, zero_point: int) -> int:
    """The quantised value of `real`, divided in float32."""
    found = float32(float32(real) / float32(scale))
    if not math.isfinite(found):
        raise ArithmeticError(f"{real} has no quantised value with a scale of {scale}")
    return zero_point + rounded(found)


def softmax_scaling(beta: float, scale: float) -> tuple[Multiplier, int]:
    """PreprocessSoftmaxScaling() with 5 integer bits, and diff_min = -CalculateInputRadius(5, shift)."""
    bits = 5
    real = min(float32(beta) * float32(scale) * (1 << (31 - bits)), 2.0**31 - 1.0)
    found = multiplier(real)
    if found.shift < 0:
        raise ArithmeticError("a scale that TFLM's Prepare shifts by less than nothing")
    radius = 1.0 * ((1 << bits) - 1) * (1 << (31 - bits)) / (1 << found.shift)
    return found, -math.floor(radius)

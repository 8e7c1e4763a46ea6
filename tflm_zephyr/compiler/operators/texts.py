# SPDX-License-Identifier: Apache-2.0
"""Numbers as C++ expressions, and CMSIS-NN's small structs."""

from __future__ import annotations

import math


def float_text(value: float) -> str:
    """A float literal that reads back as the same float32."""
    if not math.isfinite(value):
        raise ArithmeticError(f"{value} is no finite float")
    text = f"{value:.9g}"
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def double_text(value: float) -> str:
    """A double literal that reads back as the same double."""
    if not math.isfinite(value):
        raise ArithmeticError(f"{value} is no finite double")
    return repr(float(value))


def tile(pair: tuple[int, int]) -> str:
    """A cmsis_nn_tile of height and width."""
    height, width = pair
    return f"{{{width}, {height}}}"


def limits(pair: tuple[int, int]) -> str:
    """A cmsis_nn_activation of both ends."""
    least, most = pair
    return f"{{{least}, {most}}}"

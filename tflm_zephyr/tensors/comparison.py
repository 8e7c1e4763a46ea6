# SPDX-License-Identifier: Apache-2.0
"""The difference of two versions of a tensor's bytes: its place and its size."""

from __future__ import annotations

from dataclasses import dataclass

from tflm_zephyr.errors import ModelError
from tflm_zephyr.tensors.quantisation import TensorForm, TensorLike, raw_elements

FLOAT_TOLERANCE = 1e-5
"""Floats this far apart, relative to the reference where that is above 1, count as close (kFloatTolerance in the
app's self_test.cpp): compilers fuse and order float operations in different ways."""


@dataclass(frozen=True)
class Difference:
    """`differing` of `count` elements; the first at index `at` was `got`, not `want`. `largest` is in elements.

    `close`: floats, all within FLOAT_TOLERANCE. `largest_real`: `largest` in the tensor's own unit.
    """

    differing: int
    count: int
    at: tuple[int, ...]
    got: float
    want: float
    largest: float
    largest_real: float
    close: bool


def compare_tensors(tensor: TensorLike, got: bytes, want: bytes) -> Difference | None:
    """None where both are the same, byte for byte. Raises ValueError for another number of bytes."""
    import numpy

    if got == want:
        return None
    if len(got) != len(want):
        raise ValueError(f"{tensor.name}: {len(got)} bytes beside {len(want)}")
    try:
        one, other = (raw_elements(tensor, data) for data in (got, want))
    except ModelError:  # a type that numpy lacks is compared as bytes
        tensor = TensorForm(tensor.name, "uint8", (len(got),), None, 0)
        one, other = (raw_elements(tensor, data) for data in (got, want))
    floats = one.dtype.kind == "f"
    wide = numpy.float64 if floats else object  # Python's integers lose no difference
    bits = one.view(f"u{one.itemsize}") != other.view(f"u{one.itemsize}")
    with numpy.errstate(invalid="ignore", over="ignore"):
        apart = numpy.abs(one.astype(wide) - other.astype(wide))
    if floats:
        both = numpy.isnan(one) & numpy.isnan(other)
        allowed = FLOAT_TOLERANCE * numpy.maximum(numpy.abs(other.astype(numpy.float64)), 1.0)
        close = bool((both | (one == other) | (numpy.isfinite(other) & (apart <= allowed))).all())
        apart = numpy.where(both | (one == other), 0.0, numpy.where(numpy.isnan(apart), numpy.inf, apart))
    else:
        close = False
    first = int(numpy.flatnonzero(bits)[0])
    shape = tuple(tensor.shape) or (1,)
    largest = float(apart.max())
    return Difference(
        differing=int(bits.sum()),
        count=one.size,
        at=tuple(int(k) for k in numpy.unravel_index(first, shape)),
        got=float(one[first]),
        want=float(other[first]),
        largest=largest,
        largest_real=largest * (tensor.scale or 1.0),
        close=close,
    )

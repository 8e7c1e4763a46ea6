# SPDX-License-Identifier: Apache-2.0
"""Weights in the order in which our kernels read them: see templates/app/compiled/src/fast_kernels.hpp.j2."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Weights = NDArray[numpy.int8]

LANES = 4


def in_pairs(weights: Weights) -> bytes:
    """weights[channel, tap] with two channels alternating; of each four taps the middle ones change places."""
    import numpy

    taps = weights.shape[1]
    order = numpy.arange(taps)
    whole = taps // 4 * 4
    order[:whole] = order[:whole].reshape(-1, 4)[:, [0, 2, 1, 3]].reshape(-1)
    table = _filled(weights[:, order], 2)
    return bytes(table.reshape(-1, 2, taps).transpose(0, 2, 1).tobytes())


def can_join(weights: NDArray[numpy.int64]) -> bool:
    """Whether 256 * b + a is an int16 for each tap of each pair of channels a and b."""
    ones, twos = weights[:-1:2], weights[1::2]
    return bool((256 * twos + ones >= -(1 << 15)).all())


def joined_pairs(weights: Weights) -> bytes:
    """The same as in_pairs() with the int16 256 * b + a for each tap of channels a and b, low byte first."""
    import numpy

    table = _filled(weights, 2).astype(numpy.int16)
    table[1::2] -= table[::2] < 0
    return in_pairs(table.astype(numpy.int8))


def in_lanes(weights: Weights) -> bytes:
    """weights[channel, tap] with the taps of four channels side by side."""
    table = _filled(weights, LANES)
    return bytes(table.reshape(-1, LANES, weights.shape[1]).transpose(0, 2, 1).tobytes())


def _filled(weights: Weights, channels: int) -> Weights:
    """`weights` with zeros up to a multiple of `channels`."""
    import numpy

    return numpy.pad(weights, ((0, -len(weights) % channels), (0, 0)))

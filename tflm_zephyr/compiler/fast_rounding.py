# SPDX-License-Identifier: Apache-2.0
"""A layer's requantisation for our own kernels: the class of the C++ that computes it, and each channel's words.

The classes are in templates/app/compiled/src/fast_kernels.hpp.j2. The first word of a channel is its bias with the
input's offset folded in; all forms but TFLM's own arithmetic are proven for the layer's sums (fast_kernels.prove).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from tflm_zephyr.compiler.fixed_point import Multiplier
from tflm_zephyr.compiler.ir.kernels import Rounding
from tflm_zephyr.fast_kernels import (
    OneFloor,
    Reach,
    Scaling,
    can_join,
    one_floor,
    reach_of,
    two_floors,
)

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

_GAIN = 256
_SUMS = 2**31
_KEPT = 256  # layers, whose search takes far longer than all else: a model's are made for each way to run it


class NotFastError(Exception):
    """The operator has none of our kernels; the text says why."""


@dataclass(frozen=True, eq=False)
class Sums:
    """A layer's sums of products: weights[channel, tap], each channel's bias and multiplier. Equal by content."""

    weights: NDArray[numpy.int64]
    bias: tuple[int, ...]
    multipliers: tuple[Multiplier, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sums) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        return self.weights.shape, self.weights.tobytes(), self.bias, self.multipliers

    @property
    def channels(self) -> int:
        """Output channels."""
        return len(self.bias)

    def filled(self) -> Sums:
        """The same with taps of zeros up to a multiple of four."""
        import numpy

        return Sums(numpy.pad(self.weights, ((0, 0), (0, -self.weights.shape[1] % 4))), self.bias, self.multipliers)

    def some(self, channels: slice) -> Sums:
        """The same for some channels."""
        return Sums(self.weights[channels], self.bias[channels], self.multipliers[channels])


@dataclass(frozen=True)
class Quantities:
    """Sums with the input's zero point `source`, and the output's zero point and clamp."""

    sums: Sums
    source: int
    zero_point: int
    least: int
    most: int

    @property
    def scaling(self) -> Scaling:
        """TFLM's parameters."""
        values = tuple(one.value for one in self.sums.multipliers)
        shifts = tuple(one.shift for one in self.sums.multipliers)
        return Scaling(values, shifts, self.zero_point, self.least, self.most)

    @property
    def reach(self) -> Reach:
        """The sums that inputs can lead to."""
        return reach_of(self.sums.weights, self.sums.bias, self.source)

    def some(self, channels: slice) -> Quantities:
        """The same for some channels."""
        return Quantities(self.sums.some(channels), self.source, self.zero_point, self.least, self.most)

    def folded(self, offsets: tuple[int, ...]) -> list[int]:
        """Each channel's bias plus its offset, with the input's offset folded in."""
        rows = zip(self.sums.bias, offsets, self.sums.weights, strict=True)
        return [bias + offset - self.source * int(row.sum()) for bias, offset, row in rows]

    def largest(self, starts: list[int]) -> list[int]:
        """The largest magnitude that each channel's sum can have on the way."""
        rows = zip(starts, self.sums.weights, strict=True)
        return [abs(start) + 128 * int(abs(row).sum()) for start, row in rows]


@dataclass(frozen=True)
class Requantisation:
    """The class of the C++, and each channel's words."""

    rounding: Rounding
    words: list[tuple[int, ...]]


@lru_cache(maxsize=_KEPT)
def requantisation(of: Quantities) -> Requantisation:
    """The cheapest form that is proven, or TFLM's arithmetic. NotFastError for sums beyond 32 bits."""
    rounding, offsets, words = _form(of)
    starts = of.folded(offsets)
    if max(of.largest(starts)) >= _SUMS:
        raise NotFastError("has sums beyond 32 bits")
    return Requantisation(rounding, [(start, *row) for start, row in zip(starts, words, strict=True)])


@lru_cache(maxsize=_KEPT)
def joined(of: Quantities) -> Requantisation | None:
    """The floor form for joined weights of pairs of channels; None where weights, sums or constants forbid it."""
    sums = of.sums
    if sums.channels < 2 or sums.weights.shape[1] % 4 or not can_join(sums.weights):
        return None
    ones, twos = of.some(slice(0, None, 2)), of.some(slice(1, None, 2))
    one, two = _floor(ones, 1), _floor(twos, _GAIN)
    if one is None or two is None:
        return None
    evens, odds = ones.folded(one.offsets), twos.folded(two.offsets)
    largest = zip(ones.largest(evens), twos.largest(odds), strict=False)
    if max(low + _GAIN * high for low, high in largest) >= _SUMS or max(ones.largest(evens)) >= _SUMS:
        return None
    words: list[tuple[int, ...]] = [()] * sums.channels
    words[::2] = list(zip(evens, one.multipliers, one.addends, strict=True))
    starts = [even + _GAIN * odd for even, odd in zip(evens, odds, strict=False)]
    words[1::2] = list(zip(starts, two.multipliers, two.addends, strict=True))
    return Requantisation(Rounding("Joined", (_class(one), _class(two))), words)


def _floor(of: Quantities, gain: int) -> OneFloor | None:
    return one_floor(of.scaling, of.reach, gain=gain)


def _class(form: OneFloor) -> Rounding:
    return Rounding("OneFloor", (form.shift, form.least, form.most))


def _form(of: Quantities) -> tuple[Rounding, tuple[int, ...], list[tuple[int, ...]]]:
    """The class, an offset to add to each bias, and each channel's other words."""
    scaling, reach, none = of.scaling, of.reach, (0,) * of.sums.channels
    words: list[tuple[int, ...]]
    floor = _floor(of, 1)
    if floor is not None:
        return _class(floor), floor.offsets, list(zip(floor.multipliers, floor.addends, strict=True))
    floors = two_floors(scaling, reach)
    if floors is not None:
        words = list(zip(floors.multipliers, floors.shifts, strict=True))
        return Rounding("TwoFloors", (of.zero_point, of.least, of.most)), none, words
    most = max(map(abs, (*reach.low, *reach.high)))
    if most << max(0, *scaling.shifts) >= _SUMS or min(scaling.shifts) < -31:
        raise NotFastError("has sums that TFLM's shift to the left takes beyond 32 bits")
    words = list(zip(scaling.multipliers, scaling.shifts, strict=True))
    return Rounding("TwoRoundings", (of.zero_point, of.least, of.most)), none, words

# SPDX-License-Identifier: Apache-2.0
"""From a sum of products to an int8 output: TFLM's arithmetic, cheaper forms of it, and the proof that they are equal.

TFLM rounds twice (MultiplyByQuantizedMultiplier in tensorflow/lite/kernels/internal/common.cc at revision 8d404de7,
without TFLITE_SINGLE_ROUNDING), adds the zero point and clamps. All of it never decreases while the sum grows, so it is
given by 255 thresholds: the least sum of each output value. A cheaper form that never decreases either is equal on all
sums from a channel's least to its greatest one if and only if it is equal next to the thresholds between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Integers = NDArray[numpy.int64]

_MOST_RIGHT = 20  # thresholds of greater shifts leave 64 bits
_SHARED_SHIFT = 5
"""The shift of the floor form that is tried first: layers of one shape share code when they have the same one."""
_SEARCHED = 3
_MOST_SHIFT = 22  # thresholds in units of greater shifts leave 64 bits
_BLOCK, _BLOCKS = 2048, 256
_NEIGHBOURS = (0, 1, -1, 2, -2)
_INT32 = range(-(2**31), 2**31)
_NONE, _FREE = 1 << 31, 1 << 62  # no sum; an end of an interval that nothing bounds


class ProofError(ValueError):
    """A form whose outputs are not TFLM's for every sum that a channel can reach."""


@dataclass(frozen=True)
class Scaling:
    """TFLM's parameters of a layer: a multiplier and a shift (positive to the left) for each output channel.

    Outputs are clamped to `least` <= output <= `most`, a part of int8.
    """

    multipliers: tuple[int, ...]
    shifts: tuple[int, ...]
    zero_point: int
    least: int
    most: int

    def evaluate(self, sums: Integers) -> Integers:
        """The outputs of sums[channel, ...], computed as TFLM's C++ does it."""
        import numpy

        each = (len(self.shifts),) + (1,) * (sums.ndim - 1)
        factor = numpy.array(self.multipliers, numpy.int64).reshape(each)
        shifts = numpy.array(self.shifts, numpy.int64).reshape(each)
        product = (sums << numpy.maximum(shifts, 0)) * factor
        nudge = numpy.where(product >= 0, 1 << 30, 1 - (1 << 30))
        total = product + nudge
        high = numpy.where(total >= 0, total >> 31, -(-total >> 31))
        right = numpy.maximum(-shifts, 0)
        mask = (1 << right) - 1
        threshold = (mask >> 1) + (high < 0)
        value = (high >> right) + ((high & mask) > threshold) + self.zero_point
        found: Integers = numpy.clip(value, self.least, self.most)
        return found

    @property
    def divides(self) -> bool:
        """Whether every channel is shifted to the right, so that TFLM's second rounding takes place."""
        return all(-_MOST_RIGHT <= shift < 0 for shift in self.shifts) and all(
            1 << 30 <= value < 1 << 31 for value in self.multipliers
        )

    def thresholds(self) -> Integers:
        """[channel, k]: the least sum whose output is at least `least` + 1 + k. Needs `divides`.

        An output is at least u above the zero point when the first rounding's result is at least u * 2^e - 2^(e-1),
        and one more for u <= 0, as halves are rounded away from zero.
        """
        import numpy

        wanted = numpy.arange(self.least + 1, self.most + 1, dtype=numpy.int64) - self.zero_point
        right = -numpy.array(self.shifts, numpy.int64)[:, None]
        factor = numpy.array(self.multipliers, numpy.int64)[:, None]
        rounded = (wanted << right) - (1 << (right - 1)) + (wanted <= 0)
        return -(((1 << 30) - (rounded << 31)) // factor)


@dataclass(frozen=True)
class Reach:
    """The least and the greatest sum of each channel."""

    low: tuple[int, ...]
    high: tuple[int, ...]


class Form(Protocol):
    """A way to compute outputs that never decrease while the sum grows."""

    def evaluate(self, sums: Integers) -> Integers:
        """The outputs of sums[channel, ...]. ProofError where a number leaves 32 bits."""


@dataclass(frozen=True)
class OneFloor:
    """Both roundings, zero point and lower clamp as one floor:

    (addend + ((gain * (sum + offset) * multiplier) >> 32)) >> shift, saturated to int8, plus `least` + 128, clamped.

    `gain` is a factor that the kernel's sums have already.
    """

    multipliers: tuple[int, ...]
    addends: tuple[int, ...]
    offsets: tuple[int, ...]
    shift: int
    least: int
    most: int
    gain: int = 1

    def evaluate(self, sums: Integers) -> Integers:
        """See Form."""
        import numpy

        if not 0 <= self.shift < 32:
            raise ProofError("a shift is out of range")
        value = numpy.clip(_scaled(self, sums) >> self.shift, -128, 127)
        found: Integers = numpy.clip(value + self.least + 128, self.least, self.most)
        return found


def _scaled(form: OneFloor, sums: Integers) -> Integers:
    """addend + ((gain * (sum + offset) * multiplier) >> 32)."""
    import numpy

    each = (len(form.addends),) + (1,) * (sums.ndim - 1)
    factor, addend, offset = (
        numpy.array(values, numpy.int64).reshape(each) for values in (form.multipliers, form.addends, form.offsets)
    )
    if min(form.multipliers) < 0:
        raise ProofError("a multiplier is negative")
    shifted = _checked(form.gain * _checked(sums + offset))
    return _checked(_checked(addend) + ((shifted * _checked(factor)) >> 32))


@dataclass(frozen=True)
class TwoFloors:
    """TFLM's two roundings without its comparisons, for channels that are shifted to the right:

    high = (2 * sum * multiplier + 2^31) >> 32;
    ((high + (high >> 31) + ((2 * (zero_point - least - 128) + 1) << shift)) >> shift) >> 1,
    saturated to int8, plus `least` + 128, clamped. `shifts` are TFLM's shifts to the right, less one.
    """

    multipliers: tuple[int, ...]
    shifts: tuple[int, ...]
    zero_point: int
    least: int
    most: int

    def evaluate(self, sums: Integers) -> Integers:
        """See Form."""
        import numpy

        each = (len(self.shifts),) + (1,) * (sums.ndim - 1)
        factor, shift = (numpy.array(values, numpy.int64).reshape(each) for values in (self.multipliers, self.shifts))
        if min(self.multipliers) < 0 or min(self.shifts) < 0:
            raise ProofError("a multiplier or a shift is negative")
        high = (_checked(2 * sums) * _checked(factor) + (1 << 31)) >> 32
        half = _checked((2 * (self.zero_point - self.least - 128) + 1) << shift)
        value = (_checked(_checked(high + (high >> 31)) + half) >> shift) >> 1
        found: Integers = numpy.clip(numpy.clip(value, -128, 127) + self.least + 128, self.least, self.most)
        return found


def _checked(values: Integers) -> Integers:
    if values.size and (int(values.min()) not in _INT32 or int(values.max()) not in _INT32):
        raise ProofError("a number leaves 32 bits")
    return values


def prove(scaling: Scaling, reach: Reach, form: Form) -> None:
    """ProofError unless `form` gives TFLM's output for every sum that each channel can reach.

    Both are compared at each channel's least and greatest sum and on both sides of every threshold between; that the
    thresholds are TFLM's is checked with TFLM's arithmetic.
    """
    import numpy

    low, high = (numpy.array(values, numpy.int64)[:, None] for values in (reach.low, reach.high))
    if (low > high).any():
        raise ProofError("a channel's least sum is above its greatest one")
    first = scaling.thresholds()
    wanted = numpy.arange(scaling.least + 1, scaling.most + 1)
    if (scaling.evaluate(first) < wanted).any() or (scaling.evaluate(first - 1) >= wanted).any():
        raise ProofError("the thresholds are not TFLM's")
    points = numpy.clip(numpy.concatenate([low, high, first, first - 1], axis=1), low, high)
    other = numpy.argwhere(form.evaluate(points) != scaling.evaluate(points))
    if len(other):
        channel, at = other[0]
        raise ProofError(f"channel {channel}: another output than TFLM's for the sum {points[channel, at]}")


def one_floor(scaling: Scaling, reach: Reach, *, gain: int = 1) -> OneFloor | None:
    """Constants of the floor form, proven; None where there are none.

    Each threshold t at the sum s asks for s * gain * multiplier + v >= t * 2^(32 + shift), and s - 1 for the opposite:
    an interval for v = offset * gain * multiplier + addend * 2^32. Offsets are tried until a remainder lies there.
    """
    if not scaling.divides:
        return None
    import numpy

    search = _Search(scaling, *_clipped(scaling, reach), gain)
    extra = gain.bit_length() - 1
    most = min(-max(scaling.shifts) - 1 + extra, _MOST_SHIFT)
    shifts = list(range(most, max(-1, most - _SEARCHED), -1))
    shifts.sort(key=lambda shift: shift != _SHARED_SHIFT + extra)
    wanted = numpy.arange(-127, scaling.most - scaling.least - 127, dtype=numpy.int64)
    for shift in shifts:
        found = search.constants(1 << shift, wanted << shift)
        if found is None:
            continue
        form = OneFloor(*found, shift, scaling.least, scaling.most, gain)
        if proven(scaling, reach, form):
            return form
    return None


def proven(scaling: Scaling, reach: Reach, form: Form) -> bool:
    """Whether prove() accepts the form."""
    try:
        prove(scaling, reach, form)
    except ProofError:
        return False
    return True


def two_floors(scaling: Scaling, reach: Reach) -> TwoFloors | None:
    """The form without comparisons, proven; None where a channel is not shifted to the right or sums are too large."""
    if not scaling.divides:
        return None
    shifts = tuple(-shift - 1 for shift in scaling.shifts)
    form = TwoFloors(scaling.multipliers, shifts, scaling.zero_point, scaling.least, scaling.most)
    return form if proven(scaling, reach, form) else None


def _clipped(scaling: Scaling, reach: Reach) -> tuple[Integers, Integers]:
    """[channel, k]: the least reachable sum at or above the threshold, and the greatest one below it.

    Without such a sum it is _NONE, which asks for nothing.
    """
    import numpy

    least, most = (numpy.array(values, numpy.int64)[:, None] for values in (reach.low, reach.high))
    first = scaling.thresholds()
    above = numpy.where(first <= most, numpy.maximum(first, least), _NONE)
    below = numpy.where(first > least, numpy.minimum(first - 1, most), _NONE)
    return above, below


@dataclass(frozen=True)
class _Search:
    """The constants of a layer's form with one floor. `above` and `below`: see _clipped()."""

    scaling: Scaling
    above: Integers
    below: Integers
    gain: int

    def constants(self, unit: int, firsts: Integers) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None:
        """Multipliers, addends and offsets; None where a channel has none.

        `unit`: steps of the scaled value to an output. firsts[k]: the least value of output k + 1.
        """
        import numpy

        factor, least, most = self._widest(unit, firsts << 32)
        if (least > most).any():
            return None
        addends, offsets, step = numpy.zeros_like(factor), numpy.zeros_like(factor), self.gain * factor
        left = numpy.arange(len(factor))
        for block in range(_BLOCKS):
            offset = _offsets(block)
            rest = (most[left, None] - offset * step[left, None]) & 0xFFFFFFFF
            good = rest <= (most - least)[left, None]
            pick = good.argmax(axis=1)
            has = good[numpy.arange(len(left)), pick]
            found = left[has]
            offsets[found] = offset[pick[has]]
            addends[found] = (most[found] - rest[has, pick[has]] - offsets[found] * step[found]) >> 32
            left = left[~has]
            if not len(left):
                one, two, three = (tuple(map(int, values)) for values in (factor, addends, offsets))
                return one, two, three
        return None

    def _widest(self, unit: int, wanted: Integers) -> tuple[Integers, Integers, Integers]:
        """The multipliers near TFLM's real ones with the widest intervals of v, and the intervals' ends."""
        import numpy

        down = self.gain.bit_length() - 2 - numpy.array(self.scaling.shifts, numpy.int64)
        values = numpy.array(self.scaling.multipliers, numpy.int64) * unit
        near = (values + ((1 << down) >> 1)) >> down
        found: list[Integers] = []
        for neighbour in _NEIGHBOURS:
            factor = numpy.clip(near + neighbour, 0, (1 << 31) - 1)
            step = self.gain * factor[:, None]
            each = [numpy.where(sums == _NONE, 0, wanted - sums * step) for sums in (self.above, self.below)]
            least = each[0].max(axis=1, initial=-_FREE, where=self.above != _NONE)
            most = each[1].min(axis=1, initial=_FREE, where=self.below != _NONE) - 1
            found.append(numpy.stack([factor, least, most]))
        table = numpy.stack(found)
        best = (table[:, 2] - table[:, 1]).argmax(axis=0)
        factor, least, most = (table[best, k, numpy.arange(len(best))] for k in range(3))
        return factor, least, most


def _offsets(block: int) -> Integers:
    """The offsets of a block: small ones first, of both signs."""
    import numpy

    half = numpy.arange(block * _BLOCK // 2, (block + 1) * _BLOCK // 2, dtype=numpy.int64)
    return numpy.stack([half, -half], axis=1).reshape(-1)


def reach_of(weights: Sequence[Sequence[int]] | Integers, bias: Sequence[int], zero_point: int) -> Reach:
    """The sums that int8 inputs can lead to: weights[channel, tap], the input's zero point. Padding adds nothing."""
    import numpy

    table = numpy.array(weights, numpy.int64)
    ends = numpy.stack([table * (-128 - zero_point), table * (127 - zero_point)])
    start = numpy.array(bias, numpy.int64)
    low, high = start + ends.min(axis=0).sum(axis=1), start + ends.max(axis=0).sum(axis=1)
    return Reach(tuple(map(int, low)), tuple(map(int, high)))

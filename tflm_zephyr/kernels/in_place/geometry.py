# SPDX-License-Identifier: Apache-2.0
"""The lead of a kernel's writing over its reading, for kernels whose loops walk the output from front to back.

The lead of a kernel at one moment is W - R: W bytes of output written (from its start), R the first byte of input
that is still to be read. Its greatest value is the distance that keeps every byte until its last read: with the
output that many bytes below the input, byte W of the output is byte R of the input. A moment at which nothing is
left to read, or nothing is written, bounds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_MOST_PADDED = 4096  # outputs that begin in the padding, looked at one by one


def affine_lead(loops: Iterable[tuple[int, int, int]], start: int = 0) -> int:
    """The greatest lead of nested loops (count, output bytes a step, input bytes a step) around one copy.

    The output is written in order, so that W is the place written to. `start`: output minus input byte of the
    first copy.
    """
    return start + sum(max(0, (count - 1) * (out_step - in_step)) for count, out_step, in_step in loops)


@dataclass(frozen=True)
class Axis:
    """One axis of a sliding window: `outputs` windows of `window` taps over `size` elements.

    Window o has its tap k at element o * stride - padding + k * dilation; taps outside the data are not read.
    """

    size: int
    outputs: int
    window: int
    stride: int
    padding: int
    dilation: int = 1

    def lead(self, out_step: int, in_step: int) -> int | None:
        """max(o * out_step - first element read by window o * in_step), None when no window meets data."""
        leads = []
        inside = -(-self.padding // self.stride)  # the first window that does not begin in the padding
        padded = min(inside, self.outputs)
        if padded > _MOST_PADDED:
            leads.append((padded - 1) * out_step)  # an upper bound: as if all of them read element 0
        else:
            for output in range(padded):
                outside = self.padding - output * self.stride
                skipped = -(-outside // self.dilation)
                first = skipped * self.dilation - outside
                if skipped < self.window and first < self.size:
                    leads.append(output * out_step - first * in_step)
        last = min(self.outputs - 1, (self.size - 1 + self.padding) // self.stride)
        if inside <= last:
            leads += [o * out_step - (o * self.stride - self.padding) * in_step for o in (inside, last)]
        return max(leads, default=None)


@dataclass(frozen=True)
class Windows:
    """Sliding windows over `batches` images of pixels; a pixel takes in_pixel or out_pixel bytes."""

    batches: int
    rows: Axis
    columns: Axis
    in_pixel: int
    out_pixel: int

    @property
    def valid(self) -> bool:
        """Whether every number is one that a kernel can work with."""
        counts = [self.batches, self.in_pixel, self.out_pixel]
        for axis in (self.rows, self.columns):
            counts += [axis.size, axis.outputs, axis.window, axis.stride, axis.dilation]
        return min(counts) > 0

    def lead(self) -> int | None:
        """The greatest lead over the pixels, W counted up to the pixel, R from its window's first byte.

        Pixels are written in order: batches, rows, columns. Their place and their window's place are sums of one term
        for each of the three, so the maximum is the sum of three maxima. None when no window meets data.
        """
        in_row, out_row = self.columns.size * self.in_pixel, self.columns.outputs * self.out_pixel
        down = self.rows.lead(out_row, in_row)
        across = self.columns.lead(self.out_pixel, self.in_pixel)
        if down is None or across is None:
            return None
        return down + across + self.batch_lead()

    def batch_lead(self) -> int:
        """The part of the lead that batches add."""
        in_image = self.rows.size * self.columns.size * self.in_pixel
        out_image = self.rows.outputs * self.columns.outputs * self.out_pixel
        return affine_lead([(self.batches, out_image, in_image)])

# SPDX-License-Identifier: Apache-2.0
"""Reads and writes of a kernel, byte by byte in their order, and the distance that follows from them alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy

from tests.helpers.operator_models import Case
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.model.reader import parse_model


class Trace:
    """One input's last reads and one output's first writes. Every call is a later moment than the one before."""

    def __init__(self, in_bytes: int, out_bytes: int) -> None:
        self.last_read = numpy.full(in_bytes, -1)
        self.first_write = numpy.full(out_bytes, numpy.iinfo(numpy.int64).max)
        self.now = 0

    def read(self, start: int, count: int = 1) -> None:
        """`count` bytes of the input, which must be there."""
        assert 0 <= start <= start + count <= len(self.last_read)
        self.now += 1
        self.last_read[start : start + count] = self.now

    def write(self, start: int, count: int = 1) -> None:
        """`count` bytes of the output, which must be there."""
        assert 0 <= start <= start + count <= len(self.first_write)
        self.now += 1
        part = self.first_write[start : start + count]
        numpy.minimum(part, self.now, out=part)

    def copy(self, source: int, target: int, count: int) -> None:
        """A memcpy: in whatever order, so that no byte may be both written and read."""
        self.read(source, count)
        self.now -= 1
        self.write(target, count)

    def conflicts(self, distance: int) -> bool:
        """Whether a byte is written no later than its last read when the output begins `distance` below the input."""
        ins = numpy.arange(len(self.last_read))
        outs = ins + distance
        shared = (outs >= 0) & (outs < len(self.first_write))
        return bool((self.first_write[outs[shared]] <= self.last_read[ins[shared]]).any())

    def distance(self) -> int | None:
        """The smallest distance from which on there is no conflict; None when there is none anywhere."""
        written = self.first_write[::-1, None] <= self.last_read[None, :]
        last = len(self.first_write) - 1 - written.argmax(axis=0)
        apart = (last - numpy.arange(len(self.last_read)))[written.any(axis=0)]
        return int(apart.max()) + 1 if apart.size else None

    def complete(self) -> bool:
        """Whether the whole output is written."""
        return bool((self.first_write < numpy.iinfo(numpy.int64).max).all())


Kernel = Callable[["Shapes", Trace], None]


@dataclass(frozen=True)
class Shapes:
    """What a window kernel's loops run over. `element`: bytes of an element; `groups` and `multiplier` as in TFLite."""

    batch: int
    size: tuple[int, int]
    depth: int
    out_size: tuple[int, int]
    out_depth: int
    window: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int]
    element: int = 1
    groups: int = 1

    @property
    def in_bytes(self) -> int:
        return self.batch * self.size[0] * self.size[1] * self.depth * self.element

    @property
    def out_bytes(self) -> int:
        return self.batch * self.out_size[0] * self.out_size[1] * self.out_depth * self.element

    @property
    def multiplier(self) -> int:
        return self.out_depth // self.depth

    def at(self, b: int, y: int, x: int, c: int) -> int:
        """A byte of the input."""
        return (((b * self.size[0] + y) * self.size[1] + x) * self.depth + c) * self.element

    def out(self, b: int, y: int, x: int, c: int) -> int:
        """A byte of the output."""
        return (((b * self.out_size[0] + y) * self.out_size[1] + x) * self.out_depth + c) * self.element

    def pixels(self) -> itertools.product[tuple[int, ...]]:
        """All (b, y, x) of the output in order."""
        return itertools.product(range(self.batch), *map(range, self.out_size))

    def taps(self, y: int, x: int) -> list[tuple[int, int]]:
        """The pixels of the input that a window reads, in the order of its loops."""
        found = []
        for fy, fx in itertools.product(*map(range, self.window)):
            at = [
                o * s - p + d * f
                for o, s, p, d, f in zip((y, x), self.stride, self.padding, self.dilation, (fy, fx), strict=True)
            ]
            if 0 <= at[0] < self.size[0] and 0 <= at[1] < self.size[1]:
                found.append((at[0], at[1]))
        return found

    def trace(self, kernel: Kernel) -> Trace:
        """What `kernel` does over these shapes."""
        trace = Trace(self.in_bytes, self.out_bytes)
        kernel(self, trace)
        return trace


def node_of(case: Case) -> Node:
    """The case's operator as the rules see it."""
    model = parse_model(case.build())
    return Node(model, model.main, model.main.operators[0])


def dense(shape: Sequence[int]) -> list[int]:
    """Elements from one index to the next along each dimension."""
    return [int(numpy.prod(shape[i + 1 :], initial=1)) for i in range(len(shape))]


def slack_of(trace: Trace, distance: int) -> int | None:
    """How much larger than needed the distance is; None when no overlap whatsoever does harm.

    Fails when a byte is written before its last read at the distance, or is not one byte below the least.
    """
    assert trace.complete()
    least = trace.distance()
    if least is None:
        return None
    assert distance >= least, "a byte is written before its last read"
    assert not trace.conflicts(distance)
    assert trace.conflicts(least - 1)
    return distance - least

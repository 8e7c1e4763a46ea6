# SPDX-License-Identifier: Apache-2.0
"""Kernel calls: a kernel, its operands, and the bytes that it reads and writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tflm_zephyr.compiler.ir.kernels import Kernel
from tflm_zephyr.compiler.ir.operands import AddressOf, Dims, Operand, Shape
from tflm_zephyr.compiler.ir.row_operands import EachScaling, RowEnd, RowParameters
from tflm_zephyr.compiler.ir.structs import Numbers, Parameter, Scalar, Struct, TensorAt
from tflm_zephyr.fast_kernels import Block

SCRATCH = -1
"""The tensor's index in a Pointer or an Access that is of the layer's scratch buffer."""


@dataclass(frozen=True)
class Access:
    """Bytes first <= b < end of a tensor, or of the layer's SCRATCH, that a call reads or writes."""

    tensor: int
    first: int
    end: int


@dataclass(frozen=True)
class View:
    """A tensor, `part`, whose bytes are those of another one, `whole`, from its byte `first` on."""

    part: int
    whole: int
    first: int


@dataclass(frozen=True)
class PixelRuns:
    """A call that is made once for each run of pixels: `counts` pixels each, from the first to the last or `backwards`.

    With each run the pointer `source` moves by the run's pixels of `in_bytes` each, and `result` by those of
    `out_bytes`. The call's RunDims have the run's number of pixels as their width, and `channels` channels.
    """

    counts: tuple[int, ...]
    source: str
    in_bytes: int
    result: str
    out_bytes: int
    channels: int
    backwards: bool = False


@dataclass(frozen=True)
class KernelCall:
    """A kernel's call. `reads` and `writes` are of the whole call; with `runs`, of all of them.

    `copies`: it is no kernel of TFLM's, so that the kernels' in-place distances do not hold for it. `view`: it copies a
    whole tensor into a run of another one, or out of it, and is not needed where the one lies in the other. `blocks`:
    it is one of our own kernels, which goes through them in their order; `reverse` is the same call backwards, for an
    output above its input.
    """

    kernel: Kernel
    operands: tuple[Operand, ...] = ()
    reads: tuple[Access, ...] = ()
    writes: tuple[Access, ...] = ()
    runs: PixelRuns | None = None
    copies: bool = False
    view: View | None = None
    blocks: tuple[Block, ...] = ()
    reverse: KernelCall | None = None

    def steps(self) -> Iterator[tuple[tuple[Access, ...], tuple[Access, ...]]]:
        """Reads and writes of each time that the function is called, or of each of its blocks."""
        if self.blocks:
            (read,), (write,) = self.reads, self.writes
            for block in self.blocks:
                reads = Access(read.tensor, block.read_first, block.read_end)
                yield (reads,), (Access(write.tensor, block.write_first, block.write_end),)
            return
        if self.runs is None:
            yield self.reads, self.writes
            return
        step, done = self.runs, 0
        for count in step.counts:
            first = sum(step.counts) - done - count if step.backwards else done
            last = first + count
            read, *others = self.reads
            (write,) = self.writes
            yield (
                (Access(read.tensor, first * step.in_bytes, last * step.in_bytes), *others),
                (Access(write.tensor, first * step.out_bytes, last * step.out_bytes),),
            )
            done += count

    def pointers(self) -> set[str]:
        """The names of the local pointers to tensors among the operands."""
        found = (operand.begin if isinstance(operand, RowEnd) else operand for operand in self.operands)
        return {operand.pointer.name for operand in found if isinstance(operand, TensorAt)}

    def parameters(self) -> set[Parameter]:
        """The layer's structs and constants among the operands."""
        return {found for operand in self.operands if (found := _parameter(operand)) is not None}

    def shared(self) -> set[Dims | Shape]:
        """The operands that a file has once."""
        return {operand for operand in self.operands if isinstance(operand, Dims | Shape)}


def _parameter(operand: Operand) -> Parameter | None:
    if isinstance(operand, RowParameters):
        return operand.struct
    if isinstance(operand, EachScaling):
        return operand.of if isinstance(operand.of, Struct) else None
    value = operand.value if isinstance(operand, AddressOf) else operand
    return value if isinstance(value, Struct | Numbers | Scalar) else None

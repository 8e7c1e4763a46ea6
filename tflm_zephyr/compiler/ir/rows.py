# SPDX-License-Identifier: Apache-2.0
"""A layer's call for some of its rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tflm_zephyr.compiler.ir.calls import KernelCall
from tflm_zephyr.compiler.ir.kernels import Kernel
from tflm_zephyr.compiler.ir.structs import Parameter
from tflm_zephyr.model import TensorType
from tflm_zephyr.row_planner import Window


@dataclass(frozen=True)
class RowInput:
    """A tensor of `rows` times `row_bytes` that a layer reads through the local pointer `pointer`."""

    pointer: str
    type: TensorType
    rows: int
    row_bytes: int
    window: Window

    @property
    def tensor(self) -> int:
        """The tensor's index."""
        return self.window.tensor


@dataclass(frozen=True)
class Gathering:
    """A layer whose one output row depends on all input rows: `sums` sums of `type`, which `last` makes the output of.

    Sums take 4 bytes each.
    """

    sums: int
    last: KernelCall
    type: TensorType = TensorType.INT32


@dataclass(frozen=True)
class RowForm:
    """A layer's call for some of its rows: that for the whole tensor with row operands (row_operands).

    `inputs` are all planned inputs, the first one with the window that the row operands are computed from. `row_work`:
    the share of the layer's cycles that it takes more by rows.
    """

    inputs: tuple[RowInput, ...]
    output: RowInput
    call: KernelCall
    gathering: Gathering | None = None
    row_work: float = 0.0

    @property
    def plain(self) -> bool:
        """Whether output row k reads input row k alone."""
        given = self.inputs[0]
        same = (given.window.size, given.window.stride, given.window.padding) == (1, 1, 0)
        return same and given.rows >= self.output.rows

    @property
    def steps(self) -> int:
        """The rows that the layer steps through: its output's, or its input's where it gathers."""
        return self.inputs[0].rows if self.gathering else self.output.rows

    @property
    def calls(self) -> tuple[KernelCall, ...]:
        """The call, and the one that finishes the sums."""
        return (self.call,) if self.gathering is None else (self.call, self.gathering.last)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels that it calls."""
        return tuple(call.kernel for call in self.calls)

    def parameters(self) -> Iterator[Parameter]:
        """The layer's structs and constants that it names."""
        return (one for call in self.calls for one in call.parameters())

# SPDX-License-Identifier: Apache-2.0
"""Cycles of a layer's calls by the tables of costs: for all of it, for some rows, and for one more run of pixels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from tflm_zephyr.compiler.ir.layers import FallbackLayer, KernelLayer, Layer
from tflm_zephyr.compiler.kernel_shapes import shape_by_rows, shape_of
from tflm_zephyr.compiler.operator_shapes import operator_shape, operator_shape_by_rows
from tflm_zephyr.costs import ROW_BYTES, ROW_STEP, Costs
from tflm_zephyr.kernels import Node

_MOST_ROWS = 32
"""Rows of a call; what calls for more of them take beyond their rows is about the same."""


@dataclass(frozen=True)
class LayerCycles:
    """Estimated cycles of layers, means of the cores that the code is for.

    A kernel that was not measured on a core is priced by the nearest one that was, which Price.why names.
    """

    costs: Costs

    @cached_property
    def step(self) -> float:
        """A step of a segment beside its kernel: the window, the row buffers, the call."""
        return self.costs.call(ROW_STEP).cycles

    @cached_property
    def moved_byte(self) -> float:
        """A byte that moves within a row buffer."""
        return self.costs.call(ROW_BYTES).cycles / ROW_BYTES.channels

    def priced(self, node: Node, layer: Layer) -> Layer:
        """The layer with its cycles, and those that runs of pixels and its leaner forms add."""
        if isinstance(layer, FallbackLayer):
            return replace(layer, cycles=self.costs.operator(operator_shape(node)).cycles)
        if not isinstance(layer, KernelLayer) or not layer.calls:
            return layer
        shape = shape_of(node, layer) or operator_shape(node)
        cycles = self.costs.call(shape).cycles
        run = 0.0
        if any(call.runs is not None for call in layer.calls):
            two, four = (self.costs.call(replace(shape, out_height=1, out_width=pixels)).cycles for pixels in (2, 4))
            run = max(0.0, 2 * two - four)
        leaner = [
            replace(one, cycles=cycles, extra_cycles=max(0.0, self.costs.call(other).cycles - cycles))
            for one in layer.leaner
            if (other := shape_of(node, one)) is not None
        ]
        return replace(layer, cycles=cycles, run_cycles=run, leaner=tuple(leaner))

    def of_rows(self, node: Node, layer: Layer) -> tuple[float, ...]:
        """The cycles of calls for 1, 2, ... of the layer's rows beyond the rows' share of the whole layer."""
        form = layer.rows
        assert form is not None
        if form.gathering is not None:
            return (0.0,)
        one = shape_by_rows(node, layer)

        def cycles(rows: int) -> float:
            shape = operator_shape_by_rows(node, rows, form.steps) if one is None else one.of_rows(rows)
            return self.costs.call(shape).cycles

        row = cycles(form.steps) / form.steps
        counts = range(1, min(form.steps, _MOST_ROWS) + 1)
        return tuple(max(0.0, cycles(rows) - row * rows) for rows in counts)

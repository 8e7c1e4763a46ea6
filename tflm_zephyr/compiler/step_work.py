# SPDX-License-Identifier: Apache-2.0
"""The work of calls for some of a layer's rows, by the tables of costs, in the unit in which rows are planned.

That unit is a multiply-accumulate of the model. Where kernels were chosen by their estimated cycles, a cycle of the
measured layers is worth as many of them as these layers have, so that a share of the work is a share of the cycles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tflm_zephyr.compiler.ir.layers import KernelLayer, Layer
from tflm_zephyr.compiler.kernel_choice import Choice
from tflm_zephyr.compiler.kernel_shapes import shape_by_rows, shape_of
from tflm_zephyr.costs import Costs
from tflm_zephyr.kernels import Node

_MOST_ROWS = 32
"""Rows of a call; what calls for more of them take beyond their rows is about the same."""


@dataclass(frozen=True)
class StepWork:
    """The unit of a model whose kernels were chosen.

    `per_cycle`: multiply-accumulates that a cycle is worth. `faster`: the cycles with CMSIS-NN's kernels alone, as a
    multiple of those with the chosen ones; so much more is an estimate worth that was made for CMSIS-NN's.
    """

    costs: Costs
    per_cycle: float
    faster: float

    def of_rows(self, node: Node, layer: Layer) -> tuple[float, ...] | None:
        """The work of calls for 1, 2, ... of the layer's rows beyond that of their rows.

        None where the layer has no form for rows, or its kernel was not measured.
        """
        one, form = shape_by_rows(node, layer), layer.rows
        if one is None or form is None:
            return None
        found = [
            self.costs.work(one.of_rows(rows)) for rows in (form.steps, *range(1, min(form.steps, _MOST_ROWS) + 1))
        ]
        cycles = [work.cycles for work in found if work is not None]
        if len(cycles) < len(found):
            return None
        row = cycles[0] / form.steps
        calls = (max(0.0, call - row * rows) for rows, call in enumerate(cycles[1:], 1))
        return tuple(call * self.per_cycle for call in calls)

    def priced(self, node: Node, layer: Layer) -> Layer:
        """The layer with the extra work of its leaner forms; without those that were not measured."""
        if not isinstance(layer, KernelLayer):
            return layer
        priced = [(one, self._extra_cycles(node, layer, one)) for one in layer.leaner]
        leaner = [replace(one, extra_work=more * self.per_cycle) for one, more in priced if more is not None]
        return replace(layer, leaner=tuple(leaner))

    def _extra_cycles(self, node: Node, layer: Layer, leaner: Layer) -> float | None:
        """The cycles that the leaner form takes more: the most of the cores on which both were measured."""
        found = []
        shapes = shape_of(node, layer), shape_of(node, leaner)
        for core in self.costs.cores:
            whole, other = (None if shape is None else Costs((core,)).work(shape) for shape in shapes)
            if whole is not None and other is not None:
                found.append(max(0.0, other.cycles - whole.cycles))
        return max(found, default=None)


def step_work(layers: Sequence[Layer], choice: Choice | None) -> StepWork | None:
    """The unit of a model with these layers; None where nothing was chosen."""
    if choice is None or not choice.cycles:
        return None
    work = sum(layer.macs for layer in layers if layer.operator in choice.options)
    return StepWork(choice.costs, work / choice.cycles, choice.other_cycles / choice.cycles)

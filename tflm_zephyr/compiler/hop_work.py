# SPDX-License-Identifier: Apache-2.0
"""The work of a hop by layer: rows that it computes of all, and estimated cycles, beside those of the whole window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tflm_zephyr.compiler.ir.layers import Layer, members_of
from tflm_zephyr.compiler.layer_cycles import LayerCycles
from tflm_zephyr.compiler.program import CompiledModel
from tflm_zephyr.costs import Costs
from tflm_zephyr.kernels import Node


@dataclass(frozen=True)
class LayerOfHop:
    """An operator with code: the `computed` rows of its `rows` in a hop; both 0 where it runs on whole tensors."""

    operator: int
    key: str
    computed: int
    rows: int
    cycles: float
    whole_cycles: float


@dataclass(frozen=True)
class HopWork:
    """The layers of a hop, and the cycles that take the rows that stay to their places."""

    layers: tuple[LayerOfHop, ...]
    moving_cycles: float

    @property
    def cycles(self) -> int:
        """Estimated cycles of a hop."""
        return round(self.moving_cycles + sum(layer.cycles for layer in self.layers))

    @property
    def whole_cycles(self) -> int:
        """Estimated cycles of the whole window by the same kernels."""
        return round(sum(layer.whole_cycles for layer in self.layers))


def hop_work(program: CompiledModel, costs: Costs) -> HopWork:
    """The work of a hop of a model whose windows overlap."""
    hop, cycles = program.hop, LayerCycles(costs)
    assert hop is not None
    return HopWork(tuple(_layers(program, cycles)), cycles.moved_byte * sum(move.size for move in hop.moves))


def _layers(program: CompiledModel, costs: LayerCycles) -> Iterator[LayerOfHop]:
    segment, main = program.streaming_layer, program.model.main
    hop = program.hop
    assert segment is not None
    assert hop is not None
    for layer in program.main_layers:
        for number, one in enumerate(members_of(layer)):
            if one.calls:
                counts = [call.count for call in (*hop.pushed, *hop.invoked) if call.member == number]
                yield _layer(Node(program.model, main, main.operators[one.operator]), one, costs,
                             counts if layer is segment else [])  # fmt: skip


def _layer(node: Node, layer: Layer, costs: LayerCycles, counts: list[int]) -> LayerOfHop:
    layer = costs.priced(node, layer)
    if not counts or layer.rows is None:
        return LayerOfHop(layer.operator, layer.key, 0, 0, layer.cycles, layer.cycles)
    steps, calls = layer.rows.steps, costs.of_rows(node, layer)
    more = sum(costs.step + calls[min(count, len(calls)) - 1] for count in counts)
    cycles = more + layer.cycles * sum(counts) / steps
    return LayerOfHop(layer.operator, layer.key, sum(counts), steps, cycles, layer.cycles)

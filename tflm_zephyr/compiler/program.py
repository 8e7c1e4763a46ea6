# SPDX-License-Identifier: Apache-2.0
"""A compiled model: constants, layers with their kernel calls, and each buffer's place in one arena."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from tflm_zephyr.compiler.flattening import FlatModel
from tflm_zephyr.compiler.ir.kernels import Kernel
from tflm_zephyr.compiler.ir.layers import (
    ControlLayer,
    FallbackLayer,
    InsideLayer,
    Layer,
    SegmentLayer,
    more_work,
    why_whole,
)
from tflm_zephyr.compiler.ir.operands import Dims, Shape
from tflm_zephyr.compiler.ir.structs import ConstantArray
from tflm_zephyr.compiler.row_program import HopProgram, Spot, StreamedInput
from tflm_zephyr.memory_planner import Plan
from tflm_zephyr.model import Model


@dataclass(frozen=True)
class Place:
    """A buffer of the map: tensors (or a layer's scratch) in bytes first <= b < end of the arena, while layers run."""

    label: str
    first: int
    end: int
    born: int
    dead: int


@dataclass(frozen=True)
class BufferMap:
    """The buffer map for people: its `places`, and the number of steps that they count."""

    places: tuple[Place, ...]
    steps: int


class Chosen(Protocol):
    """The kernels of a model's layers, chosen by their costs: kernel_choice.Choice."""

    def functions(self, layers: Sequence[Layer]) -> dict[Kernel, tuple[int, int]]:
        """Our functions that the planned `layers` call: estimated bytes of code, and by how much that may differ."""

    @property
    def cycles(self) -> int:
        """Estimated cycles of all layers with a choice of kernels."""

    @property
    def other_cycles(self) -> int:
        """The same with CMSIS-NN's kernels."""

    @property
    def call_bytes(self) -> int:
        """Bytes of the layers' functions that call them."""

    @property
    def complete(self) -> bool:
        """Whether all layers with our kernels were measured."""

    @property
    def more_flash_bytes(self) -> int:
        """Estimated bytes of flash that the choice takes more than CMSIS-NN's kernels do."""

    def remark(self, arena_bytes: int, slower: float) -> str:
        """The costs in words; `arena_bytes` is all RAM, `slower` the share of the work that smaller buffers add."""

    def report(self) -> dict[str, Any]:
        """The numbers of the whole model."""

    def layer_report(self, operator: int) -> dict[str, Any]:
        """The numbers of a layer; nothing where it had no choice."""


@dataclass(frozen=True)
class CompiledModel:
    """A model as code. `offsets` gives the arena offset of each tensor of the main subgraph that is not constant.

    `scratch` is each layer's scratch offset. `arena_bytes` is all RAM: tensors, scratch and state. `plan` is the packed
    plan behind it, with its `buffer_map`. `shared` are the structs that layers have in common.
    `state_bytes` at the arena's end are those of TFLM's own kernels, with a pointer for each, on a 32-bit Arm core;
    while these prepare, TfLiteTensors take `prepare_bytes` at its beginning.

    A model with subgraphs or resource variables is flattened (`flat`, see flattening.FlatModel): `bodies` has the
    layers of each subgraph that runs, by operator, the main one's as 0; without, all layers are the main subgraph's.
    `owners` gives each buffer of `plan` its tensor of the main
    subgraph, the largest where several share it, or SCRATCH and its layer. `choice`: how kernels were chosen by their
    costs.
    """

    model: Model
    layers: tuple[Layer, ...]
    constants: tuple[ConstantArray, ...]
    shared: tuple[Dims | Shape, ...]
    offsets: dict[int, int]
    scratch: dict[int, int]
    arena_bytes: int
    plan: Plan
    buffer_map: BufferMap
    state_bytes: int = 0
    prepare_bytes: int = 0
    flat: FlatModel | None = None
    bodies: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    owners: tuple[tuple[int, int], ...] = ()
    choice: Chosen | None = None

    @property
    def slower(self) -> float:
        """The estimated share of its work that the model takes more than it would by whole layers."""
        return more_work(self.layers)

    @property
    def main_layers(self) -> tuple[Layer, ...]:
        """The layers of the main subgraph, in their order."""
        return self.layers if not self.bodies else self.body(0)

    def body(self, subgraph: int) -> tuple[Layer, ...]:
        """The layers of a subgraph, in their order."""
        by_operator = {layer.operator: layer for layer in self.layers}
        return tuple(by_operator[operator] for operator in self.bodies[subgraph])

    @property
    def flags(self) -> tuple[int, ...]:
        """The tensors that tell whether a CALL_ONCE has run."""
        return () if self.flat is None else tuple(t for t in self.flat.flags.values() if t in self.offsets)

    @property
    def called(self) -> tuple[int, ...]:
        """The subgraphs that operators run, sorted."""
        return tuple(sorted(subgraph for subgraph in self.bodies if subgraph))

    @property
    def planned_bytes(self) -> int:
        """The arena without the state of TFLM's own kernels."""
        return self.arena_bytes - self.state_bytes

    @property
    def fallbacks(self) -> tuple[FallbackLayer, ...]:
        """The layers that are TFLM's own kernels."""
        return tuple(layer for layer in self.layers if isinstance(layer, FallbackLayer))

    @property
    def flash_bytes(self) -> int:
        """Bytes of the constant arrays."""
        return sum(len(constant.data) for constant in self.constants)

    @property
    def headers(self) -> tuple[str, ...]:
        """The headers that the layers' kernels are declared in, sorted."""
        return tuple(sorted({header for layer in self.layers for header in layer.headers}))

    @property
    def kernels(self) -> frozenset[Kernel]:
        """All kernels that the layers call."""
        return frozenset(kernel for layer in self.layers for kernel in layer.kernels)

    @property
    def why_no_rows(self) -> dict[int, str]:
        """By operator with code, why it runs on whole tensors: it cannot run row by row, or would save nothing."""
        inside = {member.operator for layer in self.segments for member in layer.members}
        kinds = ControlLayer | FallbackLayer
        return {
            layer.operator: why_whole(layer)
            for layer in self.layers
            if layer.operator not in inside and (layer.calls or isinstance(layer, kinds))
        }

    @cached_property
    def unseen(self) -> frozenset[int]:
        """Tensors of layers inside segments, which are not there yet when their operator has its turn."""
        operators = self.model.main.operators
        inside = (layer.operator for layer in self.layers if isinstance(layer, InsideLayer))
        return frozenset(i for operator in inside for i in operators[operator].outputs)

    @cached_property
    def segments(self) -> tuple[SegmentLayer, ...]:
        """The layers that are segments."""
        return tuple(layer for layer in self.layers if isinstance(layer, SegmentLayer))

    @property
    def streaming_layer(self) -> SegmentLayer | None:
        """The segment that takes in the rows of a streamed input."""
        return next((layer for layer in self.segments if layer.segment.stream), None)

    @cached_property
    def hop(self) -> HopProgram | None:
        """The segment's program that computes the new rows of a window."""
        layer = self.streaming_layer
        return None if layer is None else layer.segment.hop

    @property
    def kept(self) -> int:
        """The first byte of the rows that a segment keeps from one window to the next: of the plan's last buffer."""
        return self.plan.offsets[-1]

    def spot(self, layer: SegmentLayer, tensor: int, spot: Spot | None) -> int:
        """The arena offset of a place of the segment's; None is the place of the tensor itself."""
        if spot is None:
            return self.offsets[tensor]
        return spot.at + (self.kept if spot.kept else self.scratch[layer.operator])

    @cached_property
    def stream(self) -> StreamedInput | None:
        """The input that comes row by row."""
        layer = self.streaming_layer
        return None if layer is None else layer.segment.stream

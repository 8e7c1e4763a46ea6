# SPDX-License-Identifier: Apache-2.0
"""Copies that need no code: tensors whose bytes lie in those of another one, at a fixed distance from its beginning.

A RESHAPE's output is its input; SPLIT, UNPACK and SLICE along the outermost used axis give runs of their input;
CONCATENATION and PACK along it join inputs that were written at their places in the output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tflm_zephyr.compiler.ir.calls import View
from tflm_zephyr.compiler.ir.layers import KernelLayer, Layer
from tflm_zephyr.model import Subgraph
from tflm_zephyr.tflm import ALIGNMENT

_WORD = 4


@dataclass
class Placement:
    """Where tensors lie in the storage of another one: tensor -> (that tensor, byte); others lie in their own."""

    subgraph: Subgraph
    places: dict[int, tuple[int, int]] = field(default_factory=dict)

    def of(self, tensor: int) -> tuple[int, int]:
        """The tensor whose storage it lies in, and its first byte there."""
        return self.places.get(tensor, (tensor, 0))

    def members(self, root: int) -> list[int]:
        """The tensors in the storage of `root`, which comes first."""
        return [root, *(tensor for tensor, (other, _) in self.places.items() if other == root)]

    def size(self, tensor: int) -> int:
        """Bytes of a tensor."""
        return self.subgraph.tensors[tensor].size_bytes

    def take(self, view: View) -> bool:
        """Make a view of a copy, where that is possible."""
        (root, at), (whole, first) = self.of(view.part), self.of(view.whole)
        first += view.first
        if root == whole or at or self.size(view.part) != self.size(root) or not self._allows(root, whole, first):
            return False
        for member in self.members(root):
            self.places[member] = whole, first + self.of(member)[1]
        return True

    def _allows(self, root: int, whole: int, first: int) -> bool:
        """Whether the storages can be one: no constants, no variables, not from an input to an output; aligned."""
        members = {*self.members(root), *self.members(whole)}
        tensors = [self.subgraph.tensors[i] for i in members]
        if any(tensor.is_constant or tensor.is_variable for tensor in tensors):
            return False
        inputs, outputs = members & set(self.subgraph.inputs), members & set(self.subgraph.outputs)
        if inputs and outputs:
            return False
        unit = ALIGNMENT if inputs or outputs else max(_WORD, *(tensor.type.size_bytes for tensor in tensors))
        return first % unit == 0


def with_views(subgraph: Subgraph, layers: Sequence[Layer], *, parts: bool) -> tuple[tuple[Layer, ...], Placement]:
    """The layers without the copies that are views. `parts`: also those of a part of a tensor."""
    placement, found = Placement(subgraph), []
    for layer in layers:
        views = []
        for call in layer.calls:
            view = call.view
            if view is None or not (parts or placement.size(view.part) == placement.size(view.whole)):
                continue
            if view.part not in subgraph.inputs or view.part in subgraph.operators[layer.operator].inputs:
                views += [view] if placement.take(view) else []
        found.append(_without(layer, views) if views else layer)
    return tuple(found), placement


def _without(layer: Layer, views: Sequence[View]) -> Layer:
    """The layer without the calls of `views`, and without the pointers that only these use."""
    assert isinstance(layer, KernelLayer)
    calls = tuple(call for call in layer.calls if call.view not in views)
    used = set().union(*(call.pointers() for call in calls))
    pointers = tuple(pointer for pointer in layer.pointers if pointer.name in used)
    return replace(layer, calls=calls, pointers=pointers, views=tuple(views))

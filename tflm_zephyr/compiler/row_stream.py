# SPDX-License-Identifier: Apache-2.0
"""A model's streamed input: which input can come row by row, and why another one cannot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tflm_zephyr.compiler.ir.layers import Layer
from tflm_zephyr.errors import ModelError
from tflm_zephyr.model import Model, Subgraph


@dataclass(frozen=True)
class Stream:
    """An input that comes row by row. `input` is its place in the model's inputs.

    The rows are those of `tensor`: the input itself, or what the first `skipped` layers make of it, which only give
    its bytes another shape. The layers up to `last` read it.
    """

    input: int
    tensor: int
    skipped: int
    last: int


class _CannotStreamError(Exception):
    """The text names the layer, or the input, and the reason."""


def stream_of(model: Model, layers: Sequence[Layer], *, hop: bool = False) -> Stream:
    """The largest input whose rows the first layers can take in. ModelError, naming layer and reason, for none.

    `hop`: the first reader alone takes them in; others may read a whole tensor.
    """
    subgraph = model.main
    by_size = sorted(range(len(subgraph.inputs)), key=lambda k: -subgraph.tensors[subgraph.inputs[k]].size_bytes)
    why = "it has no input"
    for number, place in enumerate(by_size):
        try:
            return _stream(subgraph, layers, place, hop)
        except _CannotStreamError as reason:
            why = why if number else f"input {subgraph.tensors[subgraph.inputs[place]].label}: {reason}"
    hint = f"Leave out --{'hop' if hop else 'stream-input'}, or change the model's first layers"
    raise ModelError(f"no input can be streamed; {why}", where=model.where, hint=hint)


def _stream(subgraph: Subgraph, layers: Sequence[Layer], place: int, hop: bool) -> Stream:
    tensor, skipped = subgraph.inputs[place], 0
    while (taken := _reshaped(subgraph, layers, tensor, skipped)) is not None:
        tensor, skipped = taken, skipped + 1
    if tensor in subgraph.outputs:
        raise _CannotStreamError("it is an output as well")
    readers = list(_readers(subgraph, layers, tensor))
    if not readers:
        raise _CannotStreamError("no layer reads it")
    for k in range(skipped, (readers[0] if hop else readers[-1]) + 1):
        _check_layer(subgraph, layers[k], tensor, k in readers)
    if readers[0] != skipped:
        raise _CannotStreamError(f"{_name(layers[skipped])} comes first and does not read it")
    return Stream(place, tensor, skipped, readers[-1])


def _reshaped(subgraph: Subgraph, layers: Sequence[Layer], tensor: int, k: int) -> int | None:
    """The output of layer `k` where that is all of `tensor` in another shape, and nobody else reads the tensor."""
    if list(_readers(subgraph, layers, tensor)) != [k] or len(layers[k].calls) != 1 or tensor in subgraph.outputs:
        return None
    view, size = layers[k].calls[0].view, subgraph.tensors[tensor].size_bytes
    if view is None or {view.part, view.whole} != {tensor, subgraph.operators[layers[k].operator].outputs[0]}:
        return None
    taken = view.whole if view.part == tensor else view.part
    return taken if subgraph.tensors[taken].size_bytes == size else None


def _readers(subgraph: Subgraph, layers: Sequence[Layer], tensor: int) -> Iterator[int]:
    """The places of the layers that read a tensor, in their order."""
    return (k for k, layer in enumerate(layers) if tensor in subgraph.operators[layer.operator].inputs)


def _check_layer(subgraph: Subgraph, layer: Layer, tensor: int, reads: bool) -> None:
    """A layer that runs while rows come: row by row, on no other input."""
    others = set(subgraph.inputs) & set(subgraph.operators[layer.operator].inputs) - {tensor}
    if layer.rows is None:
        why = layer.no_rows or "runs TFLM's own kernel"
        raise _CannotStreamError(f"{_name(layer)} {why}")
    if others:
        raise _CannotStreamError(f"{_name(layer)} reads input {subgraph.tensors[min(others)].label} as well")
    if reads and any(given.tensor == tensor and given.rows < 2 for given in layer.rows.inputs):
        raise _CannotStreamError(f"{_name(layer)} reads it as a single row")


def _name(layer: Layer) -> str:
    return f"layer {layer.operator} ({layer.key})"

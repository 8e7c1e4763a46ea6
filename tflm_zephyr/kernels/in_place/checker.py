# SPDX-License-Identifier: Apache-2.0
"""The check of in-place distances: which bytes of input are still read, and until when.

It uses a second description of each kernel, `last_reads` in its spec, which shares no formula and no reading of shapes
with the rules. The rules derive a distance from the moments of writing. The check finds the last reader of every input
element, and requires that at the given distance nothing was written there by then.
"""

from __future__ import annotations

from tflm_zephyr.errors import ModelError
from tflm_zephyr.kernels.in_place.runs import COPY
from tflm_zephyr.kernels.library import KernelLibrary
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.model import Model, Operator, Subgraph, TensorType


def why_unsafe(
    library: KernelLibrary,
    model: Model,
    subgraph: Subgraph,
    operator: Operator,
    source: int,
    result: int,
    distance: int,
) -> str | None:
    """Why tensor `result` may not begin `distance` bytes below tensor `source` (negative: above); None if it may.

    `source` is an input and `result` an output of `operator`, by index in the subgraph. The caller ensures that
    `source` is dead after the operator and `result` before it. Tensors that share no byte are always safe.
    """
    given, taken = subgraph.tensors[source], subgraph.tensors[result]
    if distance >= taken.size_bytes or -distance >= given.size_bytes:
        return None
    if operator.outputs.count(result) != 1 or source not in operator.inputs:
        return f"{given.label} and {taken.label} are no input and output of {operator.label}"
    if given.is_constant or given.is_variable or taken.is_constant or taken.is_variable:
        return f"{given.label} or {taken.label} keeps its values"
    node, output = Node(model, subgraph, operator), operator.outputs.index(result)
    for place, tensor in enumerate(operator.inputs):
        if tensor == source:
            try:
                what = _why_not(library, node, place, output, distance)
            except (ModelError, IndexError, ValueError, ZeroDivisionError):
                what = "has shapes or options that do not fit each other"
            if what is not None:
                return f"{operator.label} {what} ({taken.label} {distance} bytes below {given.label})"
    return None


def _why_not(library: KernelLibrary, node: Node, place: int, output: int, distance: int) -> str | None:
    """The reason why the distance is unsafe at one place of the input; None if it is safe."""
    given, taken = node.input(place), node.output(output)
    runs = library.last_reads(node, place, output)
    if runs is None:
        return "reads and writes in an order that is not known"
    if runs is COPY:
        same = distance == 0 and given.size_bytes == taken.size_bytes
        return None if same else "copies its input as a whole"
    kinds = {given.type, taken.type}
    if len(kinds) > 1 and not kinds & {TensorType.INT8, TensorType.UINT8}:
        return f"may have its accesses to {given.type.value} and {taken.type.value} reordered by a compiler"
    for run in runs:
        byte = run.overwritten(distance, taken.size_bytes)
        if byte is not None:
            return f"writes over byte {byte} of its input before it has read it"
    return None

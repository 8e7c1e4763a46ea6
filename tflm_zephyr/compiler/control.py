# SPDX-License-Identifier: Apache-2.0
"""Operators that run subgraphs, and those of resource variables, as layers.

As TFLM's kernels do, IF and WHILE copy tensors into a subgraph's inputs and from its outputs. Sources: if.cc, while.cc,
call_once.cc, read_variable.cc, assign_variable.cc (tensorflow/lite/micro/kernels).
"""

from __future__ import annotations

from collections.abc import Sequence

from tflm_zephyr.compiler.copies import MEMCPY
from tflm_zephyr.compiler.flattening import VARIABLES, FlatModel
from tflm_zephyr.compiler.ir.calls import Access, KernelCall
from tflm_zephyr.compiler.ir.layers import Branch, Control, ControlLayer, Copy, KernelLayer, Layer
from tflm_zephyr.compiler.ir.structs import ConstantArray, ConstantAt, Pointer, TensorAt
from tflm_zephyr.compiler.layer_builder import Constants, NotDirectError, title_of
from tflm_zephyr.kernels import Node
from tflm_zephyr.model import CALLERS, TensorType


def is_control(node: Node) -> bool:
    """Whether `control_layer` makes the operator's layer."""
    return node.operator.custom_code is None and node.operator.key in (*CALLERS, *VARIABLES)


def control_layer(node: Node, flat: FlatModel, constants: Constants) -> Layer:
    """The layer of an operator of `flat`. NotDirectError for one that TFLM's kernel would refuse."""
    builder = _Builder(node, flat, constants)
    key = node.operator.key
    if key == "VAR_HANDLE":
        return KernelLayer(operator=node.operator.index, key=key, title=title_of(node))
    if key in VARIABLES:
        return builder.variable()
    return builder.layer({"CALL_ONCE": builder.call_once, "IF": builder.branch, "WHILE": builder.loop}[key]())


class _Builder:
    def __init__(self, node: Node, flat: FlatModel, constants: Constants) -> None:
        self._node, self._flat, self._constants = node, flat, constants
        self._operator = node.operator

    def layer(self, control: Control) -> Layer:
        """A layer without calls of its own."""
        operator = self._operator
        return ControlLayer(operator=operator.index, key=operator.key, title=title_of(self._node), control=control)

    def call_once(self) -> Control:
        (subgraph,) = self._operator.subgraphs
        return Control("CALL_ONCE", self._flat.flags[self._operator.index], (), (Branch((), subgraph, ()),))

    def branch(self) -> Control:
        condition, *given = self._operator.inputs
        branches = tuple(
            Branch(
                self._copies(given, self._flat.inputs[subgraph]),
                subgraph,
                self._copies(self._flat.outputs[subgraph], self._operator.outputs),
            )
            for subgraph in self._operator.subgraphs
        )
        return Control("IF", self._condition(condition), (), branches)

    def loop(self) -> Control:
        condition, body = self._operator.subgraphs
        given, taken = self._operator.inputs, self._operator.outputs
        start = self._copies(given, self._flat.inputs[condition]) + self._copies(given, taken)
        again = self._copies(self._flat.outputs[body], taken) + self._copies(taken, self._flat.inputs[condition])
        branches = (
            Branch((), condition, ()),
            Branch(self._copies(taken, self._flat.inputs[body]), body, again),
        )
        return Control("WHILE", self._condition(self._flat.outputs[condition][0]), start, branches)

    def variable(self) -> Layer:
        """READ_VARIABLE and ASSIGN_VARIABLE: a copy."""
        variable = self._flat.variables[self._operator.inputs[0]]
        reading = self._operator.key == "READ_VARIABLE"
        pair = (variable, self._operator.outputs[0]) if reading else (self._operator.inputs[1], variable)
        (copy,) = self._copies((pair[0],), (pair[1],))
        output = Pointer("output", TensorType.UINT8, copy.target, written=True)
        source = Pointer("input", TensorType.UINT8, copy.source, written=False)
        call = KernelCall(
            MEMCPY,
            (TensorAt(output), ConstantAt(copy.constant) if copy.constant else TensorAt(source), copy.size),
            () if copy.constant else (Access(copy.source, 0, copy.size),),
            (Access(copy.target, 0, copy.size),),
            copies=True,
        )
        return KernelLayer(
            operator=self._operator.index,
            key=self._operator.key,
            title=title_of(self._node),
            pointers=(output,) if copy.constant else (output, source),
            calls=(call,),
        )

    def _condition(self, tensor: int) -> int:
        found = self._node.subgraph.tensors[tensor]
        if found.is_constant or found.type.value != "bool" or found.elements != 1:
            raise NotDirectError(f"has a condition in {found.label}, which is no computed bool")
        return tensor

    def _copies(self, sources: Sequence[int], targets: Sequence[int]) -> tuple[Copy, ...]:
        if len(sources) != len(targets):
            raise NotDirectError(f"has {len(sources)} tensors for {len(targets)} of its subgraph")
        found = []
        for source, target in zip(sources, targets, strict=True):
            one, other = (self._node.subgraph.tensors[i] for i in (source, target))
            if one.size_bytes != other.size_bytes or other.is_constant:
                raise NotDirectError(f"has {one.label} and {other.label} of different sizes")
            constant = ""
            if one.data is not None:
                name, where = f"tensor{source}_{self._operator.index}", f"layer {self._operator.index}: {one.label}"
                constant = self._constants.array(ConstantArray(name, one.type, one.elements, one.data, where))
            if one.size_bytes:
                found.append(Copy(source, constant, target, one.size_bytes))
        return tuple(found)

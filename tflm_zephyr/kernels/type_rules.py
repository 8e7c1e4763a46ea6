# SPDX-License-Identifier: Apache-2.0
"""Refusals of TFLM's kernels, found before anything is built: tensor types, and what Prepare checks besides.

The rules stand in the operators' specs. A workspace with a TFLM that is not known is refused only what no known
revision takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tflm_zephyr.errors import ModelError
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.kernels.registry import operator_specs
from tflm_zephyr.kernels.revisions import REVISIONS
from tflm_zephyr.kernels.spec import Check, OperatorSpec, TypeRule
from tflm_zephyr.model import Model, Operator, Subgraph, Tensor, TensorType, shown

_FLOAT_NAMES = (TensorType.FLOAT16, TensorType.BFLOAT16, TensorType.FLOAT64)
_UNROLL = "Build the LSTM with unroll=True, or convert it with a newer converter"
HINTS: Mapping[str, str] = {
    "hybrid": (
        "This is dynamic-range (hybrid) quantisation, float activations with integer weights: convert with a "
        "representative_dataset and supported_ops = [TFLITE_BUILTINS_INT8] for full integer quantisation, or without "
        "optimizations for float"
    ),
    "uint8": (
        "This is the old uint8 quantisation: convert again with a TensorFlow 2 converter to int8 "
        "(representative_dataset, inference_input_type = tf.int8)"
    ),
    "float": "Convert without supported_types = [tf.float16]: TFLM computes in float32, int8 or int16",
    "int16": "Quantise to int8 in place of int16 activations, or use another operator there",
}


def check_types(
    model: Model,
    declared: frozenset[str] = frozenset(),
    *,
    revision: str = "",
    besides: Callable[[Node], bool] = lambda node: False,
) -> None:
    """ModelError for the first operator whose tensors TFLM's own kernel certainly refuses or misreads.

    `declared` are names of custom operators whose kernels the user brings; these are not looked at, nor are operators
    that `besides` holds for. `revision` is the TFLM commit that the app is built with, "" for the pinned one.
    """
    specs = operator_specs(revision)
    for subgraph in model.subgraphs:
        for operator in subgraph.operators:
            if operator.custom_code is not None and operator.custom_code in declared:
                continue
            _check_held(model, subgraph, operator)
            node, spec = Node(model, subgraph, operator), specs.get(operator.key)
            if besides(node):
                continue
            if spec is not None and spec.types is not None:
                _check_rule(node, spec.types)
            _check_intermediates(node)
            for check in _checks(operator.key, spec, revision):
                check(node)


def _checks(key: str, spec: OperatorSpec | None, revision: str) -> tuple[Check, ...]:
    """The spec's checks; at a revision that is not known those that all known revisions have."""
    if spec is None:
        return ()
    if revision in ("", *REVISIONS):
        return spec.checks
    others = [operator_specs(one).get(key) for one in REVISIONS]
    return tuple(check for check in spec.checks if all(one is None or check in one.checks for one in others))


def _check_intermediates(node: Node) -> None:
    """No intermediate tensor with elements: TFLM allocates none."""
    for index in node.operator.intermediates:
        tensor = node.subgraph.tensors[index]
        if tensor.elements:
            raise node.fail(
                f"has the intermediate {tensor.label} of shape {list(tensor.shape)}, but TFLM takes only empty ones",
                _UNROLL,
            )


def _check_rule(node: Node, rule: TypeRule) -> None:
    found = list(_slotted(node, rule))
    if not found or found[0][0] != rule.slots[0].replace("*", "0"):
        return  # its first tensor is absent, which TFLM and the graph report in their own words
    tensor = _misfit(rule, [(slot if slot in rule.slots else slot[0] + "*", t) for slot, t in found])
    if tensor is None:
        return
    listed = ((slot, t) for slot, t in found if slot in rule.slots or t is tensor)
    types = ", ".join(f"{_slot_name(slot)} '{shown(t.name)}' is {t.type.value}" for slot, t in listed)
    raise node.fail(
        f"takes no {tensor.type.value} for {tensor.label}: {types}",
        f"{_cause(found)}TFLM takes {_described(rule)}",
    )


def _misfit(rule: TypeRule, found: list[tuple[str, Tensor]]) -> Tensor | None:
    """None when some row fits `found` (slot, tensor), else the tensor that breaks the closest row."""
    best: tuple[int, Tensor] | None = None
    for row in rule.accepts:
        wanted = dict(zip(rule.slots, row, strict=True))
        for place, (slot, tensor) in enumerate(found):
            if not _fits(wanted[slot], tensor.type.value, found[0][1].type.value):
                if best is None or place > best[0]:
                    best = (place, tensor)
                break
        else:
            return None
    return best[1] if best else None


def _described(rule: TypeRule) -> str:
    """The types that the rule accepts, for a message: "input 0 float32, output 0 the same; or ..."."""
    return "; or ".join(
        ", ".join(
            f"{_slot_name(slot)} {_type_name(types)}"
            for slot, types in zip(rule.slots, row, strict=True)
            if types != "*"
        )
        for row in rule.accepts
    )


def _check_held(model: Model, subgraph: Subgraph, operator: Operator) -> None:
    """No type that TFLM gives no size: it cannot even count such a tensor's bytes."""
    for index in (*operator.inputs, *operator.outputs):
        tensor = subgraph.tensors[index] if index >= 0 else None
        if tensor is not None and not tensor.type.has_size:
            raise ModelError(
                f"{tensor.label} of subgraph {subgraph.index}, used by {operator.label}, is of type "
                f"{tensor.type.value}",
                where=model.where,
                hint="TFLM holds no such tensors: keep that part outside the model",
            )


def _slotted(node: Node, rule: TypeRule) -> Iterator[tuple[str, Tensor]]:
    for slot in rule.slots:
        indices = node.operator.inputs if slot[0] == "i" else node.operator.outputs
        places = range(len(indices)) if slot[1:] == "*" else [int(slot[1:])]
        for place in places:
            if place < len(indices) and indices[place] >= 0:
                yield f"{slot[0]}{place}", node.subgraph.tensors[indices[place]]


def _fits(wanted: str, found: str, first: str) -> bool:
    if wanted == "=":
        return found == first
    return wanted == "*" or found in wanted.split("|")


def _slot_name(slot: str) -> str:
    kind = "input" if slot[0] == "i" else "output"
    return f"each {kind}" if slot[1:] == "*" else f"{kind} {slot[1:]}"


def _type_name(types: str) -> str:
    return "the same" if types == "=" else types.replace("|", "/")


def _cause(found: list[tuple[str, Tensor]]) -> str:
    """The commonest reasons, each with its cure; "" when it is none of these."""
    types = {tensor.type for _, tensor in found}
    constants = {tensor.type for _, tensor in found if tensor.is_constant}
    kind = ""
    if types & set(_FLOAT_NAMES):
        kind = "float"
    elif TensorType.FLOAT32 in types and constants & {TensorType.INT8, TensorType.UINT8, TensorType.INT4}:
        kind = "hybrid"
    elif TensorType.UINT8 in types:
        kind = "uint8"
    elif TensorType.INT16 in types:
        kind = "int16"
    return f"{HINTS[kind]}. " if kind else ""

# SPDX-License-Identifier: Apache-2.0
"""The tensor types that TFLM's kernels take, so that a refusal is told before anything is built.

data/tflm_types.json says for each operator which combinations its reference kernel takes, read in Prepare and
Eval of tensorflow/lite/micro/kernels and signal/micro/kernels at revision 8d404de7. `slots` names the tensors
looked at (`i0` an input, `o0` an output, `i*` every input); each row of `accepts` gives the types for them:
`=` is the first slot's type, `*` any. What a kernel would read as a type that it is not counts as refused.
An absent optional tensor fits every row. `later` are rows that newer revisions take (found by running them), so
a workspace with another TFLM is refused only what neither takes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from tflm_zephyr.errors import ModelError
from tflm_zephyr.model import Model, Operator, Subgraph, Tensor, TensorType
from tflm_zephyr.resources import package_data
from tflm_zephyr.tflm.prepare_checks import check_details

PINNED_REVISION = "8d404de73acf7687831e16d88e86e4f73cfddf8e"
_FLOAT_NAMES = (TensorType.FLOAT16, TensorType.BFLOAT16, TensorType.FLOAT64)
_HINTS: Mapping[str, str] = {
    "hybrid": (
        "This is dynamic-range (hybrid) quantisation, float activations with integer weights: convert with a "
        "representative_dataset for full integer quantisation, or without optimizations for float"
    ),
    "uint8": (
        "This is the old uint8 quantisation: convert again with a TensorFlow 2 converter to int8 "
        "(representative_dataset, inference_input_type = tf.int8)"
    ),
    "float": "Convert without supported_types = [tf.float16]: TFLM computes in float32, int8 or int16",
    "int16": "Quantise to int8 in place of int16 activations, or use another operator there",
}


@dataclass(frozen=True)
class TypeRule:
    """Which types one operator takes: in each row, one set of type names (or "=" or "*") a slot."""

    slots: tuple[str, ...]
    accepts: tuple[tuple[str, ...], ...]
    later: tuple[tuple[str, ...], ...] = ()

    def misfit(self, found: list[tuple[str, Tensor]]) -> Tensor | None:
        """None when some row fits `found` (slot, tensor), else the tensor that breaks the closest row."""
        best: tuple[int, Tensor] | None = None
        for row in self.accepts:
            wanted = dict(zip(self.slots, row, strict=True))
            for place, (slot, tensor) in enumerate(found):
                if not _fits(wanted[slot], tensor.type.value, found[0][1].type.value):
                    if best is None or place > best[0]:
                        best = (place, tensor)
                    break
            else:
                return None
        return best[1] if best else None

    def with_later(self) -> TypeRule:
        """The rule for revisions other than the pinned one."""
        return replace(self, accepts=self.accepts + self.later)

    def describe(self) -> str:
        """What it takes, for a message: "input 0 float32, output 0 the same; or ..."."""
        return "; or ".join(
            ", ".join(
                f"{_slot_name(slot)} {_type_name(types)}"
                for slot, types in zip(self.slots, row, strict=True)
                if types != "*"
            )
            for row in self.accepts
        )


@lru_cache(maxsize=1)
def type_rules() -> Mapping[str, TypeRule]:
    """The rule of each operator that has one, by key."""

    def rows(texts: list[str]) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(text.split()) for text in texts)

    raw = json.loads(package_data("tflm_types.json"))["operators"]
    return {
        key: TypeRule(tuple(entry["slots"].split()), rows(entry["accepts"]), rows(entry.get("later", [])))
        for key, entry in raw.items()
    }


def check_types(model: Model, declared: frozenset[str] = frozenset(), *, revision: str = PINNED_REVISION) -> None:
    """ModelError for the first operator whose tensors TFLM's own kernel certainly refuses or misreads.

    `declared` are names of custom operators whose kernels the user brings; these are not looked at.
    `revision` is the TFLM that the app is built with.
    """
    pinned = revision in ("", PINNED_REVISION)
    rules = {key: rule if pinned else rule.with_later() for key, rule in type_rules().items()}
    for subgraph in model.subgraphs:
        for operator in subgraph.operators:
            if operator.custom_code is not None and operator.custom_code in declared:
                continue
            _check_held(model, subgraph, operator)
            rule = rules.get(operator.key)
            if rule is not None:
                _check_rule(model, subgraph, operator, rule)
            check_details(model, subgraph, operator, pinned=pinned)


def _check_rule(model: Model, subgraph: Subgraph, operator: Operator, rule: TypeRule) -> None:
    found = list(_slotted(subgraph, operator, rule))
    if not found or found[0][0] != rule.slots[0].replace("*", "0"):
        return  # its first tensor is absent, which TFLM and the graph report in their own words
    tensor = rule.misfit([(slot if slot in rule.slots else slot[0] + "*", t) for slot, t in found])
    if tensor is None:
        return
    types = ", ".join(
        f"{_slot_name(slot)} '{t.name}' is {t.type.value}" for slot, t in found if slot in rule.slots or t is tensor
    )
    raise ModelError(
        f"operator {operator.index} ({operator.key}) of subgraph {subgraph.index} takes no "
        f"{tensor.type.value} for tensor {tensor.index} '{tensor.name}': {types}",
        where=model.where,
        hint=f"{_cause(found)}TFLM takes {rule.describe()}",
    )


def _check_held(model: Model, subgraph: Subgraph, operator: Operator) -> None:
    """No type that TFLM gives no size: it cannot even count such a tensor's bytes."""
    for index in (*operator.inputs, *operator.outputs):
        tensor = subgraph.tensors[index] if index >= 0 else None
        if tensor is not None and not tensor.type.has_size:
            raise ModelError(
                f"tensor {index} '{tensor.name}' of subgraph {subgraph.index}, used by operator "
                f"{operator.index} ({operator.key}), is of type {tensor.type.value}",
                where=model.where,
                hint="TFLM holds no such tensors: keep that part outside the model",
            )


def _slotted(subgraph: Subgraph, operator: Operator, rule: TypeRule) -> Iterator[tuple[str, Tensor]]:
    for slot in rule.slots:
        indices = operator.inputs if slot[0] == "i" else operator.outputs
        places = range(len(indices)) if slot[1:] == "*" else [int(slot[1:])]
        for place in places:
            if place < len(indices) and indices[place] >= 0:
                yield f"{slot[0]}{place}", subgraph.tensors[indices[place]]


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
    return f"{_HINTS[kind]}. " if kind else ""

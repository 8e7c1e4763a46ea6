# SPDX-License-Identifier: Apache-2.0
"""Facts of models, and the changes that a new model makes: interface, operators, sizes."""

from __future__ import annotations

from dataclasses import replace

from tests.helpers.app_specs import model, tensor
from tflm_zephyr.codegen.model_facts import ModelFacts, TensorChange, TensorFacts, facts_of, model_changes

FACTS = ModelFacts(
    "ab", (TensorFacts("int8", (1, 4), 0.5, -1),), (TensorFacts("int8", (1, 70), 0.5, -1),), ("AddRelu",), 40, 1024
)


def test_facts_are_those_of_the_model() -> None:
    found = facts_of(model())
    assert (found.sha256, found.inputs, found.outputs) == ("ab" * 32, FACTS.inputs, FACTS.outputs)
    assert (found.model_bytes, found.arena_bytes, found.operators[0]) == (40, 1024, "AddFullyConnected")
    assert facts_of(model(inputs=(tensor("other"),))) == found  # a tensor's name is in no code


def test_the_same_models_have_no_changes() -> None:
    assert model_changes({"net": FACTS}, {"net": FACTS}) == ()


def test_quantisation_breaks_no_code() -> None:
    other = replace(FACTS, sha256="cd", inputs=(TensorFacts("int8", (1, 4), 0.25, 3),))
    (change,) = model_changes({"net": FACTS}, {"net": other})
    assert change.interface == (TensorChange("input 0", FACTS.inputs[0], other.inputs[0]),)
    assert not change.interface[0].breaks


def test_shapes_types_and_numbers_break_code() -> None:
    wide = TensorFacts("int8", (1, 12), 0.5, -1)
    real = TensorFacts("float32", (1, 4))
    other = replace(FACTS, inputs=(real,), outputs=(wide, wide))
    (change,) = model_changes({"net": FACTS}, {"net": other})
    assert [(item.tensor, item.breaks) for item in change.interface] == [
        ("input 0", True), ("output 0", True), ("output 1", True),
    ]  # fmt: skip
    (back,) = model_changes({"net": other}, {"net": FACTS})
    assert back.interface[-1] == TensorChange("output 1", wide, None) and back.interface[-1].breaks


def test_models_come_and_go() -> None:
    found = model_changes({"a": FACTS, "b": FACTS}, {"b": FACTS, "c": FACTS})
    assert [(change.ident, change.was, change.now) for change in found] == [("c", None, FACTS), ("a", FACTS, None)]

# SPDX-License-Identifier: Apache-2.0
"""Registration functions for single types: which ones a TFLM offers, and when one serves a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.model_builder import ModelBuilder
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.kernels.registry import operator_specs
from tflm_zephyr.kernels.uses import (
    has_cmsis_nn,
    typed_registration,
    uses_of,
    variant_of,
    why_reference,
)
from tflm_zephyr.model.reader import parse_model
from tflm_zephyr.resources import package_data
from tflm_zephyr.tflm.op_resolver import HEADER, shipped_operator_table
from tflm_zephyr.tflm.pins import PINNED_REVISION, data_folder
from tflm_zephyr.tflm.typed_registrations import TYPED_FILE, dump_typed, shipped_typed, typed_for

CONV_HEADER = """
TFLMRegistration Register_CONV_2D();
#if defined(CMSIS_NN)
// inline TFLMRegistration Register_CONV_2D_INT32() { }
TFLMRegistration Register_CONV_2D_INT8();
TFLMRegistration Register_CONV_2D_INT16();
TFLMRegistration Register_CONV_2D_INT32();
TFLMRegistration Register_RELU_INT8();
#else
inline TFLMRegistration Register_CONV_2D_INT8() {
  return Register_CONV_2D();
}
inline TFLMRegistration Register_RELU_INT8() { return Register_RELU(); }
#endif
"""


def checkout(folder: Path) -> Path:
    files = {
        str(HEADER): '#include "tensorflow/lite/micro/kernels/conv.h"\n'
        '#include "tensorflow/lite/micro/kernels/gone.h"\n'
        "TfLiteStatus AddConv2D(\n    const TFLMRegistration& registration = Register_CONV_2D()) { }\n"
        "TfLiteStatus AddRelu() { return AddBuiltin(BuiltinOperator_RELU, Register_RELU(), ParseRelu); }\n",
        "tensorflow/lite/micro/kernels/conv.h": CONV_HEADER,
        "tensorflow/lite/micro/kernels/not_included.h": CONV_HEADER.replace("CONV_2D_INT16", "CONV_2D_INT8"),
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_a_function_needs_a_fallback_and_a_method(tmp_path: Path) -> None:
    """INT16 has no fallback, INT32 only one in a comment, AddRelu takes no registration."""
    assert typed_for(checkout(tmp_path)) == ("Register_CONV_2D_INT8",)


def test_a_checkout_without_the_header_offers_none(tmp_path: Path) -> None:
    assert typed_for(tmp_path) == ()


def test_shipped_list() -> None:
    assert dump_typed(shipped_typed(), PINNED_REVISION) == package_data(f"{data_folder(PINNED_REVISION)}/{TYPED_FILE}")
    assert typed_for(None) == shipped_typed()
    assert "Register_FULLY_CONNECTED_INT8" in shipped_typed()
    assert "Register_MUL_INT16" not in shipped_typed()  # defined in mul.cc, and declared in no header


def net(key: str, inputs: list[str], outputs: list[str], *more: list[str], shapes: object = None) -> list[Node]:
    """Uses of one operator, the second and later ones with the input types `more`."""
    builder = ModelBuilder()
    main = builder.subgraph()
    for types in (inputs, *more):
        found = [main.tensor((1, 4), kind, scale=0.5) for kind in types]
        made = [main.tensor((1, 4), kind, scale=0.5) for kind in outputs]
        main.op(key, found, made)
    main.inputs, main.outputs = [0], [len(inputs)]
    return uses_of(parse_model(builder.finish()))[key]


WEIGHTED = "CONV_2D DEPTHWISE_CONV_2D FULLY_CONNECTED".split()
CASES = [
    *((key, ["int8", "int8", "int32"], ["int8"], "INT8") for key in WEIGHTED),
    *((key, ["int8", "int8"], ["int8"], "INT8") for key in WEIGHTED),
    *((key, ["int8", "int4", "int32"], ["int8"], "INT4") for key in WEIGHTED),
    *((key, ["int16", "int8", "int64"], ["int16"], "INT16") for key in WEIGHTED),
    *((key, ["float32", "float32", "float32"], ["float32"], "") for key in WEIGHTED),
    *((key, ["float32", "int8", "float32"], ["float32"], "") for key in WEIGHTED),
    ("SOFTMAX", ["int8"], ["int8"], "INT8"),
    ("SOFTMAX", ["int8"], ["int16"], "INT8_INT16"),
    ("SOFTMAX", ["int16"], ["int16"], "INT16"),
    ("SOFTMAX", ["float32"], ["float32"], ""),
    ("ADD", ["int8", "int8"], ["int8"], "INT8"),
    ("ADD", ["int32", "int32"], ["int32"], ""),
    ("MUL", ["int16", "int16"], ["int16"], "INT16"),
    ("MAXIMUM", ["int16", "int16"], ["int16"], ""),
    ("MINIMUM", ["int8", "int8"], ["int8"], "INT8"),
    ("TRANSPOSE_CONV", ["int32", "int8", "int8"], ["int8"], "INT8"),
    ("TRANSPOSE_CONV", ["int32", "int8", "int16"], ["int16"], ""),
    ("RELU", ["int8"], ["int8"], ""),
]


@pytest.mark.parametrize(("key", "inputs", "outputs", "variant"), CASES)
def test_variant_by_types(key: str, inputs: list[str], outputs: list[str], variant: str) -> None:
    (use,) = net(key, inputs, outputs)
    assert variant_of(use) == variant
    name = f"Register_{key}_{variant}"
    assert typed_registration(key, [use], [name], asserts=True) == (name if variant else "")
    assert typed_registration(key, [use], [], asserts=True) == ""
    assert (why_reference(use) == "") == bool(variant)


def test_all_uses_must_agree() -> None:
    names = [f"Register_CONV_2D_{variant}" for variant in ("INT8", "INT4", "INT16")]
    same = net("CONV_2D", ["int8", "int8"], ["int8"], ["int8", "int8"])
    assert typed_registration("CONV_2D", same, names, asserts=True) == "Register_CONV_2D_INT8"
    for other in (["int8", "int4"], ["int16", "int8"], ["float32", "float32"]):
        assert (
            typed_registration("CONV_2D", net("CONV_2D", ["int8", "int8"], ["int8"], other), names, asserts=True) == ""
        )


def test_a_wrong_assert_excludes_a_function_in_debug_builds() -> None:
    key = "UNIDIRECTIONAL_SEQUENCE_LSTM"
    name = f"Register_{key}_INT8"
    uses = net(key, ["int8", "int8", "int8"], ["int8"])
    assert typed_registration(key, uses, [name], asserts=True) == ""
    assert typed_registration(key, uses, [name], asserts=False) == name


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [((1, 4), (1, 4), True), ((4,), (1, 1, 4), True), ((1, 4), (1, 1), False), ((2, 4), (4,), False), ((1,), (), True)],
)
@pytest.mark.parametrize("key", ["ADD", "MUL", "MAXIMUM"])
def test_shapes_that_broadcast(key: str, one: tuple[int, ...], other: tuple[int, ...], equal: bool) -> None:
    builder = ModelBuilder()
    main = builder.subgraph()
    for shape in (one, other, one):
        main.tensor(shape, "int8", scale=0.5)
    main.op(key, [0, 1], [2])
    main.inputs, main.outputs = [0, 1], [2]
    (use,) = uses_of(parse_model(builder.finish()))[key]
    assert variant_of(use) == "INT8"
    assert (why_reference(use) == "") == (equal or key == "MAXIMUM")


def test_operators_of_typed_functions_take_those_types() -> None:
    """A name that is offered and means nothing here would be a gap in the table."""
    keys = sorted((call.register for call in shipped_operator_table().calls.values() if call.register), key=len)
    for name in shipped_typed():
        base = next(base for base in reversed(keys) if name.startswith(f"{base}_"))
        key, variant = base.removeprefix("Register_"), name.removeprefix(f"{base}_")
        assert has_cmsis_nn(key)
        if variant != "INT8REF":  # Xtensa's
            assert operator_specs()[key].types is not None

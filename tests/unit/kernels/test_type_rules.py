# SPDX-License-Identifier: Apache-2.0
"""A model that TFLM's kernels refuse gives an error with names and a remedy; no other model gives one."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from tests.helpers.typed_models import conv, dense, lstm, model_of
from tflm_zephyr.errors import ModelError
from tflm_zephyr.kernels.registry import operator_specs
from tflm_zephyr.kernels.revisions import PACKAGE, REVISIONS
from tflm_zephyr.kernels.type_rules import check_types
from tflm_zephyr.model.reader import load_model
from tflm_zephyr.model.types import Model
from tflm_zephyr.tflm.op_resolver import shipped_operator_table
from tflm_zephyr.tflm.pins import PINNED_REVISION, ZEPHYR_4_4_REVISION


@pytest.mark.parametrize(
    "types",
    [
        ("float32", "float32", "float32", "float32"),
        ("int8", "int8", "int8", "int32"),
        ("int8", "int4", "int8", "int32"),
        ("int16", "int8", "int16", "int64"),
        ("int8", "int8", "int8", None),
    ],
)
def test_dense_that_is_taken(types: tuple[str, str, str, str | None]) -> None:
    check_types(dense(*types))


@pytest.mark.parametrize(
    ("types", "said"),
    [
        (("float32", "int8", "float32"), r"no int8 for tensor 1 'in1'.*dynamic-range \(hybrid\)"),
        (("uint8", "uint8", "uint8"), "no uint8 for tensor 0 'in0'.*old uint8 quantisation"),
        (("float16", "float16", "float16"), "no float16 for tensor 0 'in0'.*float16"),
        (("float32", "float16", "float32"), "no float16 for tensor 1 'in1'"),
        (("int16", "int16", "int16"), "no int16 for tensor 1 'in1'"),
        (("int8", "int8", "int8", "int64"), "no int64 for tensor 2 'in2'"),
        (("int8", "int8", "float32"), "no float32 for tensor 2 'out0'"),
    ],
)
def test_dense_that_is_refused(types: tuple[str, ...], said: str) -> None:
    with pytest.raises(ModelError, match=said) as caught:
        check_types(dense(*types))
    assert r"operator 0 (FULLY_CONNECTED) of subgraph 0" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_in_refusals_are_printable() -> None:
    tensor = {"type": "uint8", "name": "a\nb\x1b[31m"}
    with pytest.raises(ModelError) as caught:
        check_types(model_of("RELU", [tensor], [tensor]))
    assert r"tensor 0 'a\nb\x1b[31m'" in str(caught.value) and str(caught.value).isprintable()


def test_dense_per_channel() -> None:
    check_types(dense("int8", "int8", "int8", scales=[0.5] * 8))
    with pytest.raises(ModelError, match="disable_per_channel_quantization_for_dense_layers"):
        check_types(dense("int16", "int8", "int16", scales=[0.5] * 8))
    with pytest.raises(ModelError, match="per-channel"):
        check_types(dense("int8", "int4", "int8", scales=[0.5] * 8))
    with pytest.raises(ModelError, match="has 3 scales along dimension 0"):
        check_types(dense("int8", "int8", "int8", scales=[0.5] * 3))


def test_bias_scale() -> None:
    check_types(dense("int8", "int8", "int8", "int32", bias_scale=0.26))
    with pytest.raises(ModelError, match=r"needs the scale 0\.25 on tensor 2 'in2', its bias, which has 0\.5"):
        check_types(dense("int8", "int8", "int8", "int32", bias_scale=0.5))


def test_convolution_scales() -> None:
    check_types(conv(0.5))
    check_types(conv(0.5, dimension=3))  # one scale: its dimension does not matter
    check_types(conv([0.5] * 3))
    with pytest.raises(ModelError, match="needs 1 or 3 scales"):
        check_types(conv([0.5] * 2))
    with pytest.raises(ModelError, match="needs 1 or 3 scales"):
        check_types(conv([0.5] * 3, dimension=3))
    with pytest.raises(ModelError, match="quantisation parameters on tensor 1 'in1'"):
        check_types(conv(None))
    with pytest.raises(ModelError, match="quantisation parameters on tensor 0 'in0'"):
        check_types(conv(0.5, input_scale=None))


def test_float16_weights_behind_dequantize() -> None:
    model = model_of("DEQUANTIZE", [{"type": "float16", "data": "random"}], [{"type": "float32"}])
    with pytest.raises(ModelError, match=r"supported_types = \[tf.float16\]"):
        check_types(model)


def test_types_without_a_size() -> None:
    model = model_of("SQUEEZE", [{"type": "string"}], [{"type": "string"}])
    with pytest.raises(ModelError, match="tensor 0 'in0' of subgraph 0, used by operator 0"):
        check_types(model)


def test_what_newer_revisions_take() -> None:
    model = model_of(
        "TRANSPOSE",
        [{"type": "int16", "scale": 1.0}, {"shape": (2,), "type": "int32", "data": struct.pack("<2i", 1, 0)}],
        [{"shape": (4, 1), "type": "int16", "scale": 1.0}],
    )
    with pytest.raises(ModelError, match="no int16"):
        check_types(model)
    check_types(model, revision="another")


def test_own_kernels_are_not_looked_at() -> None:
    model = model_of("X", [{"type": "float16"}], [{"type": "float16"}], custom_code="SignalWindow")
    with pytest.raises(ModelError, match="no float16"):
        check_types(model)
    check_types(model, frozenset({"SignalWindow"}))


def test_code_for_an_ethos_u_needs_a_kernel_of_the_users() -> None:
    model = model_of("X", [{"type": "uint8"}], [{"type": "int8"}], custom_code="ethos-u")
    with pytest.raises(ModelError, match=r"for an Ethos-U NPU.*Use the .tflite from before Vela"):
        check_types(model)
    check_types(model, frozenset({"ethos-u"}))


def test_every_rule_is_of_an_operator_and_consistent() -> None:
    assert set(operator_specs()) == set(shipped_operator_table().calls)
    for revision in REVISIONS:
        for key, spec in operator_specs(revision).items():
            rows = spec.types.accepts if spec.types is not None else ()
            assert spec.types is None or all(len(row) == len(spec.types.slots) for row in rows), key
            assert all(row[0] != "=" for row in rows), key


def test_newer_revisions_have_every_operator_of_older_ones() -> None:
    older, newer, newest = (set(operator_specs(revision)) for revision in REVISIONS)
    assert newer - older == {"DYNAMIC_UPDATE_SLICE", "REDUCE_ALL", "REDUCE_MIN", "REVERSE_V2", "TFLM_DECODE"}
    assert newest == newer


def unary(key: str, kind: str, zero_point: int = 0) -> Model:
    io = {"type": kind, "scale": 0.5, "zero_point": zero_point}
    return model_of(key, [io], [io])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (unary("RELU", "int16"), "no int16"),
        (unary("GREATER", "int16"), "no int16"),
        (model_of("PACK", [{"type": "int16"}] * 2, [{"type": "int16", "shape": (2, 1, 4)}]), "no int16"),
        (model_of("SUB", [{"type": "int32"}] * 2, [{"type": "int32"}]), "no int32"),
        (dense("int16", "int8", "int16", scales=[0.5] * 8), "per-channel scales"),
        (dense("int16", "int8", "int16", "int32"), "no int32"),
    ],
)
def test_what_fcc760af_takes_that_8d404de7_does_not(model: Model, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        check_types(model, revision=PINNED_REVISION)
    check_types(model, revision=ZEPHYR_4_4_REVISION)
    check_types(model, revision="another")


def test_only_the_package_casts_to_bool() -> None:
    model = model_of("CAST", [{"type": "int32"}], [{"type": "bool"}])
    for revision in (PINNED_REVISION, ZEPHYR_4_4_REVISION):
        with pytest.raises(ModelError, match="no bool"):
            check_types(model, revision=revision)
    check_types(model, revision=PACKAGE)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (unary("RELU", "int16", 3), "zero point 0"),
        (model_of("MAX_POOL_2D", [{"scale": 0.5}], [{"scale": 0.25}]), "the same scale"),
        (model_of("MAX_POOL_2D", [{"scale": 0.5, "zero_point": 1}], [{"scale": 0.5}]), "the same scale"),
        (
            model_of("FILL", [{"type": "int32"}, {"type": "float32"}], [{"type": "float32"}]),
            "a constant as its input 0",
        ),
        (model_of("EXPAND_DIMS", [{}, {"type": "int32", "shape": (1,)}], [{}]), "a constant as its input 1"),
        (model_of("SUB", [{"type": "int32", "scale": 1.0}] * 2, [{"type": "int32"}]), "no quantised int32"),
    ],
)
def test_what_fcc760af_refuses(model: Model, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        check_types(model, revision=ZEPHYR_4_4_REVISION)
    if message != "zero point 0" and "quantised" not in message:
        check_types(model, revision=PINNED_REVISION)
        check_types(model, revision="another")  # perhaps older than this check


@pytest.mark.parametrize(("axes", "taken"), [([1, 2], True), ([1, -2, 3, -1, 2], False), ([1, -3, 1], True)])
def test_axes_of_a_mean(axes: list[int], taken: bool) -> None:
    model = model_of(
        "MEAN",
        [
            {"shape": (1, 4, 4, 2), "type": "float32"},
            {"shape": (len(axes),), "type": "int32", "data": struct.pack(f"<{len(axes)}i", *axes)},
        ],
        [{"shape": (1, 2), "type": "float32"}],
    )
    if taken:
        check_types(model)
        return
    with pytest.raises(ModelError, match="reduces 3 of the 4 dimensions"):
        check_types(model)
    check_types(model, revision="another")


def test_intermediate_tensors() -> None:
    io: dict[str, Any] = {"type": "float32"}
    check_types(model_of("ABS", [io], [io], intermediates=[{"shape": (0,), "type": "int8"}]))
    with pytest.raises(ModelError, match=r"intermediate tensor 2 'im0' of shape \[1\]"):
        check_types(model_of("ABS", [io], [io], intermediates=[{"shape": (1,), "type": "int8"}]))


def test_lstm_variants() -> None:
    check_types(lstm())
    with pytest.raises(ModelError, match="peephole tensor"):
        check_types(lstm(i9={"shape": (4,), "type": "int16", "data": "random", "scale": 0.5}))
    with pytest.raises(ModelError, match="projection tensor"):
        check_types(lstm(i16={"shape": (4, 4), "data": "random", "scale": 0.5}))
    with pytest.raises(ModelError, match="lacks its input 1"):
        check_types(lstm(i1=None))
    with pytest.raises(ModelError, match="variable tensor as its input 19"):
        check_types(lstm(i19={"type": "int16", "scale": 2.0**-11}))
    with pytest.raises(ModelError, match="no int8 for tensor"):
        check_types(lstm(i0={"shape": (1, 2, 3), "type": "float32"}))


def test_softmax_scale() -> None:
    def softmax(scale: float, zero_point: int, kind: str = "int8") -> Model:
        out = {"type": kind, "scale": scale, "zero_point": zero_point}
        return model_of("SOFTMAX", [{"scale": 0.5}], [out])

    check_types(softmax(1 / 256, -128))
    check_types(softmax(1 / 65536, -32768, "int16"))
    with pytest.raises(ModelError, match=r"needs the scale 0\.00390625"):
        check_types(softmax(1 / 255, -128))
    with pytest.raises(ModelError, match="zero point -128"):
        check_types(softmax(1 / 256, 0))


def test_concatenation_scales() -> None:
    def joined(second: float) -> Model:
        return model_of(
            "CONCATENATION",
            [{"scale": 0.5}, {"scale": second}],
            [{"shape": (1, 8), "scale": 0.5}],
            options={"axis": 1},
        )

    check_types(joined(0.5))
    with pytest.raises(ModelError, match="the same scale and zero point on tensor 1 'in1'"):
        check_types(joined(0.25))


def test_stock_models(shared_model: Any) -> None:
    check_types(load_model(shared_model))

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from tests.helpers.random_layers import KINDS, random_layers
from tests.host.operator_models import Case, Spec
from tflm_zephyr.compiler import CompiledModel, Layer, compile_model, plan_proof
from tflm_zephyr.errors import PlanError
from tflm_zephyr.fast_kernels import least_distance
from tflm_zephyr.kernels import KernelLibrary, kernel_library
from tflm_zephyr.model import parse_model

M3 = kernel_library("cmsis_nn")
WEIGHTS = Spec((6, 1, 1, 4), "int8", (3, -128, 127, 5), scale=0.01)
POINTWISE = Case(
    "CONV_2D",
    (Spec((1, 5, 5, 4), "int8", scale=0.05), WEIGHTS, Spec((6,), "int32", (9,), scale=0.0005)),
    (Spec((1, 5, 5, 6), "int8", scale=0.05, zero_point=-128),),
    {"padding": 0, "stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1},
)


def compiled(case: Case) -> CompiledModel:
    return compile_model(parse_model(case.build()), (M3,), fast=True)


def layer_of(case: Case) -> Layer:
    (layer,) = compiled(case).layers
    return layer


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_kernel(kind: str) -> None:
    model = parse_model(random_layers(kind, 3, 4))
    assert all(layer.fast for layer in compile_model(model, (M3,), fast=True).layers)
    assert not any(layer.fast for layer in compile_model(model, (M3,)).layers)


def test_a_call_has_its_shape_and_rounding() -> None:
    layer = layer_of(POINTWISE)
    assert layer.calls[0].function == "tflm_fast::Pointwise<4, 6, false, Rounding>"
    assert layer.calls[0].arguments == ("input", "output", "25", "packed_0", "scaling_0", "nullptr")
    assert [local.name for local in layer.locals] == ["Rounding"]


def test_constants_of_an_attempt_are_left_out() -> None:
    names = [array.name for array in compiled(POINTWISE).constants]
    assert names == ["scaling_0", "packed_0"]


def changed(place: int, **fields: object) -> Case:
    inputs = list(POINTWISE.inputs)
    inputs[place] = replace(inputs[place], **fields)  # type: ignore[type-var, arg-type]
    return replace(POINTWISE, inputs=tuple(inputs))


HELIUM = kernel_library("cmsis_nn", dsp=True, mve=True)
RELU = Case("RELU", (Spec((1, 4), "int8", scale=0.1),), (Spec((1, 4), "int8", scale=0.1),))


@pytest.mark.parametrize(
    ("case", "library", "why"),
    [(changed(1, zero_point=3), M3, "zero point"), (RELU, M3, "of a kind"), (POINTWISE, HELIUM, "Helium")],
)
def test_other_layers_say_why(case: Case, library: KernelLibrary, why: str) -> None:
    (layer,) = compile_model(parse_model(case.build()), (library,), fast=True).layers
    assert not layer.fast
    assert why in layer.not_fast


def test_the_output_lies_over_the_input_as_blocks_allow() -> None:
    program = compiled(POINTWISE)
    (call,) = program.layers[0].calls
    given, taken = program.offsets[call.reads[0].tensor], program.offsets[call.writes[0].tensor]
    assert given - taken >= least_distance(call.blocks)
    assert program.arena_bytes < 100 + 150


def test_the_proof_refuses_an_output_closer_than_that() -> None:
    program = compiled(POINTWISE)
    (call,) = program.layers[0].calls
    given = call.reads[0].tensor
    closer = {**program.offsets, given: program.offsets[given] - 16}
    with pytest.raises(PlanError, match=r"Pointwise|holds"):
        plan_proof.prove(replace(program, offsets=closer), (M3,))


def test_the_report_says_which_layers_are_fast() -> None:
    (fast,) = compiled(POINTWISE).report()["layers"]
    assert (fast["fast"], fast["not_fast"]) == (True, "")
    (other,) = compiled(RELU).report()["layers"]
    assert other["fast"] is False and "of a kind" in other["not_fast"]
    (plain,) = compile_model(parse_model(POINTWISE.build()), (M3,)).report()["layers"]
    assert "fast" not in plain


def test_dsp_cores_take_scratch_and_joined_weights() -> None:
    m4 = kernel_library("cmsis_nn", dsp=True)
    (layer,) = compile_model(parse_model(POINTWISE.build()), (m4,), fast=True).layers
    assert layer.calls[0].function == "tflm_fast::Pointwise<4, 6, true, Rounding>"
    assert layer.scratch_bytes == 4 * 4 * 2
    (both,) = compile_model(parse_model(POINTWISE.build()), (m4, M3), fast=True).layers
    assert "Joined" not in both.locals[0].text

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.helpers.marks import rest_slow
from tests.helpers.model_builder import ModelBuilder
from tests.helpers.operator_models import Case, Spec
from tests.helpers.random_layers import KINDS, random_layers
from tflm_zephyr.codegen.backends.layer_code import report
from tflm_zephyr.compiler import CompiledModel, CompilerOptions, Layer, compile_model, plan_proof
from tflm_zephyr.compiler.ir.kernels import TemplateArgument
from tflm_zephyr.compiler.ir.operands import Null
from tflm_zephyr.compiler.ir.structs import ConstantAt
from tflm_zephyr.errors import PlanError
from tflm_zephyr.fast_kernels import least_distance, least_distance_above
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
    return compile_model(parse_model(case.build()), (M3,), CompilerOptions(fast=True))


def layer_of(case: Case) -> Layer:
    (layer,) = compiled(case).layers
    return layer


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_kernel(kind: str) -> None:
    model = parse_model(random_layers(kind, 3, 4))
    assert all(layer.fast for layer in compile_model(model, (M3,), CompilerOptions(fast=True)).layers)
    assert not any(layer.fast for layer in compile_model(model, (M3,)).layers)


def test_a_call_has_its_shape_and_rounding() -> None:
    layer = layer_of(POINTWISE)
    (call,) = layer.calls
    assert call.kernel.qualified_name == "tflm_fast::Pointwise"
    assert call.kernel.template[:3] == (4, 6, False)
    assert call.kernel.rounding is not None
    assert call.operands[2:] == (25, ConstantAt("packed_0"), ConstantAt("scaling_0"), Null())


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
    (layer,) = compile_model(parse_model(case.build()), (library,), CompilerOptions(fast=True)).layers
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


def chained(kinds: Sequence[str], *, side: int = 12, depth: int = 16) -> bytes:
    """Layers of one size, one behind the other: DEPTHWISE_CONV_2D of 3 x 3, or CONV_2D of 1 x 1."""
    model = ModelBuilder()
    main = model.subgraph("main")
    shape = (1, side, side, depth)
    main.inputs = main.outputs = [main.tensor(shape, "int8", scale=0.05, zero_point=-128)]
    for kind in kinds:
        depthwise = kind == "DEPTHWISE_CONV_2D"
        sizes = (1, 3, 3, depth) if depthwise else (depth, 1, 1, depth)
        weights = main.tensor(sizes, "int8", scale=0.01, dimension=3 if depthwise else 0, data="random")
        taken = main.tensor(shape, "int8", scale=0.05, zero_point=-128)
        options = {"padding": 0, "stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1}
        bias = main.tensor((depth,), "int32", scale=0.0005, data=bytes(4 * depth))
        given = [*main.outputs, weights, bias]
        main.op(kind, given, [taken], options={**options, **({"depth_multiplier": 1} if depthwise else {})})
        main.outputs = [taken]
    return model.finish()


def backwards(layer: Layer) -> bool:
    return layer.calls[0].kernel.template[-1] is True


@pytest.mark.parametrize("dsp", rest_slow([False, True]))
def test_layers_of_one_size_go_down_and_up(dsp: bool) -> None:
    library = kernel_library("cmsis_nn", dsp=dsp)
    kinds = ["DEPTHWISE_CONV_2D", "CONV_2D"] * 4
    lean = CompilerOptions(fast=True, slower=1.0)
    program = compile_model(parse_model(chained(kinds)), (library,), lean)
    size, two = 12 * 12 * 16, compile_model(parse_model(chained(kinds[:2])), (library,), lean)
    assert program.arena_bytes == two.arena_bytes < 1.5 * size
    assert {backwards(layer) for layer in program.layers} == {True, False}
    for layer in program.layers:
        (call,) = layer.calls
        below = program.offsets[call.reads[0].tensor] - program.offsets[call.writes[0].tensor]
        if backwards(layer):
            assert -below >= least_distance_above(call.blocks)
        else:
            assert below >= least_distance(call.blocks)


def test_the_proof_refuses_the_other_direction() -> None:
    program = compile_model(
        parse_model(chained(["DEPTHWISE_CONV_2D", "CONV_2D"] * 2)), (M3,), CompilerOptions(fast=True)
    )
    layer = next(one for one in program.layers if backwards(one))
    call = layer.calls[0]
    forwards = replace(call, blocks=call.blocks[::-1])
    layers = tuple(replace(one, calls=(forwards,)) if one is layer else one for one in program.layers)
    with pytest.raises(PlanError, match=r"reads|holds"):
        plan_proof.prove(replace(program, layers=layers), (M3,))


def depthwise(program: CompiledModel) -> tuple[TemplateArgument, ...]:
    """Pixels and rows at a time of the first layer, which has our depthwise kernel."""
    (kernel,) = program.layers[0].kernels
    assert kernel.qualified_name == "tflm_fast::Depthwise"
    return kernel.template[1:3]


def test_layers_are_leaner_where_that_makes_the_plan_smaller() -> None:
    library = kernel_library("cmsis_nn", dsp=True)
    lean = CompilerOptions(fast=True, slower=1.0)
    tall = compile_model(parse_model(chained(["DEPTHWISE_CONV_2D", "CONV_2D"])), (library,), lean)
    assert depthwise(tall) == (4, 1)
    wide = compile_model(parse_model(chained(["DEPTHWISE_CONV_2D", "CONV_2D"], depth=4)), (library,), lean)
    assert depthwise(wide) == (4, 1)


def test_the_report_says_which_layers_are_fast() -> None:
    (fast,) = report(compiled(POINTWISE))["layers"]
    assert (fast["fast"], fast["not_fast"]) == (True, "")
    (other,) = report(compiled(RELU))["layers"]
    assert other["fast"] is False and "of a kind" in other["not_fast"]
    (plain,) = report(compile_model(parse_model(POINTWISE.build()), (M3,)))["layers"]
    assert "fast" not in plain


def test_dsp_cores_take_scratch_and_joined_weights() -> None:
    m4 = kernel_library("cmsis_nn", dsp=True)
    (layer,) = compile_model(parse_model(POINTWISE.build()), (m4,), CompilerOptions(fast=True)).layers
    assert layer.calls[0].kernel.template[:3] == (4, 6, True)
    assert layer.scratch_bytes == 4 * 4 * 2
    (both,) = compile_model(parse_model(POINTWISE.build()), (m4, M3), CompilerOptions(fast=True)).layers
    rounding = both.calls[0].kernel.rounding
    assert rounding is not None and rounding.form != "Joined"

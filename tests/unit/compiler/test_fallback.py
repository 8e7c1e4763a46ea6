# SPDX-License-Identifier: Apache-2.0
"""TFLM's own kernels as layers: their tensors, lists, memory."""

from __future__ import annotations

import struct

import pytest

from tests.helpers.compiled_models import REFERENCE, compiled_model, registrations
from tests.helpers.generated_models import with_custom
from tests.helpers.networks import mixed_network
from tests.helpers.operator_models import CASES, Case, Spec, together
from tests.helpers.small_models import unary
from tflm_zephyr.codegen.backends.layer_code import ModelCode, layer_name
from tflm_zephyr.compiler import compile_model
from tflm_zephyr.compiler.ir.structs import zeroed
from tflm_zephyr.errors import ModelError
from tflm_zephyr.model import parse_model


def gather() -> bytes:
    """GATHER of two constant places."""
    tensors = (Spec((4, 2), "int8", scale=0.5, zero_point=3), Spec((2,), "int32", (0, 1)))
    return Case("GATHER", tensors, (Spec((2, 2), "int8", scale=0.5, zero_point=3),), {"axis": 0}).build()


def test_a_kernel_sees_its_tensors_from_constants() -> None:
    program = compiled_model(gather())
    (layer,) = program.fallbacks
    source, places, result = layer.kernel.tensors
    assert (layer.kernel.inputs, layer.kernel.outputs, layer.kernel.intermediates) == ((0, 1), (2,), ())
    arrays = {constant.name: constant.data for constant in program.constants}
    assert arrays[places.constant] == struct.pack("<2i", 0, 1)
    assert (source.constant, result.constant) == ("", "")
    assert arrays[source.scales] == struct.pack("<if", 1, 0.5)
    assert arrays[source.zero_points] == struct.pack("<2i", 1, 3)
    assert result.scales == source.scales  # the same content stands once
    assert layer.kernel.options == zeroed("kOptions", "TfLiteGatherParams", {"axis": 0, "batch_dims": 0})


def test_memory_of_kernels_is_just_what_they_allocate() -> None:
    program = compiled_model(gather())
    library_says = REFERENCE.persistent(program.model, program.model.main, program.model.main.operators[0])
    assert program.state_bytes == 16 + sum(-(-size // 16) * 16 for size in library_says)
    assert program.prepare_bytes == 3 * 32  # TfLiteTensor with TF_LITE_STATIC_MEMORY
    assert program.arena_bytes == max(program.planned_bytes, program.prepare_bytes) + program.state_bytes


def test_options_that_prepare_changes_are_copied() -> None:
    """L2_POOL_2D keeps its computed padding in TfLitePoolParams, which a constant in flash could not hold."""
    pool, other = (next(case for case in CASES if case.key == key) for key in ("L2_POOL_2D", "ADD_N"))
    program = compiled_model(together([case.typed("float32") for case in (pool, pool, other)]))
    code = ModelCode(program)
    assert code.option_copies == {0: 0, 1: 48}
    assert code.option_copies_bytes == 96
    allocated = sum(layer.kernel.persistent_bytes for layer in program.fallbacks)
    assert program.state_bytes == 16 + 96 + allocated


def test_an_attempt_at_direct_code_leaves_no_constants() -> None:
    weights = Spec((5, 8), "int8", tuple(range(40)), scale=0.02)
    case = Case("FULLY_CONNECTED", (Spec((2, 8), "int16", scale=0.1), weights), (Spec((2, 5), "int16", scale=0.2),), {})
    program = compiled_model(case.build())
    (layer,) = program.fallbacks
    named = {name for one in layer.kernel.tensors for name in (one.constant, one.scales, one.zero_points) if name}
    assert {constant.name for constant in program.constants} == named


def test_an_operator_without_a_registration_is_named() -> None:
    with pytest.raises(ModelError, match=r"operator 0 \(ABS\).*no direct code"):
        compile_model(parse_model(unary("ABS")), (REFERENCE,), registrations=registrations([(False, "NEG")]))


@pytest.mark.parametrize("seed", range(4))
def test_mixed_networks_are_proven(seed: int) -> None:
    program = compiled_model(mixed_network(seed))
    assert 0 < len(program.fallbacks) < len(program.layers)


@pytest.mark.parametrize(("name", "function"), [("My-Op.v2", "Layer0MyOpV2"), ("tf/Flex Op", "Layer0TfFlexOp")])
def test_a_custom_operators_name_makes_a_function(name: str, function: str) -> None:
    assert layer_name(compiled_model(with_custom(name)).layers[0]) == function

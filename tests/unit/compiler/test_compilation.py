# SPDX-License-Identifier: Apache-2.0
"""Models as kernel calls: functions chosen per core, constants, views, refusals."""

from __future__ import annotations

import struct

import pytest

from tests.helpers.architectures import flat_convolutions, mobilenet
from tests.helpers.chained_networks import chained_network
from tests.helpers.compiled_models import registrations
from tests.helpers.operator_models import Case, Spec
from tests.helpers.small_models import dense, unary
from tflm_zephyr.compiler import CompiledModel, CompilerOptions, KernelLayer, compile_model, why_not
from tflm_zephyr.errors import ModelError
from tflm_zephyr.kernels import KernelLibrary, kernel_library
from tflm_zephyr.model import TensorType, parse_model

M3, DSP, HELIUM = (kernel_library("cmsis_nn", dsp=dsp, mve=mve) for dsp, mve in ((0, 0), (1, 0), (1, 1)))
REFERENCE = kernel_library("reference")


def functions(data: bytes, *libraries: KernelLibrary) -> list[str]:
    compiled = compile_model(parse_model(data), libraries)
    return [kernel.qualified_name for layer in compiled.layers for kernel in layer.kernels]


def test_kernels_are_the_concrete_functions_of_the_core() -> None:
    small = mobilenet(24)
    plain = functions(small, M3)
    assert {"arm_convolve_s8", "arm_convolve_1x1_s8_fast", "arm_depthwise_conv_3x3_s8"} <= set(plain)
    assert functions(small, DSP) == plain
    assert "arm_depthwise_conv_s8_opt" in functions(small, HELIUM)
    # An app for both takes the wrapper where they differ.
    assert "arm_depthwise_conv_wrapper_s8" in functions(small, M3, HELIUM)
    assert all(name.startswith(("tflite::", "std::")) for name in functions(small, REFERENCE))


def test_flat_convolutions_have_their_own_function_on_helium() -> None:
    assert functions(flat_convolutions(2), M3) == ["arm_convolve_s8"] * 2
    assert functions(flat_convolutions(2), HELIUM) == ["arm_convolve_1_x_n_s8"] * 2


def test_scratch_is_that_of_the_core() -> None:
    def scratch(library: KernelLibrary) -> dict[str, int]:
        compiled = compile_model(parse_model(mobilenet(24)), (library,))
        return {
            f"{layer.key} {layer.operator}": layer.scratch_bytes for layer in compiled.layers if layer.scratch_bytes
        }

    assert "AVERAGE_POOL_2D 27" in scratch(DSP)
    assert "AVERAGE_POOL_2D 27" not in scratch(M3)
    assert scratch(HELIUM)["DEPTHWISE_CONV_2D 1"] == 4 * 124 * 9


def test_a_reshape_is_a_view_without_code() -> None:
    compiled = compile_model(parse_model(mobilenet(24)), (M3,))
    (view,) = [layer for layer in compiled.layers if layer.key == "RESHAPE"]
    operator = compiled.model.main.operators[view.operator]
    assert not view.calls
    assert compiled.offsets[operator.inputs[0]] == compiled.offsets[operator.outputs[0]]


def test_constants_are_weights_biases_multipliers_and_shifts() -> None:
    compiled = compile_model(parse_model(mobilenet(24)), (M3,))
    first = {constant.name: constant for constant in compiled.constants if constant.name.endswith("_0")}
    assert set(first) == {"multipliers_0", "shifts_0", "weights_0", "bias_0"}
    assert first["weights_0"].type is TensorType.INT8
    values = struct.unpack(f"<{first['multipliers_0'].elements}i", first["multipliers_0"].data)
    assert all(1 << 30 <= value < 1 << 31 for value in values)


def test_the_arena_is_smaller_than_the_tensors_that_meet() -> None:
    compiled = compile_model(parse_model(mobilenet(96)), (M3,))
    # 24x24x32 goes to 24x24x... : without runs input and output of one layer would both be there.
    biggest = max(layer_bytes(compiled))
    assert compiled.arena_bytes < biggest


def layer_bytes(compiled: CompiledModel) -> list[int]:
    """Bytes of input and output of each layer."""
    tensors = compiled.model.main.tensors
    return [sum(tensors[i].size_bytes for i in (op.inputs[0], op.outputs[0])) for op in compiled.model.main.operators]


def test_more_work_is_taken_for_less_memory() -> None:
    model = parse_model(mobilenet(24))
    sizes = [compile_model(model, (M3,), CompilerOptions(slower=share)).arena_bytes for share in (0.0, 0.03, 1.0)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1]


def test_an_operator_without_code_is_named() -> None:
    model = parse_model(unary("ABS"))
    assert list(why_not(model, (M3,))) == [0]
    with pytest.raises(ModelError, match=r"operator 0 \(ABS\).*no direct code"):
        compile_model(model, (M3,))


def test_a_tensor_without_a_scale_is_refused_by_name() -> None:
    case = Case("RELU6", (Spec((1, 4), "int8"),), (Spec((1, 4), "int8"),))
    with pytest.raises(
        ModelError, match=r"operator 0 \(RELU6\).*scale, a stride or another parameter that is zero, missing"
    ):
        compile_model(parse_model(case.build()), (REFERENCE,))


@pytest.mark.parametrize("kind", ["int8", "int16", "float32"])
@pytest.mark.parametrize("library", [M3, DSP, HELIUM, REFERENCE])
def test_networks_of_every_operator_are_proven(kind: str, library: KernelLibrary) -> None:
    for seed in range(3):
        model = parse_model(chained_network(seed, kind))
        keys = {(False, operator.key) for operator in model.main.operators}
        compiled = compile_model(model, (library,), registrations=registrations(keys))
        assert len(compiled.layers) == len(model.main.operators)
        assert {layer.key for layer in compiled.fallbacks} <= {"SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM"}


def test_dense_layers_on_helium_have_their_sums_as_constants() -> None:
    assert why_not(parse_model(dense()), (M3,)) == {}
    plain, helium = (compile_model(parse_model(dense()), (library,)) for library in (M3, HELIUM))
    names = [{constant.name.partition("_")[0] for constant in program.constants} for program in (plain, helium)]
    assert "sums" not in names[0]
    assert "sums" in names[1]
    for layer in helium.layers:
        if layer.key == "FULLY_CONNECTED":
            assert isinstance(layer, KernelLayer)
            assert "kSums" in {one.name for one in layer.calls[0].parameters()}
            assert layer.scratch_bytes == 0

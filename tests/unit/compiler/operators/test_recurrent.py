# SPDX-License-Identifier: Apache-2.0
"""SVDF: its state is read and written, its multipliers are in float32, its sums of weights constant."""

from __future__ import annotations

import struct

import pytest

from tests.helpers.compiled_layers import compiled, fields, layer_of, node_of
from tests.helpers.operator_models import Case
from tests.helpers.random_operators import DRAWS, Operators, svdf
from tflm_zephyr.compiler import KernelLayer, compile_model
from tflm_zephyr.compiler.fixed_point import float32
from tflm_zephyr.compiler.ir.structs import Mutable, Scratch
from tflm_zephyr.compiler.operators.recurrent import svdf_multipliers
from tflm_zephyr.errors import ModelError
from tflm_zephyr.kernels import kernel_library
from tflm_zephyr.model import parse_model


def case(seed: int = 0) -> Case:
    return svdf(Operators(seed, "int8"))


def test_the_state_is_read_and_written() -> None:
    program = compiled(case(), "cmsis_nn")
    (layer,), main = program.layers, program.model.main
    (call,) = layer.calls
    state = main.operators[0].inputs[4]
    assert state in [access.tensor for access in call.reads]
    assert state in [access.tensor for access in call.writes]
    assert call.kernel.name == "arm_svdf_state_s16_s8"


def test_two_scratch_buffers_lie_side_by_side() -> None:
    layer = layer_of(case(), "cmsis_nn")
    first, second = layer.locals
    (begin, size), (behind, more) = first.values, second.values
    assert isinstance(begin, Scratch) and isinstance(behind, Scratch)
    assert isinstance(size, int) and isinstance(more, int)
    assert behind.first >= begin.first + size
    assert behind.first % 16 == 0
    assert layer.scratch_bytes >= behind.first + more


def test_multipliers_are_in_float32() -> None:
    node = node_of(case())
    source, features, times, _, state = (tensor.quantization for tensor in map(node.input, range(5)))
    output = node.output().quantization
    assert source is not None
    assert features is not None
    assert times is not None
    assert state is not None
    assert output is not None
    first, second = svdf_multipliers(node)
    wanted = float32(float32(source.scales[0] * features.scales[0]) / state.scales[0])
    assert first.value * 2.0 ** (first.shift - 31) == wanted
    wanted = float32(float32(state.scales[0] * times.scales[0]) / output.scales[0])
    assert second.value * 2.0 ** (second.shift - 31) == wanted


def test_it_keeps_tflms_kernel_without_cmsis_nn() -> None:
    with pytest.raises(ModelError, match=r"SVDF.*no direct code"):
        layer_of(case())


def test_sums_of_weights_have_the_offset_and_the_bias() -> None:
    draw, _ = DRAWS["FULLY_CONNECTED"]
    dense = draw(Operators(1, "int8"))
    source, weights, bias = dense.inputs
    assert source is not None
    assert weights is not None
    assert bias is not None
    model = parse_model(dense.build())
    program = compile_model(model, (kernel_library("cmsis_nn", dsp=True, mve=True),))
    (layer,) = program.layers
    assert isinstance(layer, KernelLayer)
    buffer = fields(layer, "kSums")["buf"]
    assert isinstance(buffer, Mutable)
    (array,) = [constant for constant in program.constants if constant.name == buffer.array.name]
    rows, columns = weights.shape
    values, start = list(weights.values or ()), list(bias.values or ())
    sums = [sum(values[row * columns : (row + 1) * columns]) for row in range(rows)]
    found = struct.unpack(f"<{rows}i", array.data)
    assert list(found) == [first - source.zero_point * total for first, total in zip(start, sums, strict=True)]

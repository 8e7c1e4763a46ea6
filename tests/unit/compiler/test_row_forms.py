# SPDX-License-Identifier: Apache-2.0
"""Layers' calls for some rows: windows as TensorFlow defines them, arguments that change, and refusals."""

from __future__ import annotations

import pytest

from tests.helpers.model_builder import ModelBuilder
from tests.helpers.row_networks import row_network
from tflm_zephyr.compiler import Layer, compile_model
from tflm_zephyr.compiler.ir.operands import Dims
from tflm_zephyr.compiler.ir.row_operands import Change, EachScaling, RowParameters, RowTimes, RowWeights, Sums
from tflm_zephyr.compiler.ir.rows import RowForm
from tflm_zephyr.compiler.ir.structs import TensorAt
from tflm_zephyr.kernels import kernel_library
from tflm_zephyr.model import TensorType, parse_model


def windowed(shape: tuple[int, ...], out: tuple[int, ...], kernel: tuple[int, int], **options: int) -> bytes:
    """One CONV_2D with SAME padding."""
    model = ModelBuilder(seed=1)
    main = model.subgraph()
    source = main.tensor(shape, "int8", "x", scale=0.05)
    weights = main.tensor((out[3], *kernel, shape[3]), "int8", scale=[0.004] * out[3], data="random")
    bias = main.tensor((out[3],), "int32", scale=[0.0002] * out[3], data=bytes(4 * out[3]))
    result = main.tensor(out, "int8", "y", scale=0.05)
    stated = {"padding": 0, "stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1, **options}
    main.op("CONV_2D", [source, weights, bias], [result], options=stated)
    main.inputs, main.outputs = [source], [result]
    return model.finish()


def layer(data: bytes, library: str = "cmsis_nn", number: int = 0) -> Layer:
    return compile_model(parse_model(data), (kernel_library(library),)).layers[number]


def changes(form: RowForm) -> list[Change]:
    """How the parameters of a layer's call for rows differ from the whole tensor's."""
    return [operand.change for operand in form.call.operands if isinstance(operand, RowParameters)]


def form(data: bytes, library: str = "cmsis_nn") -> RowForm:
    found = layer(data, library).rows
    assert found is not None
    return found


@pytest.mark.parametrize("library", ["cmsis_nn", "reference"])
def test_a_window_has_stride_dilation_and_top_padding(library: str) -> None:
    one = form(windowed((1, 9, 7, 2), (1, 9, 7, 4), (3, 3), dilation_h_factor=2), library).inputs[0]
    assert (one.rows, one.row_bytes) == (9, 14)
    assert (one.window.size, one.window.stride, one.window.padding) == (5, 1, 2)
    two = form(windowed((1, 9, 7, 2), (1, 5, 4, 4), (3, 3), stride_h=2, stride_w=2), library).inputs[0]
    assert (two.window.size, two.window.stride, two.window.padding) == (3, 2, 1)


def test_padding_that_is_left_is_an_argument() -> None:
    padded = form(windowed((1, 9, 7, 2), (1, 9, 7, 4), (3, 3)))
    assert changes(padded) == [Change.PADDING]
    assert changes(form(windowed((1, 9, 7, 2), (1, 9, 7, 4), (1, 1)))) == []


def test_an_image_one_row_high_has_pixels_for_rows() -> None:
    found = form(windowed((1, 1, 20, 2), (1, 1, 10, 4), (1, 5), stride_w=2))
    (given,) = found.inputs
    assert (given.rows, given.row_bytes, found.output.rows, found.output.row_bytes) == (20, 2, 10, 4)
    assert (given.window.size, given.window.stride, given.window.padding) == (5, 2, 1)
    assert Dims(1, 5, 1, 2) in found.call.operands
    assert changes(found) == [Change.TURNED]


def test_an_average_of_all_pixels_gathers() -> None:
    model = ModelBuilder(seed=1)
    main = model.subgraph()
    source = main.tensor((1, 5, 3, 8), "int8", "x", scale=0.05)
    result = main.tensor((1, 1, 1, 8), "int8", "y", scale=0.05)
    options = {"padding": 1, "stride_h": 5, "stride_w": 3, "filter_height": 5, "filter_width": 3}
    main.op("AVERAGE_POOL_2D", [source], [result], options={**options, "fused_activation_function": 0})
    main.inputs, main.outputs = [source], [result]
    found = form(model.finish())
    assert found.gathering is not None
    sums, *numbers, output = found.gathering.last.operands
    assert (found.gathering.sums, found.gathering.last.kernel.name, sums) == (8, "Average", Sums())
    assert numbers == [8, 15, -128, 127]
    assert isinstance(output, TensorAt) and output.pointer.name == "output"
    assert found.steps == 5


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (windowed((2, 9, 7, 2), (2, 9, 7, 4), (3, 3)), "has tensors that are no single image"),
        (windowed((1, 1, 7, 2), (1, 1, 7, 4), (3, 3)), "has weights higher than its input, which is one row high"),
    ],
)
def test_what_has_no_rows_says_why(data: bytes, why: str) -> None:
    assert layer(data).rows is None
    assert layer(data).no_rows == why


@pytest.mark.parametrize("library", ["cmsis_nn", "reference"])
def test_all_planned_inputs_are_read_by_rows(library: str) -> None:
    forms = 0
    for seed in range(12):
        model = parse_model(row_network(seed))
        for one in compile_model(model, (kernel_library(library),)).layers:
            operator = model.main.operators[one.operator]
            if one.rows is not None:
                forms += 1
                read = {i for i in operator.inputs if not model.main.tensors[i].is_constant}
                assert {given.tensor for given in one.rows.inputs} == read
                assert one.rows.output.tensor == operator.outputs[0]
                for given in (*one.rows.inputs, one.rows.output):
                    assert given.rows * given.row_bytes == model.main.tensors[given.tensor].size_bytes
    assert forms > 60


@pytest.mark.parametrize("kind", ["int16", "float32"])
@pytest.mark.parametrize("library", ["cmsis_nn", "reference"])
def test_other_types_have_rows_too(library: str, kind: str) -> None:
    keys, refused = set(), set()
    for seed in range(16):
        model = parse_model(row_network(seed, kind=kind))
        for one in compile_model(model, (kernel_library(library),)).layers:
            if one.rows is None:
                refused.add(one.no_rows)
                continue
            keys.add(one.key)
            for given in (*one.rows.inputs, one.rows.output):
                assert given.rows * given.row_bytes == model.main.tensors[given.tensor].size_bytes
                assert given.type.value == kind
    assert {"CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "AVERAGE_POOL_2D", "ADD", "MEAN"} <= keys
    assert not any("int8" in why for why in refused)


def test_sums_of_floats_are_floats() -> None:
    for seed in range(30):
        for one in compile_model(parse_model(row_network(seed, kind="float32")), (kernel_library("reference"),)).layers:
            if one.rows is not None and one.rows.gathering is not None:
                assert one.rows.gathering.type is TensorType.FLOAT32
                return
    pytest.fail("no network gathers")


def dense(per_channel: bool = False, **values: object) -> bytes:
    """A dense layer of an image of 6 rows with 4 pixels of 2 channels."""
    model = ModelBuilder()
    main = model.subgraph()
    source = main.tensor((1, 6, 4, 2), "int8", "x", scale=0.05)
    scale = [0.004 + 0.001 * k for k in range(5)] if per_channel else 0.004
    weights = main.tensor((5, 48), "int8", scale=scale, data="random", **values)
    bias = main.tensor((5,), "int32", scale=0.0002, data=bytes(20))
    result = main.tensor((1, 5), "int8", "y", scale=0.05)
    main.op("FULLY_CONNECTED", [source, weights, bias], [result], options={"fused_activation_function": 0})
    main.inputs, main.outputs = [source], [result]
    return model.finish()


@pytest.mark.parametrize("library", ["cmsis_nn", "reference"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_a_dense_layer_takes_rows_as_they_come(library: str, per_channel: bool) -> None:
    found = form(dense(per_channel), library)
    assert found.gathering is not None and found.gathering.sums == 5
    assert (found.steps, found.inputs[0].row_bytes, found.output.row_bytes) == (6, 8, 5)
    assert found.call.kernel.name == "AddProducts"
    assert found.call.operands[1] == RowTimes(8)
    weights = found.call.operands[2]
    assert isinstance(weights, RowWeights) and weights.each == 8
    assert found.gathering.last.kernel.name == "FinishProducts"
    (scaling,) = [one for one in found.gathering.last.operands if isinstance(one, EachScaling)]
    one_for_all = isinstance(scaling.of, tuple) and all(isinstance(one, int) for one in scaling.of)
    assert one_for_all != per_channel


def test_a_dense_layer_with_offset_weights_has_no_rows() -> None:
    assert layer(dense(zero_point=3)).no_rows == "has weights with a zero point"

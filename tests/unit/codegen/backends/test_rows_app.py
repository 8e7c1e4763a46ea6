# SPDX-License-Identifier: Apache-2.0
"""Apps whose layers run row by row: their sources, their stack, and the tensors that a host sees."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.helpers.architectures import mobilenet
from tests.helpers.model_builder import ModelBuilder
from tflm_zephyr.codegen import render
from tflm_zephyr.codegen.backends.compiled import Compiled, runtime_of
from tflm_zephyr.codegen.backends.layer_code import layer_name
from tflm_zephyr.codegen.generation import AppRequest, Generated, generate
from tflm_zephyr.options import AppConfig, ModelConfig
from tflm_zephyr.tflm import tflm_of


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Generated:
    """An app with a small MobileNet."""
    folder = tmp_path_factory.mktemp("app")
    model = folder / "net.tflite"
    model.write_bytes(mobilenet(32, 0.5, colours=1))
    config = AppConfig(
        (ModelConfig(model),), boards=("mps2/an385",), kernels="cmsis_nn", backend="compiled", rows=True, slower=50
    )
    return generate(AppRequest(config, folder / "app", tflm_of(None), golden=False))


def layers(made: Generated) -> str:
    (name,) = [name for name in render(made.spec) if name.endswith("_layers.cpp")]
    return render(made.spec)[name].decode()


def test_each_layer_of_a_segment_has_a_function(made: Generated) -> None:
    text, program = layers(made), runtime_of(made.spec.models[0]).program
    for layer in program.segments:
        assert f"\nbool {layer_name(layer)}(uint8_t *arena)\n" in text
        for member in layer.members:
            assert len(re.findall(rf"^bool {layer_name(member)}Rows\(", text, re.M)) == 1
            assert f"bool {layer_name(member)}(" not in text


def test_row_buffers_in_the_code_are_those_of_the_plan(made: Generated) -> None:
    text, program = layers(made), runtime_of(made.spec.models[0]).program
    found = [tuple(map(int, row)) for row in re.findall(r"\{arena \+ (\d+), (\d+), (\d+), (\d+), 0\},", text)]
    planned = [
        (
            program.offsets[buffer.tensor] if buffer.at is None else program.scratch[layer.operator] + buffer.at,
            buffer.row_bytes,
            buffer.capacity,
            buffer.ready,
        )
        for layer in program.segments
        for buffer in layer.segment.buffers
    ]
    assert found == planned


def test_a_host_sees_no_tensor_inside_a_segment(made: Generated) -> None:
    (model,) = made.spec.models
    program = runtime_of(model).program
    tensors = Compiled().template_values(made.spec, model)["link_tensors"]
    assert program.unseen
    assert isinstance(tensors, list)
    for tensor in tensors:
        seen = tensor.index in program.offsets and tensor.index not in program.unseen
        assert (tensor.offset is not None, tensor.bytes > 0) == (seen, seen)


def test_a_segment_takes_stack(made: Generated) -> None:
    runtime = runtime_of(made.spec.models[0])
    most = max(len(layer.segment.buffers) for layer in runtime.program.segments)
    assert runtime.extra_stack_bytes >= 20 * most + 76
    stated = re.search(r"A layer takes at most (\d+) bytes of stack", layers(made))
    assert stated is not None
    assert int(stated[1]) > runtime.extra_stack_bytes


def low_windows() -> bytes:
    """Convolutions whose windows are one row high, so that row k of the output reads row k of the input alone."""
    builder = ModelBuilder()
    main = builder.subgraph()
    tensor = main.tensor((1, 24, 24, 4), "int8", "x", scale=0.05)
    main.inputs = [tensor]
    for width in (22, 20, 18):
        weights = main.tensor((8, 1, 3, 4 if width == 22 else 8), "int8", scale=[0.004] * 8, data="random")
        bias = main.tensor((8,), "int32", scale=[0.0002] * 8, data=bytes(32))
        result = main.tensor((1, 24, width, 8), "int8", scale=0.05)
        main.op("CONV_2D", [tensor, weights, bias], [result], options={"padding": 1, "stride_h": 1, "stride_w": 1})
        tensor = result
    main.outputs = [tensor]
    return builder.finish()


@pytest.mark.parametrize("board", ["mps2/an385", "mps2/an386"])
def test_fast_kernels_of_low_windows_have_a_window(board: str, tmp_path: Path) -> None:
    (tmp_path / "net.tflite").write_bytes(low_windows())
    models = (ModelConfig(tmp_path / "net.tflite"),)
    config = AppConfig(models, "app", (board,), "cmsis_nn", backend="compiled", rows=True, slower=50, fast_kernels=True)
    text = layers(generate(AppRequest(config, tmp_path / "app", tflm_of(None), golden=False)))
    functions = [part for part in text.split("\nbool Layer")[1:] if "Rows(" in part.partition("\n")[0]]
    assert len(functions) > 1
    for part in functions:
        assert "window." not in part or "const RowWindow window = " in part

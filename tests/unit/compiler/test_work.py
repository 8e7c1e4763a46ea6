# SPDX-License-Identifier: Apache-2.0
"""A model's estimated work beside what was counted in QEMU (docs/compiled.md, benchmarks/compiled.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.model_builder import ModelBuilder
from tflm_zephyr.compiler import compile_model
from tflm_zephyr.compiler.work import called_shapes, compiled_work, interpreter_work
from tflm_zephyr.costs import CMSIS_NN, INVOKE, Costs, Prices
from tflm_zephyr.kernels import kernel_library
from tflm_zephyr.model import Model, parse_model

ROOT = Path(__file__).parents[3]
DIGITS, HELLO_WORLD = ("samples/digits/digits.tflite", "samples/hello_world/hello_world.tflite")
M3 = Costs((Prices("cortex-m3", CMSIS_NN),))
LIBRARY = kernel_library("cmsis_nn")


def model(path: str) -> Model:
    return parse_model((ROOT / path).read_bytes())


@pytest.mark.parametrize(("path", "counted"), [(DIGITS, 676_040), (HELLO_WORLD, 3_880)])
def test_an_inference_through_the_interpreter(path: str, counted: int) -> None:
    work = interpreter_work(model(path), M3)
    assert work.instructions == pytest.approx(counted, rel=0.05)
    assert work.cycles > work.instructions
    assert not work.stand_ins


@pytest.mark.parametrize(("path", "counted"), [(DIGITS, 687_440), (HELLO_WORLD, 2_800)])
def test_an_inference_as_compiled_code(path: str, counted: int) -> None:
    work = compiled_work(compile_model(model(path), (LIBRARY,)), M3)
    assert work.instructions == pytest.approx(counted, rel=0.05)
    assert not work.stand_ins


def test_an_operator_that_was_not_measured_says_what_stood_in() -> None:
    builder = ModelBuilder()
    main = builder.subgraph()
    x, y = (main.tensor((1, 32), "int8", scale=0.1) for _ in range(2))
    main.op("ABS", [x], [y], options_name="AbsOptions")
    main.inputs, main.outputs = [x], [y]
    work = interpreter_work(parse_model(builder.finish()), M3)
    assert work.stand_ins == {0: "ADD int8 stands in for ABS int8"}
    assert work.instructions > M3.operator(INVOKE).instructions + 32


def test_views_have_no_shape() -> None:
    compiled = compile_model(model(DIGITS), (LIBRARY,))
    shapes = [shape.kernel for _, shape in called_shapes(compiled)]
    assert len(shapes) == sum(bool(layer.calls) for layer in compiled.layers)
    assert any(kernel.startswith("arm_") for kernel in shapes)

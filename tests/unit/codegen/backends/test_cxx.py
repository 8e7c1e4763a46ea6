# SPDX-License-Identifier: Apache-2.0
"""The compiler's values as C++: each operand, field and kernel as the generated code has it."""

from __future__ import annotations

import typing

import pytest

from tflm_zephyr.codegen.backends import cxx
from tflm_zephyr.compiler import Geometry, KernelCall, Rounding, structs
from tflm_zephyr.compiler import operands as ops
from tflm_zephyr.compiler import row_operands as rows
from tflm_zephyr.compiler.ir.kernels import cmsis_kernel, own_kernel, reference_kernel
from tflm_zephyr.model import TensorType

INT8, FLOAT = TensorType.INT8, TensorType.FLOAT32
INPUT = structs.TensorAt(structs.Pointer("input", INT8, 0, written=False))
ARRAY = structs.ConstantAt("weights_0")
QUANTISATION = structs.struct("kQuantisation", "cmsis_nn_per_channel_quant_params", {"multiplier": None})
CASES: dict[ops.Operand, str] = {
    -7: "-7",
    -(2**31): "std::numeric_limits<int32_t>::lowest()",
    6.0: "6.0f",
    1e-7: "1e-07f",
    structs.Double(0.1): "0.1",
    ops.Null(): "nullptr",
    ops.Null(INT8): "static_cast<const int8_t *>(nullptr)",
    INPUT: "input",
    structs.TensorAt(INPUT.pointer, 8): "input + 8",
    ARRAY: "weights_0",
    ops.AsInts(ARRAY): "reinterpret_cast<const int *>(weights_0)",
    ops.FirstOf(ARRAY): "&weights_0[0]",
    structs.Scratch(): "scratch",
    structs.Scratch(32): "scratch + 32",
    structs.Scratch(0, FLOAT): "reinterpret_cast<float *>(scratch + 0)",
    ops.AddressOf(QUANTISATION): "&kQuantisation",
    QUANTISATION: "kQuantisation",
    structs.Numbers("kSizes", (1, 2)): "kSizes",
    ops.NoContext(): "&kNoContext",
    ops.Dims(1, 2, 3, 4): "&kDims1x2x3x4",
    ops.Shape(()): "tflite::RuntimeShape()",
    ops.Shape((4, 2)): "tflite::RuntimeShape(2, kShape4x2)",
    ops.RunDims(): "&pixels",
    ops.Clamp(FLOAT, 0.0): "[](float value) -> float { return value < 0.0f ? 0.0f : value; }",
    ops.Clamp(INT8, 5, 9): "[](int8_t value) -> int8_t { return value > 9 ? 9 : value < 5 ? 5 : value; }",
    ops.Convert(INT8, FLOAT): "[](int8_t value) { return static_cast<float>(value); }",
    ops.Pick(INT8, larger=True): "[](int8_t one, int8_t other) { return one > other ? one : other; }",
    ops.PickNext(INT8, larger=False): "[](int8_t found, int8_t value) { return value < found ? value : found; }",
    ops.Limit(INT8, largest=True): "std::numeric_limits<int8_t>::max()",
    ops.Unchanged(INT8): "[](int8_t found) { return found; }",
    ops.AddFloat(): "[](float sum, float value) { return value + sum; }",
    ops.DivideFloat(): "[](float sum) { return sum; }",
    ops.DivideFloat(3.0): "[](float sum) { return sum / 3.0f; }",
    ops.Order(INT8, greater=True): "std::greater<int8_t>()",
    rows.RowCount(): "count",
    rows.RowTimes(12): "count * 12",
    rows.WindowRows(): "window.rows",
    rows.WindowPadding(): "window.padding",
    rows.RowDims(rows.Side.INPUT, rows.WindowRows(), 5, 3): "&input_dims",
    rows.RowDims(rows.Side.BOTH, rows.RowCount(), 5, 3): "&dims",
    rows.RowShape(rows.Side.OUTPUT, rows.RowCount(), 5, 3): "output_shape",
    rows.RowElements(15): "elements",
    rows.FlatRowShape(15): "shape",
    rows.RowEnd(INPUT, 15): "input + elements",
    rows.RowParameters(QUANTISATION, rows.Change.PADDING, pointer=True): "&params",
    rows.RowParameters(QUANTISATION, rows.Change.PADDING, pointer=False): "params",
    rows.RowWeights(ARRAY, 8): "weights_0 + result.next * 8",
    rows.Sums(): "sums",
    rows.EachScaling((3, -1)): "[&](int32_t) { return Scaling{3, -1}; }",
    rows.EachScaling((ARRAY, ARRAY)): "[&](int32_t k) { return Scaling{weights_0[k], weights_0[k]}; }",
    rows.EachScaling(QUANTISATION): (
        "[&](int32_t k) { return Scaling{kQuantisation.multiplier[k], kQuantisation.shift[k]}; }"
    ),
}


@pytest.mark.parametrize(("operand", "text"), CASES.items(), ids=list(CASES.values()))
def test_operands_are_expressions(operand: ops.Operand, text: str) -> None:
    assert cxx.operand(operand) == text


def test_truth_is_no_number() -> None:
    assert (cxx.operand(True), cxx.operand(False), cxx.operand(1)) == ("true", "false", "1")


def test_every_operand_has_its_text() -> None:
    kinds = {kind for kind in typing.get_args(ops.Operand) if kind not in (int, bool, float)}
    assert kinds == {type(case) for case in CASES} - {int, float}


def test_fields_are_in_braces_or_assigned() -> None:
    fields = (
        ("padding", structs.tile((1, 2))),
        ("sizes", structs.Elements((3, 4))),
        ("shift", structs.Mutable(ARRAY, TensorType.INT32)),
        ("kind", structs.Enumerator("ARM_TANH")),
        ("data", None),
    )
    assert cxx.braced(fields) == ("{2, 1}, {3, 4}, const_cast<int32_t *>(weights_0), ARM_TANH, nullptr")
    assert list(cxx.assignments(fields[:3])) == [
        ("padding.w", "2"),
        ("padding.h", "1"),
        ("sizes[0]", "3"),
        ("sizes[1]", "4"),
        ("shift", "const_cast<int32_t *>(weights_0)"),
    ]


def test_kernels_have_their_names_and_template_arguments() -> None:
    matmul = reference_kernel("batch_matmul.h", "BatchMatMul", INT8, TensorType.INT32)
    assert cxx.kernel_name(matmul) == "tflite::reference_ops::BatchMatMul<int8_t, int32_t>"
    assert cxx.listed_name(matmul) == "reference_ops::BatchMatMul<int8_t, int32_t>"
    assert cxx.call(KernelCall(cmsis_kernel("arm_softmax_s8"), (INPUT, 4))) == "arm_softmax_s8(input, 4)"


def test_classes_of_our_kernels_have_aliases_in_calls() -> None:
    floor = Rounding("OneFloor", (5, -128, 127))
    geometry, rounding = Geometry(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), Rounding("Joined", (floor, floor))
    kernel = own_kernel("Depthwise", geometry, 4, 2, rounding)
    assert cxx.kernel_name(kernel) == "tflm_fast::Depthwise<Shape, 4, 2, Rounding>"
    joined = "tflm_fast::Joined<tflm_fast::OneFloor<5, -128, 127>, tflm_fast::OneFloor<5, -128, 127>>"
    shape = "tflm_fast::Geometry<1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11>"
    assert list(cxx.aliases(kernel)) == [f"using Rounding = {joined};", f"using Shape = {shape};"]
    assert cxx.kernel_name(kernel, whole=True) == f"tflm_fast::Depthwise<{shape}, 4, 2, {joined}>"
    assert cxx.listed_name(kernel) == "tflm_fast::Depthwise"

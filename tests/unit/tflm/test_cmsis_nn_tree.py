# SPDX-License-Identifier: Apache-2.0
"""Which CMSIS-NN sources a kernel needs, on a small stand-in for its checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from tflm_zephyr.tflm.cmsis_nn_tree import CmsisNnTree
from tflm_zephyr.tflm.sources import TflmTree, shipped_source_table

FILES = {
    "Include/arm_support.h": (
        "__STATIC_FORCEINLINE int32_t arm_inline(const int32_t a)\n{\n    return arm_below(a);\n}\n"
        "__STATIC_INLINE void arm_other(void)\n{\n    arm_unwanted();\n}\n"
        "int arm_declared(int a);\n"
    ),
    "Source/A/arm_conv.c": (
        "/* arm_commented */\n// arm_commented\n"
        "arm_status arm_conv_wrapper(const int8_t *a,\n    int b)\n{\n    return arm_inline(*a) + arm_table[b]"
        " + sine_uint16[b] + local[b];\n}\n"
        "static const int8_t local[1] = {0};\n"
    ),
    "Source/B/arm_below.c": "int32_t arm_below(int32_t a)\n{\n    return arm_conv_wrapper(0, a);\n}\n",  # a circle
    "Source/B/arm_tables.c": "const int16_t arm_table[2] = {\n    1, 2};\n",
    "Source/B/arm_more_tables.c": "const uint16_t sine_uint16[2] = {\n    1, 2};\n",
    "Source/B/arm_a.c": "static const int8_t local[1] = {1};\n",  # another's own
    "Source/B/arm_unwanted.c": "void arm_unwanted(void)\n{\n}\n",
    "Source/B/arm_commented.c": "void arm_commented(void)\n{\n}\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> CmsisNnTree:
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return CmsisNnTree(tmp_path)


def test_names_are_followed_through_functions_and_tables(tree: CmsisNnTree, tmp_path: Path) -> None:
    kernel = tmp_path / "conv.cc"
    kernel.write_text("TfLiteStatus Eval() { return arm_conv_wrapper(in, n); }  // arm_unwanted\n")
    assert tree.closure(kernel) == (
        "Source/A/arm_conv.c",
        "Source/B/arm_below.c",
        "Source/B/arm_more_tables.c",
        "Source/B/arm_tables.c",
    )


def test_a_kernel_that_names_nothing_needs_nothing(tree: CmsisNnTree, tmp_path: Path) -> None:
    kernel = tmp_path / "relu.cc"
    kernel.write_text("int armament; // arm_below\n")
    assert tree.closure(kernel) == ()


def test_an_optimised_kernel_goes_before_the_reference_one(tmp_path: Path) -> None:
    kernels = tmp_path / "tensorflow/lite/micro/kernels"
    (kernels / "cmsis_nn").mkdir(parents=True)
    for name in ("conv", "relu"):
        (kernels / f"{name}.cc").write_text(f"TFLMRegistration Register_{name.upper()}() {{\n}}\n")
    (kernels / "cmsis_nn" / "conv.cc").write_text("TFLMRegistration Register_CONV() {\n}\n")
    table = TflmTree(tmp_path, "cmsis_nn").table("abc")
    assert table.kernels["Register_CONV"] == ("tensorflow/lite/micro/kernels/cmsis_nn/conv.cc",)
    assert table.kernels["Register_RELU"] == ("tensorflow/lite/micro/kernels/relu.cc",)
    assert TflmTree(tmp_path).table("abc").kernels["Register_CONV"] == ("tensorflow/lite/micro/kernels/conv.cc",)


def test_the_table_has_functions_for_every_optimised_kernel() -> None:
    table = shipped_source_table("cmsis_nn")
    selected = table.select(["Register_CONV_2D"])
    assert "tensorflow/lite/micro/kernels/cmsis_nn/conv.cc" in selected
    assert "tensorflow/lite/micro/kernels/conv.cc" not in selected
    assert any(path.endswith("/arm_convolve_s8.c") for path in table.select_functions(selected))
    assert shipped_source_table().select_functions(shipped_source_table().select(["Register_CONV_2D"])) == ()

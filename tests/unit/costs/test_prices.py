# SPDX-License-Identifier: Apache-2.0
"""Prices of operators: the measured one, and what stands in where nothing was measured."""

from __future__ import annotations

import pytest

from tflm_zephyr.costs import CMSIS_NN, EVAL, INVOKE, REFERENCE, Prices, Shape, core_table

CONVOLUTION = Shape("CONV_2D int8", 6, 6, 16, 6, 6, 12)
POOL = Shape("MAX_POOL_2D int8", 8, 8, 16, 4, 4, 16, high=2, wide=2, down=2, across=2)
M3 = Prices("cortex-m3", CMSIS_NN)


def test_what_was_measured_is_marked_so() -> None:
    price = M3.operator(POOL)
    assert price.measured
    assert price.instructions > POOL.outputs
    assert price.cycles > price.instructions
    assert 0 < price.error < 0.2


def test_twice_the_channels_cost_about_twice_as_much() -> None:
    wide = Shape("MAX_POOL_2D int8", 8, 8, 32, 4, 4, 32, high=2, wide=2, down=2, across=2)
    assert 1.2 < M3.operator(wide).instructions / M3.operator(POOL).instructions < 2.2


def test_an_inference_without_operators_has_a_price() -> None:
    assert 0 < M3.operator(INVOKE).instructions < 1000


def test_another_core_is_priced_by_the_nearest() -> None:
    price = Prices("cortex-m7", CMSIS_NN).call(Shape("arm_convolve_s8", 8, 8, 4, 6, 6, 8, high=3, wide=3))
    assert price.why == "cortex-m4 stands in for cortex-m7"
    near = Prices("cortex-m4", CMSIS_NN).call(Shape("arm_convolve_s8", 8, 8, 4, 6, 6, 8, high=3, wide=3))
    assert price.instructions == near.instructions


def test_another_commit_is_priced_by_the_measured_one() -> None:
    library = core_table("cortex-m3").library(CMSIS_NN)
    assert library is not None
    price = Prices("cortex-m3", CMSIS_NN, "f" * 40).operator(POOL)
    assert price.why == f"cmsis_nn {library.commit[:12]} stands in for ffffffffffff"
    assert price.instructions == M3.operator(POOL).instructions
    assert Prices("cortex-m3", CMSIS_NN, library.commit).operator(POOL).measured


def test_the_same_kernels_on_another_core_are_nearer() -> None:
    price = Prices("cortex-m7", REFERENCE).operator(CONVOLUTION)
    assert price.why == "cortex-m4 stands in for cortex-m7"
    assert price.instructions > 3 * Prices("cortex-m4", CMSIS_NN).operator(CONVOLUTION).instructions


def test_an_operator_stands_in_for_its_call() -> None:
    dense = Shape("FULLY_CONNECTED float32", 1, 1, 64, 1, 1, 12)
    price = M3.call(dense)
    assert price.why == "FULLY_CONNECTED float32 through the interpreter stands in"
    assert price.instructions == M3.operator(dense).instructions > 64 * 12 * 20


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        ("MAX_POOL_2D uint8", "MAX_POOL_2D int8 stands in for uint8"),
        ("NEVER_SEEN int8", "ADD int8 stands in for NEVER_SEEN int8"),
    ],
)
def test_other_types_are_priced_by_the_nearest_measured(kernel: str, why: str) -> None:
    price = M3.operator(Shape(kernel, 1, 1, 64, 1, 1, 64))
    assert not price.measured
    assert why in price.why
    assert price.instructions > 64


@pytest.mark.parametrize(
    ("shape", "core", "function"),
    [
        (CONVOLUTION, "cortex-m4", "arm_convolve_1x1_s8_fast"),
        (Shape("CONV_2D int8", 6, 6, 16, 3, 3, 12, down=2, across=2), "cortex-m4", "arm_convolve_1x1_s8"),
        (Shape("CONV_2D int8", 6, 6, 16, 6, 6, 12, high=3, wide=3, top=1, left=1), "cortex-m4", "arm_convolve_s8"),
        (Shape("CONV_2D int8", 1, 9, 4, 1, 9, 6, wide=3, left=1), "cortex-m55", "arm_convolve_1_x_n_s8"),
        (
            Shape("DEPTHWISE_CONV_2D int8", 6, 6, 8, 6, 6, 8, high=3, wide=3, top=1, left=1),
            "cortex-m4",
            "arm_depthwise_conv_3x3_s8",
        ),
        (Shape("DEPTHWISE_CONV_2D int8", 6, 6, 1, 4, 4, 8, high=3, wide=3), "cortex-m4", "arm_depthwise_conv_s8"),
        (Shape("DEPTHWISE_CONV_2D int8", 9, 9, 8, 5, 5, 8, high=5, wide=5), "cortex-m4", "arm_depthwise_conv_s8_opt"),
        (Shape("FULLY_CONNECTED int8", 1, 1, 16, 1, 1, 4), "cortex-m4", "arm_fully_connected_s8"),
        (Shape("CONV_2D float32", 6, 6, 16, 6, 6, 12), "cortex-m4", ""),
    ],
)
def test_wrappers_call_these_functions(shape: Shape, core: str, function: str) -> None:
    assert Prices(core, CMSIS_NN).function_of(shape) == function
    assert function == "" or " " not in function


def test_an_eval_takes_a_few_hundred_instructions() -> None:
    library = core_table("cortex-m3").library(CMSIS_NN)
    assert library is not None
    for key in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
        (factor,) = library.operators[EVAL + key].instructions.factors.values()
        assert 100 < factor < 2000


def test_functions_of_code_count_once_and_layers_each() -> None:
    one, more = M3.code_bytes(["arm_convolve_s8"]), M3.code_bytes(["arm_convolve_s8", "arm_convolve_s8"])
    library = core_table("cortex-m3").library(CMSIS_NN)
    assert library is not None and one is not None and more is not None
    assert more - one == library.calls["arm_convolve_s8"].call_bytes > 100
    both = M3.code_bytes(["arm_convolve_s8", "ADD int8"])
    assert both is not None and both > one
    assert M3.code_bytes(["NEVER_SEEN int8"]) is None
    assert Prices("cortex-m7", CMSIS_NN).code_bytes(["arm_convolve_s8"]) is None

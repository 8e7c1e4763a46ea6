# SPDX-License-Identifier: Apache-2.0
"""Tensors that do not fit each other are named, as calls with constant parameters would read or write beside them."""

from __future__ import annotations

import pytest

from tests.helpers.compiled_models import compiled_model
from tests.helpers.operator_models import Case, Spec
from tflm_zephyr.errors import ModelError

_POOL = {"stride_h": 1, "stride_w": 1, "filter_height": 1, "filter_width": 1}
_WEIGHTS = Spec((8, 4), "int8", tuple(range(32)), scale=0.02)


def real(*shape: int) -> Spec:
    return Spec(shape, "int8", scale=0.1, zero_point=3)


def numbers(count: int) -> Spec:
    return Spec((count,), "int32", tuple(range(count)), scale=0.002)


def kernel(*shape: int) -> Spec:
    return Spec(shape, "int8", (1,) * (shape[0] * shape[1] * shape[2] * shape[3]), scale=0.02)


def pads(*sizes: int) -> Spec:
    return Spec((len(sizes) // 2, 2), "int32", sizes)


CONVOLUTION = {"stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1}
MISFITS = {
    "elements": (
        Case("QUANTIZE", (real(1, 4096),), (Spec((1, 4), "int8", scale=0.2),), {}),
        "has different numbers of elements",
    ),
    "logistic": (
        Case("LOGISTIC", (real(1, 8),), (Spec((1, 4), "int8", scale=1 / 256, zero_point=-128),)),
        "has different numbers of elements",
    ),
    "inputs": (Case("ADD", (real(2, 3), real(2, 4)), (real(2, 4),), {}), "has inputs that do not fit each other"),
    "output": (Case("MUL", (real(2, 4), real(1, 4)), (real(1, 4),), {}), "has another output"),
    "dense": (Case("FULLY_CONNECTED", (real(1, 3), _WEIGHTS), (real(1, 8),), {}), "do not fit each other"),
    "dense bias": (
        Case("FULLY_CONNECTED", (real(1, 4), _WEIGHTS, numbers(2)), (real(1, 8),), {}),
        "has 8 output channels and 2 biases",
    ),
    "no bias": (
        Case("FULLY_CONNECTED", (real(1, 4), _WEIGHTS, numbers(0)), (real(1, 8),), {}),
        "has 8 output channels and 0 biases",
    ),
    "convolution's bias": (
        Case("CONV_2D", (real(1, 3, 3, 4), kernel(8, 1, 1, 4), numbers(2)), (real(1, 3, 3, 8),), CONVOLUTION),
        "has 8 output channels and 2 biases",
    ),
    "batches": (
        Case("CONV_2D", (real(1, 3, 3, 4), kernel(8, 1, 1, 4), numbers(8)), (real(2, 3, 3, 8),), CONVOLUTION),
        "has different numbers of batches",
    ),
    "pool": (Case("MAX_POOL_2D", (real(1, 2, 2, 4),), (real(1, 2, 2, 3),), _POOL), "has batches or channels"),
    "padding": (Case("PAD", (real(1, 4), pads(0, 0, 1, 1)), (real(1, 8),), {}), r"pads to \[1, 6\]"),
    "paddings": (Case("PAD", (real(1, 4), pads(0, 0)), (real(1, 4),), {}), "has paddings that do not fit"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_what_does_not_fit_is_named(name: str) -> None:
    case, why = MISFITS[name]
    with pytest.raises(ModelError, match=rf"operator 0 \({case.key}\).*{why}"):
        compiled_model(case.build())


def test_what_fits_is_compiled() -> None:
    for case in (
        Case("ADD", (real(2, 1, 4), real(3, 1)), (real(2, 3, 4),), {}),
        Case("PAD", (real(1, 4), pads(0, 0, 1, 3)), (real(1, 8),), {}),
        Case("FULLY_CONNECTED", (real(1, 2, 3, 4), _WEIGHTS, numbers(8)), (real(6, 8),), {}),
        Case("MAX_POOL_2D", (real(2, 2, 2, 4),), (real(2, 2, 2, 4),), _POOL),
    ):
        assert not compiled_model(case.build()).fallbacks, case.key


@pytest.mark.parametrize("scale", [float("nan"), 1e-9])
def test_a_scale_that_is_no_number_leaves_tflms_kernel(scale: float) -> None:
    """No traceback: what TFLM's Prepare makes of it is left to TFLM."""
    softmax = Case(
        "SOFTMAX",
        (Spec((1, 8), "int8", scale=scale),),
        (Spec((1, 8), "int8", scale=1 / 256, zero_point=-128),),
        {"beta": 1},
    )
    assert compiled_model(softmax.build()).fallbacks

# SPDX-License-Identifier: Apache-2.0
"""The part of a model that CMSIS-NN would compute; a small part is left to the reference kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.model_builder import chain
from tests.helpers.small_models import dense, unary
from tflm_zephyr.boards.board import load_board
from tflm_zephyr.boards.kernel_choice import LEAST_WORK, choose
from tflm_zephyr.kernels.registry import operator_specs
from tflm_zephyr.kernels.revisions import REVISIONS
from tflm_zephyr.kernels.uses import cmsis_nn_work, keeps_state, looks_twice
from tflm_zephyr.model.reader import load_model, parse_model

BOTH = ("cmsis_nn", "reference")
ROOT = Path(__file__).resolve().parents[3]


def test_a_dense_layers_products_are_counted() -> None:
    model = parse_model(dense())
    weights = next(tensor for _, tensor in model.tensors() if tensor.is_constant and len(tensor.shape) == 2)
    assert cmsis_nn_work(model) == weights.shape[0] * weights.shape[1]


def test_what_cmsis_nn_does_not_compute_counts_nothing() -> None:
    assert cmsis_nn_work(parse_model(unary("RELU"))) == 0
    assert cmsis_nn_work(parse_model(chain())) == 0  # of operators without a CMSIS-NN kernel


@pytest.mark.parametrize(
    ("name", "products"),
    [
        ("person_detect", 7_160_000),  # MobileNet v1 0.25 at 96x96: 7 million
        ("kws_ref_model", 2_660_000),  # DS-CNN S: 2.66 million
        ("pretrainedResnet_quant", 12_500_000),  # ResNet-8: 12.5 million
        ("ad01_int8", 264_000),
        ("hello_world_float", 0),
    ],
)
def test_known_models(shared: Path, name: str, products: int) -> None:
    work = cmsis_nn_work(load_model(shared / "models" / f"{name}.tflite"))
    assert abs(work - products) <= 0.01 * products


def test_auto_takes_cmsis_nn_where_it_has_work() -> None:
    boards = [load_board("mps2/an385")]
    assert choose("auto", boards, BOTH, work=LEAST_WORK).names == ("cmsis_nn",)
    small = choose("auto", boards, BOTH, work=LEAST_WORK - 1)
    assert small.names == ("reference",)
    assert f"just {LEAST_WORK - 1} multiply-accumulates" in small.notes[0]
    assert "nothing to compute" in choose("auto", boards, BOTH, work=0).notes[0]
    assert choose("cmsis_nn", boards, BOTH, work=0).names == ("cmsis_nn",)


def test_the_samples() -> None:
    work = {
        name: cmsis_nn_work(load_model(ROOT / "samples" / name / f"{name}.tflite"))
        for name in ("hello_world", "digits")
    }
    assert work["hello_world"] < LEAST_WORK < work["digits"]


@pytest.mark.parametrize("revision", REVISIONS)
def test_state_and_second_looks_at_every_revision(revision: str) -> None:
    keys = operator_specs(revision)
    state = {key for key in keys if keeps_state(key, revision)}
    assert state == {"ASSIGN_VARIABLE", "CALL_ONCE", "READ_VARIABLE", "VAR_HANDLE"}
    twice = {key for key in keys if looks_twice(key, revision)}
    assert twice == {"CONV_2D", "DEPTHWISE_CONV_2D", "MEAN", "REDUCE_MAX", "SUM", "TRANSPOSE_CONV"}


def test_any_custom_operator_may_keep_a_state() -> None:
    assert keeps_state("CUSTOM") and not keeps_state("an operator that TFLM lacks")

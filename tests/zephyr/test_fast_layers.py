# SPDX-License-Identifier: Apache-2.0
"""Models with our own kernels on this machine, each layer's whole output against TFLM's, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.architectures import dense_chain, flat_convolutions, mobilenet
from tests.helpers.compiled_check import check_layers
from tests.helpers.compiled_host import Checkouts, build, generated

pytestmark = [pytest.mark.zephyr, pytest.mark.slow]

MODELS = {"mobilenet": mobilenet(96), "dense": dense_chain((33, 17, 64, 5)), "flat": flat_convolutions()}


def check(model: Path, tmp_path: Path, kernels: str, checkouts: Checkouts, *, rows: bool, stream: bool = False) -> None:
    made = generated(
        model, tmp_path / "app", kernels, checkouts.revision, rows=rows, slower=30, fast=True, stream=stream
    )
    net = build(made, tmp_path / "src", checkouts)
    check_layers([net])
    assert any(layer.fast for layer in net.program.layers)


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_layers_are_those_of_tflm(name: str, rows: bool, tmp_path: Path, checkouts: Checkouts) -> None:
    model = tmp_path / "net.tflite"
    model.write_bytes(MODELS[name])
    check(model, tmp_path, "cmsis_nn", checkouts, rows=rows)


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("name", ["ad01_int8", "kws_ref_model", "person_detect", "pretrainedResnet_quant"])
def test_layers_of_shared_models_are_those_of_tflm(
    name: str, rows: bool, tmp_path: Path, checkouts: Checkouts, shared: Path
) -> None:
    check(shared / "models" / f"{name}.tflite", tmp_path, "reference", checkouts, rows=rows)


@pytest.mark.parametrize("name", ["kws_ref_model", "person_detect"])
def test_streamed_input_of_shared_models(name: str, tmp_path: Path, checkouts: Checkouts, shared: Path) -> None:
    check(shared / "models" / f"{name}.tflite", tmp_path, "reference", checkouts, rows=True, stream=True)

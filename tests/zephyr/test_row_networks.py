# SPDX-License-Identifier: Apache-2.0
"""Networks whose layers run row by row on this machine: all rows that they compute are TFLM's, byte for byte.

In random networks as many layers as can run row by row do so, at random paces, whether that saves memory or not:
strides, dilations, odd sizes, residuals, padding, images one row or one pixel wide.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.architectures import efficientnet, mobilenet
from tests.helpers.compiled_check import check_layers
from tests.helpers.compiled_host import Checkouts, build_all, generated
from tests.helpers.forced_rows import forced
from tests.helpers.row_networks import row_network
from tflm_zephyr.compiler import CompilerOptions, compile_model
from tflm_zephyr.compiler.row_plan import RowPlanning
from tflm_zephyr.errors import ModelError
from tflm_zephyr.kernels import kernel_library
from tflm_zephyr.model import load_model

pytestmark = [pytest.mark.zephyr, pytest.mark.slow]

NETWORKS, OTHERS, EACH = 500, 40, 10
SLOWER = 30
"""Percent: enough for segments in every model that gets smaller by them."""


def check(models: list[Path], tmp_path: Path, kernels: str, checkouts: Checkouts, *, stream: bool = False) -> int:
    """Check the models; the number of layers that ran row by row."""
    made = generated(models, tmp_path / "app", kernels, checkouts.revision, rows=True, slower=SLOWER, stream=stream)
    networks = build_all(made, tmp_path / "src", checkouts)
    check_layers(networks)
    return sum(len(layer.members) for net in networks for layer in net.program.segments)


def written(folder: Path, first: int, kind: str = "int8") -> list[Path]:
    """EACH random networks from number `first` on, as files."""
    for number in range(first, first + EACH):
        (folder / f"{number}.tflite").write_bytes(row_network(number, kind=kind))
    return [folder / f"{number}.tflite" for number in range(first, first + EACH)]


def can_stream(path: Path, kernels: str) -> bool:
    """Whether the model's input can come row by row; where it cannot, the reason names a layer."""
    try:
        compile_model(load_model(path), (kernel_library(kernels),), CompilerOptions(stream=True))
    except ModelError as error:
        assert "layer" in error.what
        return False
    return True


@pytest.mark.parametrize("kernels", ["cmsis_nn", "reference"])
@pytest.mark.parametrize("first", range(0, NETWORKS, EACH))
def test_rows_of_random_networks(
    first: int, kernels: str, tmp_path: Path, checkouts: Checkouts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RowPlanning, "smallest", forced(first))
    assert check(written(tmp_path, first), tmp_path, kernels, checkouts) > 4 * EACH


@pytest.mark.parametrize("kernels", ["cmsis_nn", "reference"])
@pytest.mark.parametrize("kind", ["int16", "float32"])
@pytest.mark.parametrize("first", range(0, OTHERS, EACH))
def test_rows_of_networks_of_other_types(
    first: int, kind: str, kernels: str, tmp_path: Path, checkouts: Checkouts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RowPlanning, "smallest", forced(first))
    assert check(written(tmp_path, first, kind), tmp_path, kernels, checkouts) > 4 * EACH


@pytest.mark.parametrize("kernels", ["cmsis_nn", "reference"])
def test_rows_of_blocks_that_scale_their_channels(
    kernels: str, tmp_path: Path, checkouts: Checkouts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RowPlanning, "smallest", forced(1))
    path = tmp_path / "net.tflite"
    path.write_bytes(efficientnet(32, most=3))
    assert check([path], tmp_path, kernels, checkouts) > 20


@pytest.mark.parametrize("kernels", ["cmsis_nn", "reference"])
def test_rows_of_shared_models(shared_model: Path, kernels: str, tmp_path: Path, checkouts: Checkouts) -> None:
    check([shared_model], tmp_path, kernels, checkouts)


@pytest.mark.parametrize("kernels", ["cmsis_nn", "reference"])
def test_rows_of_a_mobilenet_in_colour(kernels: str, tmp_path: Path, checkouts: Checkouts) -> None:
    path = tmp_path / "mobilenet.tflite"
    path.write_bytes(mobilenet(96))
    assert check([path], tmp_path, kernels, checkouts) > 1


@pytest.mark.parametrize("kernels", ["cmsis_nn", "reference"])
@pytest.mark.parametrize("first", range(0, NETWORKS // 2, EACH))
def test_streamed_input_of_random_networks(
    first: int, kernels: str, tmp_path: Path, checkouts: Checkouts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RowPlanning, "smallest", forced(first))
    models = [path for path in written(tmp_path, first) if can_stream(path, kernels)]
    assert len(models) > EACH // 2
    assert check(models, tmp_path, kernels, checkouts, stream=True) > 2 * EACH


@pytest.mark.parametrize("kernels", ["cmsis_nn", "reference"])
@pytest.mark.parametrize("name", ["kws_ref_model", "micro_speech_quantized", "person_detect", "pretrainedResnet_quant"])
def test_streamed_input_of_shared_models(
    name: str, kernels: str, shared: Path, tmp_path: Path, checkouts: Checkouts
) -> None:
    assert check([shared / "models" / f"{name}.tflite"], tmp_path, kernels, checkouts, stream=True)

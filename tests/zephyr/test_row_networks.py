# SPDX-License-Identifier: Apache-2.0
"""Networks whose layers run row by row on this machine: all rows that they compute are TFLM's, byte for byte.

In random networks as many layers as can run row by row do so, at random paces, whether that saves memory or not:
strides, dilations, odd sizes, residuals, padding, images one row or one pixel wide.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.compiled_check import check_layers
from tests.helpers.compiled_host import Checkouts, build_all, generated
from tests.helpers.forced_rows import forced
from tests.host.row_networks import row_network
from tests.zephyr.models import mobilenet
from tflm_zephyr.compiler import compilation

pytestmark = [pytest.mark.zephyr, pytest.mark.slow]

NETWORKS, EACH = 500, 10
SLOWER = 30
"""Percent: enough for segments in every model that gets smaller by them."""


def check(models: list[Path], tmp_path: Path, kernels: str, checkouts: Checkouts) -> int:
    """Check the models; the number of layers that ran row by row."""
    made = generated(models, tmp_path / "app", kernels, checkouts.revision, rows=True, slower=SLOWER)
    networks = build_all(made, tmp_path / "src", checkouts)
    check_layers(networks)
    return sum(len(layer.members) for net in networks for layer in net.program.segments)


@pytest.mark.parametrize("kernels", ["cmsis_nn", "reference"])
@pytest.mark.parametrize("first", range(0, NETWORKS, EACH))
def test_rows_of_random_networks(
    first: int, kernels: str, tmp_path: Path, checkouts: Checkouts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compilation, "plan_rows", forced(first))
    models = []
    for number in range(first, first + EACH):
        path = tmp_path / f"{number}.tflite"
        path.write_bytes(row_network(number))
        models.append(path)
    assert check(models, tmp_path, kernels, checkouts) > 4 * EACH


@pytest.mark.parametrize("kernels", ["cmsis_nn", "reference"])
def test_rows_of_shared_models(shared_model: Path, kernels: str, tmp_path: Path, checkouts: Checkouts) -> None:
    check([shared_model], tmp_path, kernels, checkouts)


@pytest.mark.parametrize("kernels", ["cmsis_nn", "reference"])
def test_rows_of_a_mobilenet_in_colour(kernels: str, tmp_path: Path, checkouts: Checkouts) -> None:
    path = tmp_path / "mobilenet.tflite"
    path.write_bytes(mobilenet(96))
    assert check([path], tmp_path, kernels, checkouts) > 1

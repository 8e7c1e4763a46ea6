# SPDX-License-Identifier: Apache-2.0
"""200 random networks of every operator with direct code, compiled: each layer's whole output is TFLM's, byte for byte.

The kernels are the workspace's, as code of this machine: CMSIS-NN's portable C, and TFLM's reference headers. Networks
are compiled ten at a time, which saves reading the same headers.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.chained_networks import chained_network
from tests.helpers.compiled_check import check_layers
from tests.helpers.compiled_host import Checkouts, build_all, generated
from tests.helpers.random_operators import BEYOND_TFLM
from tflm_zephyr.compiler import why_not
from tflm_zephyr.compiler.registry import OPERATORS
from tflm_zephyr.kernels import kernel_library
from tflm_zephyr.model import parse_model

pytestmark = [pytest.mark.zephyr, pytest.mark.slow]

KINDS = ("int8", "int8", "int8", "int16", "float32")
NETWORKS, EACH = 200, 10
WITHOUT = {"reference": {"SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM"}, "cmsis_nn": set[str]()}
"""Operators of these networks that keep TFLM's own kernel, which has its loops in no header."""


def network(number: int) -> bytes:
    return chained_network(number, KINDS[number % len(KINDS)])


@pytest.mark.parametrize("kernels", ["cmsis_nn", "reference"])
@pytest.mark.parametrize("first", range(0, NETWORKS, EACH))
def test_layers_are_those_of_tflm(first: int, kernels: str, tmp_path: Path, checkouts: Checkouts) -> None:
    models = []
    for number in range(first, first + EACH):
        path = tmp_path / f"{number}.tflite"
        path.write_bytes(network(number))
        models.append(path)
    made = generated(models, tmp_path / "app", kernels, checkouts.revision)
    check_layers(build_all(made, tmp_path / "src", checkouts))


@pytest.mark.parametrize("kernels", ["cmsis_nn", "reference"])
def test_networks_have_every_operator_with_direct_code(kernels: str) -> None:
    direct = set()
    for number in range(NETWORKS):
        model = parse_model(network(number))
        framed = why_not(model, (kernel_library(kernels),))
        assert {model.main.operators[operator].key for operator in framed} <= WITHOUT[kernels]
        direct |= {operator.key for operator in model.main.operators if operator.index not in framed}
    assert direct | WITHOUT[kernels] >= set(OPERATORS) - set(BEYOND_TFLM)

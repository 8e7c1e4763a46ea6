# SPDX-License-Identifier: Apache-2.0
"""Compiled models on this machine, each layer's whole output against TFLM's, byte for byte.

The kernels are the workspace's: CMSIS-NN's portable C, and TFLM's reference headers.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.architectures import dense_chain, flat_convolutions, mobilenet
from tests.helpers.checkout import ROOT
from tests.helpers.compiled_check import check_layers
from tests.helpers.compiled_host import Checkouts, build, generated
from tests.helpers.control_models import branching, counting, looping
from tests.helpers.networks import mixed_network, network
from tests.helpers.operator_models import CASES, Case, Spec, together
from tests.helpers.random_operators import BEYOND_TFLM, LEGACY, random_operators
from tests.helpers.small_models import legacy
from tflm_zephyr.compiler.registry import OPERATORS
from tflm_zephyr.errors import AppError, ModelError
from tflm_zephyr.kernels import check_types, miscomputed
from tflm_zephyr.model import load_model, parse_model

pytestmark = pytest.mark.zephyr

_IMAGE, _GRID = Spec((1, 4, 4, 2)), Spec((2, 3, 4))
_OTHER = Spec((2, 3, 4), scale=0.11, zero_point=5)
_ROW = Spec((2, 9), "int8", scale=0.1, zero_point=3)
_SCALES = (0.02, 0.03, 0.01, 0.015, 0.022)
_VALUES = tuple(range(-60, 60, 7))
_BIAS = Spec((5,), "int32", (100, -500, 3, 9, 77), scale=0.001)


def _weights(scale: float | tuple[float, ...]) -> Spec:
    return Spec((5, 8), "int8", _VALUES, scale=scale)


# Operators in parameters that random networks do not have; int8 or float, as the tensors say.
SINGLE = (
    *(Case(key, (_IMAGE, Spec((1, 1, 1, 2))), (_IMAGE,), {}) for key in ("ADD", "MUL")),
    *(Case(key, (_GRID, _OTHER), (Spec((2, 3, 4), scale=0.07, zero_point=-3),), {}) for key in ("ADD", "MUL")),
    Case("QUANTIZE", (_ROW,), (Spec((2, 9), "int16", scale=0.05),), {}),
    Case("QUANTIZE", (_ROW,), (Spec((2, 9), "int8", scale=0.13, zero_point=-7),), {}),
    Case("QUANTIZE", (Spec((2, 9), "int16", scale=0.1),), (Spec((2, 9), "int8", scale=0.5, zero_point=4),), {}),
    Case("QUANTIZE", (Spec((2, 9), "int16", scale=0.1),), (Spec((2, 9), "int16", scale=0.3),), {}),
    Case("QUANTIZE", (Spec((2, 9), "float32"),), (Spec((2, 9), "int16", scale=0.001),), {}),
    Case("DEQUANTIZE", (Spec((2, 9), "int16", scale=0.1),), (Spec((2, 9), "float32"),), {}),
    Case("SOFTMAX", (Spec((3, 40), scale=0.09, zero_point=7),), (Spec((3, 40)),), {"beta": 0.7}),
    Case("FULLY_CONNECTED", (Spec((1, 2, 3, 8)), _weights(0.02)), (Spec((1, 2, 3, 5)),), {"keep_num_dims": True}),
    Case("FULLY_CONNECTED", (Spec((2, 8)), _weights(_SCALES), _BIAS), (Spec((2, 5)),), {}),
    Case("FULLY_CONNECTED", (Spec((1, 2, 3, 8)), _weights(_SCALES), _BIAS), (Spec((1, 2, 3, 5)),), {}),
)
PLAIN = tuple(case for case in CASES if case.key in OPERATORS)
FLOATS = tuple(case.typed("float32") for case in PLAIN if case.key not in ("QUANTIZE", "DEQUANTIZE"))

KEPT = tuple(case for case in CASES if case.key not in OPERATORS)
"""Operators that keep TFLM's own kernels, whatever their types."""


def takes(case: Case) -> bool:
    """Whether TFLM has a kernel of the case's types."""
    try:
        check_types(parse_model(case.build()))
    except ModelError:
        return False
    return True


def kept(kind: str) -> bytes:
    """The operators that keep TFLM's own kernels side by side, as far as TFLM has them for the type.

    RSQRT in integers refuses what is below zero.
    """
    cases = (case.typed(kind) for case in KEPT if case.key != "RSQRT" or kind == "float32")
    return together(filter(takes, cases))


MODELS = {
    "operators": together([*(case.typed("int8") for case in (*PLAIN, *SINGLE)), *FLOATS]),
    "mobilenet": mobilenet(24),
    "dense": dense_chain((40, 17, 33, 8)),
    "flat": flat_convolutions(),
    **{f"network {seed}": network(seed) for seed in range(8)},
    **{f"kept {kind}": kept(kind) for kind in ("int8", "int16", "float32")},
    **{f"mixed network {seed}": mixed_network(seed) for seed in range(6)},
    **{f"mixed float network {seed}": mixed_network(seed, "float32") for seed in range(2)},
    "branching": branching(),
    "looping": looping(),
    "counting": counting(),
    **{f"float network {seed}": network(seed, "float32") for seed in range(2)},
}
RANDOM = {f"random operators {seed}": tuple(random_operators(seed)) for seed in range(2)}
BEYOND = {
    **{f"lacking {seed}": together(random_operators(seed, 8, BEYOND_TFLM)) for seed in range(3)},
    **{f"uint8 {seed}": together(random_operators(seed, 12, LEGACY)) for seed in range(3)},
    **{f"uint8 network {seed}": legacy(seed) for seed in range(3)},
}
"""Models that TFLM does not run, with LiteRT as the reference."""
SAMPLES = sorted((ROOT / "samples").glob("*/*.tflite"))


def check(
    model: Path,
    tmp_path: Path,
    kernels: str,
    checkouts: Checkouts,
    *,
    rows: bool = False,
    slower: int = 3,
    engine: str = "tflm",
) -> None:
    made = generated(model, tmp_path / "app", kernels, checkouts.revision, rows=rows, slower=slower)
    net = build(made, tmp_path / "src", checkouts)
    check_layers([net], engine)


@pytest.mark.parametrize("kernels", ["cmsis_nn", "reference"])
@pytest.mark.parametrize("name", MODELS)
def test_layers_are_those_of_tflm(name: str, kernels: str, tmp_path: Path, checkouts: Checkouts) -> None:
    model = tmp_path / "net.tflite"
    model.write_bytes(MODELS[name])
    if kernels == "cmsis_nn" and miscomputed(load_model(model), checkouts.revision):
        with pytest.raises(AppError, match="Use --kernels reference"):
            generated(model, tmp_path / "app", kernels, checkouts.revision)
    else:
        check(model, tmp_path, kernels, checkouts)


@pytest.mark.parametrize("kernels", ["cmsis_nn", "reference"])
@pytest.mark.parametrize("name", RANDOM)
def test_layers_of_random_operators(name: str, kernels: str, tmp_path: Path, checkouts: Checkouts) -> None:
    """Without those that CMSIS-NN's kernels of the checkout compute wrongly."""
    model, cases = tmp_path / "net.tflite", RANDOM[name]
    if kernels == "cmsis_nn":
        cases = tuple(case for case in cases if not miscomputed(parse_model(case.build()), checkouts.revision))
    model.write_bytes(together(cases))
    check(model, tmp_path, kernels, checkouts)


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("name", BEYOND)
def test_layers_beyond_tflm_are_those_of_litert(name: str, rows: bool, tmp_path: Path, checkouts: Checkouts) -> None:
    model = tmp_path / "net.tflite"
    model.write_bytes(BEYOND[name])
    check(model, tmp_path, "cmsis_nn", checkouts, rows=rows, slower=1000 if rows else 3, engine="litert")


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_layers_of_samples_are_those_of_tflm(path: Path, tmp_path: Path, checkouts: Checkouts) -> None:
    check(path, tmp_path, "cmsis_nn", checkouts)


@pytest.mark.parametrize("kernels", ["cmsis_nn", "reference"])
def test_layers_of_shared_models_are_those_of_tflm(
    shared_model: Path, kernels: str, tmp_path: Path, checkouts: Checkouts
) -> None:
    check(shared_model, tmp_path, kernels, checkouts)

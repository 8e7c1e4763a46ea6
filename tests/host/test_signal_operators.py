# SPDX-License-Identifier: Apache-2.0
"""In-place distances of the audio front end's operators: the rule, the checker, and TFLM itself."""

from __future__ import annotations

from collections.abc import Sequence

from flatbuffers import flexbuffers

from tests.helpers.tflm_digests import LIBRARY, digests, found
from tests.helpers.typed_models import model_of
from tflm_zephyr.kernels import why_unsafe
from tflm_zephyr.model.types import Model

COUNT = 48


def window() -> Model:
    vector = {"shape": (COUNT,), "type": "int16"}
    options = bytes(flexbuffers.Dumps({"shift": 12}))
    weights = {**vector, "data": "random"}
    return model_of("X", [vector, weights], [vector], custom_code="SignalWindow", custom_options=options)


def at(model: Model, distance: int) -> Sequence[int]:
    """Offsets of input 0 and output 0 (tensors 0 and 2), which is `distance` bytes below."""
    offsets = [-1] * model.tensor_count
    offsets[0], offsets[2] = max(distance, 0), max(-distance, 0)
    return offsets


def test_a_window_is_the_same_in_place() -> None:
    model = window()
    (pair,) = found(model)
    assert (pair.input, pair.output, pair.distance_bytes) == (0, 2, 0)
    distances = [0, 16, 2 * COUNT - 16]
    for distance in distances:
        assert why_unsafe(LIBRARY, model, model.main, model.main.operators[0], 0, 2, distance) is None
    got = digests(model, [None, *(at(model, distance) for distance in distances)])
    assert got is not None and got == got[:1] * 4


def test_a_window_behind_its_input_is_another() -> None:
    """The distance is exact: 16 bytes less, and elements are overwritten before they are read."""
    model = window()
    assert why_unsafe(LIBRARY, model, model.main, model.main.operators[0], 0, 2, -16) is not None
    got = digests(model, [None, at(model, -16)])
    assert got is not None and got[0] != got[1]

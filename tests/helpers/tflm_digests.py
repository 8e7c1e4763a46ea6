# SPDX-License-Identifier: Apache-2.0
"""Digests of the outputs of TFLM on the host."""

from __future__ import annotations

import faulthandler
import hashlib
import json
import os
import signal
from collections.abc import Sequence
from typing import Any

import pytest

from tflm_zephyr.host.golden_outputs import seeded_inputs
from tflm_zephyr.kernels.in_place.tensors import InPlaceTensors, in_place_tensors
from tflm_zephyr.kernels.libraries import host
from tflm_zephyr.model.types import Model
from tflm_zephyr.model.writer import planned

runtime: Any = pytest.importorskip("tflite_micro").runtime


numpy: Any = pytest.importorskip("numpy")


LIBRARY = host()
RULED = frozenset(key for key, kernel in LIBRARY.kernels.items() if kernel.in_place is not None)


def digests(model: Model, plans: Sequence[Sequence[int] | None], seed: int = 0) -> list[str] | None:
    """A digest of all outputs under each plan of offsets, None when TFLM refuses the model or crashes."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            faulthandler.disable()
            signal.alarm(60)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            found = [_digest(planned(model, plan), seeded_inputs(model, seed), model) for plan in plans]
            with os.fdopen(writing, "w") as stream:
                json.dump(found, stream)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as stream:
        text = stream.read()
    _, status = os.waitpid(child, 0)
    return json.loads(text) if status == 0 else None


def _digest(data: bytes, inputs: Sequence[bytes], model: Model) -> str:
    interpreter = runtime.Interpreter.from_bytes(data, arena_size=1 << 20)
    for index, value in enumerate(inputs):
        details = interpreter.get_input_details(index)
        interpreter.set_input(numpy.frombuffer(value, details["dtype"]).reshape(details["shape"]), index)
    interpreter.invoke()
    outputs = [interpreter.get_output(index).tobytes() for index in range(len(model.main.outputs))]
    return hashlib.sha256(b"".join(outputs)).hexdigest()


def found(model: Model) -> tuple[InPlaceTensors, ...]:
    return in_place_tensors(LIBRARY, model, model.main, model.main.operators[0])

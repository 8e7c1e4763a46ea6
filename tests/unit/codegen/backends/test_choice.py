# SPDX-License-Identifier: Apache-2.0
"""The backend auto: compiled code where it is sure to be smaller, and the reason where it is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.small_models import dense, unary
from tflm_zephyr.codegen.generation import AppRequest, Generated, generate
from tflm_zephyr.options import AppConfig, ModelConfig
from tflm_zephyr.tflm.revision import tflm_of


def made(folder: Path, data: bytes, **options: Any) -> Generated:
    (folder / "net.tflite").write_bytes(data)
    given: dict[str, Any] = {"kernels": "cmsis_nn", "backend": "auto", "boards": ("mps2/an385",), **options}
    config = AppConfig((ModelConfig(folder / "net.tflite"),), "app", **given)
    return generate(AppRequest(config, folder / "app", tflm_of(None), golden=False))


def test_direct_code_that_is_smaller_is_taken(tmp_path: Path) -> None:
    app = made(tmp_path, dense())
    assert app.spec.backend == "compiled"
    assert "backend auto: compiled, as every operator has direct code and takes less memory" in app.notes
    assert app.spec.models[0].arena.bytes < made(tmp_path, dense(), backend="interpreter").spec.models[0].arena.bytes


@pytest.mark.parametrize(
    ("data", "options", "why"),
    [
        (unary("ABS"), {"kernels": "reference"}, "ABS (operator 0 of net) has no direct code"),
        (dense(), {"tflm": "module"}, "tflm is the interpreter backend's"),
    ],
)
def test_the_interpreter_is_taken_for_a_reason(data: bytes, options: dict[str, Any], why: str, tmp_path: Path) -> None:
    app = made(tmp_path, data, **options)
    assert app.spec.backend == "interpreter"
    assert any(note.startswith("backend auto: interpreter, as ") and why in note for note in app.notes)

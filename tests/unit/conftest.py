# SPDX-License-Identifier: Apache-2.0
"""Fixtures for tests of commands and generated apps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.helpers.command_line import SOURCE, tool
from tests.helpers.model_builder import chain
from tflm_zephyr.host import golden_outputs
from tflm_zephyr.model.types import Model

__all__ = ["tool"]


@pytest.fixture
def fixed_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference that needs no package: output bytes count upwards."""

    def attempt(
        model: Model, inputs: Sequence[tuple[bytes, ...]] | None = None, runs: int = 1, on_run: object = None
    ) -> golden_outputs.Attempt:
        given = [golden_outputs.seeded_inputs(model, seed) for seed in range(runs)] if inputs is None else inputs
        sizes = [model.main.tensors[index].size_bytes for index in model.main.outputs]
        outputs = tuple(bytes(i % 256 for i in range(size)) for size in sizes)
        golden = tuple(golden_outputs.Golden(run, outputs) for run in given)
        return golden_outputs.Attempt(golden, SOURCE, golden_outputs.installed(), ())

    monkeypatch.setattr(golden_outputs, "attempt", attempt)
    monkeypatch.setattr(golden_outputs, "installed", lambda: {"ai-edge-litert": "0.0.0"})


@pytest.fixture
def no_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine where neither LiteRT nor TFLM is installed."""
    monkeypatch.setattr(golden_outputs, "available", lambda engine: False)
    monkeypatch.setattr(golden_outputs, "installed", dict)


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    """A small model of three RELUs, called net.tflite."""
    path = tmp_path / "net.tflite"
    path.write_bytes(chain())
    return path

# SPDX-License-Identifier: Apache-2.0
"""Fixtures for tests of commands and generated apps."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.model_builder import chain
from tflm_zephyr import process
from tflm_zephyr.cli import main
from tflm_zephyr.documents import checked
from tflm_zephyr.host import golden_outputs
from tflm_zephyr.model.types import Model

SOURCE = "LiteRT 0.0.0, reference kernels"


@dataclass(frozen=True)
class Outcome:
    """What a command line ended with."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def one_line(self) -> str:
        """The error's line; asserts that it is all there is, and that the exit code is 1."""
        assert self.code == 1, self
        assert self.out == ""
        assert self.err.startswith("tflm-zephyr: error: ") and self.err.count("\n") == 1, self.err
        assert "Traceback" not in self.err
        return self.err


Tool = Callable[..., Outcome]


@pytest.fixture
def tool(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Tool]:
    """Runs a command line as the console script does, with no workspace in the environment or around.

    Each document that --json prints is checked against the schema.
    """
    monkeypatch.chdir(tmp_path)
    for name in ("ZEPHYR_BASE", "ZEPHYR_TOOLCHAIN_VARIANT", "GNUARMEMB_TOOLCHAIN_PATH", "ZEPHYR_SDK_INSTALL_DIR"):
        monkeypatch.delenv(name, raising=False)

    def run(*argv: object) -> Outcome:
        capsys.readouterr()
        try:
            code = main.main([str(arg) for arg in argv])
        except SystemExit as err:
            code = err.code if isinstance(err.code, int) else 1
        said = capsys.readouterr()
        if "--json" in map(str, argv) and said.out:
            checked(json.loads(said.out), " ".join(map(str, argv)))
        return Outcome(code, said.out, said.err)

    monkeypatch.setattr(process._CHILDREN, "on_start", None)
    handlers = {sig: signal.getsignal(sig) for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield run
    for sig, handler in handlers.items():
        signal.signal(sig, handler)


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

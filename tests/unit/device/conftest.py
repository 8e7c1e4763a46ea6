# SPDX-License-Identifier: Apache-2.0
"""A stand-in for QEMU on PATH, and the device's code, compiled once with sanitizers."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import tests.fakes
from tests.fakes.link import toy

BIN = Path(tests.fakes.__file__).parent / "bin"


@pytest.fixture
def fake_qemu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where the test puts "output", what QEMU prints; QEMU puts "record.json" there."""
    folder = tmp_path / "qemu"
    folder.mkdir()
    (folder / "output").write_bytes(b"")
    monkeypatch.setenv("PATH", f"{BIN}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("QEMU_BIN_PATH", raising=False)
    monkeypatch.setenv("FAKE_QEMU_OUTPUT", str(folder / "output"))
    monkeypatch.setenv("FAKE_QEMU_RECORD", str(folder / "record.json"))
    return folder


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy device as a program of this host, under ASan and UBSan."""
    _needs_compiler()
    return toy.compile_for_host(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="session")
def mlperf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MLPerf Tiny's dialect as a program of this host, under ASan and UBSan."""
    _needs_compiler()
    return toy.compile_mlperf(tmp_path_factory.mktemp("mlperf"))


def _needs_compiler() -> None:
    if shutil.which("g++") is None:
        pytest.skip("no g++")

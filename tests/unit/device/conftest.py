# SPDX-License-Identifier: Apache-2.0
"""A stand-in for QEMU on PATH."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import tests.fakes

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

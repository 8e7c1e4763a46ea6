# SPDX-License-Identifier: Apache-2.0
"""The QEMU link against a stand-in on PATH: bytes both ways, its end, and that nothing is left behind."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tflm_zephyr.boards.board import QemuSpec
from tflm_zephyr.device.transport.link import LinkEndedError, Opened
from tflm_zephyr.device.transport.qemu import QemuLink
from tflm_zephyr.errors import DeviceError

SPEC = QemuSpec("mps2-an385", "cortex-m3")


@pytest.fixture
def elf(tmp_path: Path, fake_qemu: Path) -> Path:
    path = tmp_path / "zephyr.elf"
    path.write_bytes(b"")
    return path


def _record(fake_qemu: Path) -> dict[str, Any]:
    ends = time.monotonic() + 5
    while time.monotonic() < ends:
        try:
            found: dict[str, Any] = json.loads((fake_qemu / "record.json").read_text())
            return found
        except (FileNotFoundError, ValueError):
            time.sleep(0.01)
    raise AssertionError("QEMU was not started")


def test_reads_until_qemu_ends(elf: Path, fake_qemu: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (fake_qemu / "output").write_bytes(b"hello\n")
    monkeypatch.setenv("FAKE_QEMU_STDERR", "qemu: warning: no peer\nqemu: fatal: Lockup\nR00=0\nFPSCR: 0\n")
    monkeypatch.setenv("FAKE_QEMU_EXIT", "7")
    heard = b""
    with Opened(QemuLink(SPEC, elf)) as link, pytest.raises(LinkEndedError) as caught:
        for _ in range(100):
            heard += link.read(0.1)
    assert heard == b"hello\n"
    assert str(caught.value) == "QEMU ended with exit code 7: qemu: fatal: Lockup"
    assert _record(fake_qemu)["argv"][-2:] == ["-kernel", str(elf)]


def test_closing_kills_qemu(elf: Path, fake_qemu: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_QEMU_EXIT", "hang")
    with Opened(QemuLink(SPEC, elf)) as link:
        pid = _record(fake_qemu)["pid"]
        start = time.monotonic()
        assert link.read(0.05) == b""
        assert time.monotonic() - start < 0.5
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_writes_reach_qemu(elf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_QEMU_ECHO", "1")
    with Opened(QemuLink(SPEC, elf)) as link:
        link.write(b"ping")
        heard = b""
        while len(heard) < 4:
            heard += link.read(5)
        assert heard == b"ping"


def test_no_elf(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="Build the app first"), Opened(QemuLink(SPEC, tmp_path / "no.elf")):
        pass


def test_no_qemu(elf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(DeviceError, match="QEMU is not installed"), Opened(QemuLink(SPEC, elf)):
        pass

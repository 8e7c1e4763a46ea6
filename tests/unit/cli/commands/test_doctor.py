# SPDX-License-Identifier: Apache-2.0
"""`doctor` on this very machine made bare: no PATH, no workspace, no packages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fakes.west import make_workspace
from tests.helpers.checkout import ROOT
from tests.helpers.command_line import Tool
from tflm_zephyr.cli.commands import doctor
from tflm_zephyr.device import transport


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("CROSS_COMPILE", "ZEPHYR_BASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(transport, "find_ports", lambda usb_vid=None: ())


def test_a_bare_machine(tool: Tool) -> None:
    done = tool("doctor", "--json")
    assert (done.code, done.err, done.json["ok"], done.json["board"]) == (1, "", False, None)
    marks = {finding["topic"]: finding["mark"] for finding in done.json["findings"]}
    assert marks["Python packages"] == "ok"
    for topic in ("workspace", "Zephyr", "tflite-micro", "cmake", "ninja", "dtc"):
        assert marks[topic] == "missing"
    (found,) = [finding for finding in done.json["findings"] if finding["topic"] == "workspace"]
    assert found["fix"] == "tflm-zephyr setup DIR" and "no west workspace here or above" in found["text"]
    assert marks["QEMU"] == marks["ccache"] == "optional"


def test_its_text(tool: Tool) -> None:
    done = tool("doctor", "--board", "mps2/an385")
    assert done.code == 1
    lines = done.out.splitlines()
    at = lines.index("missing  cmake              not on PATH")
    assert lines[at + 1].strip() == "fix: apt install cmake"
    assert re.fullmatch(r"\d+ things needed for mps2/an385 missing: .*, QEMU\.", lines[-1])


def test_without_the_module(tool: Tool, tmp_path: Path) -> None:
    make_workspace(tmp_path / "ws", optional=False, without=("tflite-micro",))
    done = tool("doctor", "-w", tmp_path / "ws", "--json")
    (found,) = [finding for finding in done.json["findings"] if finding["topic"] == "tflite-micro"]
    assert found["mark"] == "missing"
    assert found["fix"] == "Run `west config manifest.group-filter -- +optional && west update tflite-micro`"
    assert next(f for f in done.json["findings"] if f["topic"] == "workspace")["text"] == f"{tmp_path}/ws, by -w"


def test_a_workspace_that_is_none(tool: Tool, tmp_path: Path) -> None:
    done = tool("doctor", "-w", tmp_path / "nowhere", "--json")
    (found,) = [finding for finding in done.json["findings"] if finding["topic"] == "workspace"]
    assert (done.code, found["mark"]) == (1, "missing")
    assert found["text"].endswith("nowhere: no such folder")


def test_without_the_toolkits_own_packages(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_installed", lambda package: "" if package in ("numpy", "west") else "1")
    done = tool("doctor")
    assert done.code == 1
    assert "lacks numpy, west" in done.out
    assert "fix: python -m pip install numpy west" in done.out


def test_its_packages_are_those_of_the_project() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    listed = text.partition("\ndependencies = [")[2].partition("\n]")[0]
    assert set(re.findall(r'^\s*"([\w-]+)', listed, re.M)) == set(doctor.PACKAGES)

# SPDX-License-Identifier: Apache-2.0
"""`west tflm` in a workspace whose manifest names the extension."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A west workspace without projects, its manifest repository a copy of the package."""
    manifest = tmp_path / "manifest"
    for name in ("tflm_zephyr", "boards", "templates", "scripts"):
        shutil.copytree(ROOT / name, manifest / name, ignore=shutil.ignore_patterns("__pycache__"))
    (manifest / "west.yml").write_text(
        "manifest:\n  self:\n    path: manifest\n    west-commands: scripts/west-commands.yml\n"
    )
    (tmp_path / ".west").mkdir()
    (tmp_path / ".west" / "config").write_text("[manifest]\npath = manifest\nfile = west.yml\n")
    return tmp_path


def _west(workspace: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "west", *argv], cwd=workspace, capture_output=True, text=True, check=False
    )


def test_it_runs_a_command(workspace: Path) -> None:
    done = _west(workspace, "tflm", "boards")
    assert done.returncode == 0, done.stderr
    assert "nrf9160dk/nrf9160/ns" in done.stdout


def test_an_error_is_one_line_and_exit_code_1(workspace: Path) -> None:
    done = _west(workspace, "tflm", "plan", "absent.tflite")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "absent.tflite" in done.stderr


def test_the_manifest_of_this_repository_names_it() -> None:
    assert "west-commands: scripts/west-commands.yml" in (ROOT / "west.yml").read_text()
    assert (ROOT / "scripts" / "west-commands.yml").is_file()


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_manifest_that_includes_the_repository(workspace: Path) -> None:
    """In a user's own manifest the repository is a project, as a Zephyr module is."""
    (workspace / "manifest").rename(workspace / "tflm_zephyr")
    subprocess.run(["git", "init", "-q", workspace / "tflm_zephyr"], check=True)
    (workspace / "manifest").mkdir()
    (workspace / "manifest" / "west.yml").write_text(
        "manifest:\n  projects:\n    - name: tflm_zephyr\n      url: file:///nowhere\n"
        "      west-commands: scripts/west-commands.yml\n  self:\n    path: manifest\n"
    )
    done = _west(workspace, "tflm", "--help")
    assert done.returncode == 0, done.stderr
    assert "usage: west tflm" in done.stdout and "library" in done.stdout
    done = _west(workspace, "tflm", "boards")
    assert done.returncode == 0, done.stderr
    assert "nrf9160dk/nrf9160/ns" in done.stdout

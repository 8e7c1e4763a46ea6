# SPDX-License-Identifier: Apache-2.0
"""`west tflm` in a workspace whose manifest names the extension."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


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


@pytest.mark.slow
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


def repository(folder: Path) -> Path:
    """A git repository of the files that are in `folder`, with one commit on main that has the tag v4.1.0."""
    author = ["-c", "user.name=Test", "-c", "user.email=test@example.com"]
    for argv in (
        ["init", "-q", "-b", "main"],
        ["add", "-A"],
        [*author, "commit", "-q", "-m", "all"],
        ["tag", "v4.1.0"],
    ):
        subprocess.run(["git", *argv], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture
def origins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where `west update` fetches from: this repository's files, and a Zephyr that has no module."""
    if shutil.which("git") is None:
        pytest.skip("needs git")
    origins = tmp_path / "origins"
    for name in ("tflm_zephyr", "boards", "templates", "scripts"):
        shutil.copytree(ROOT / name, origins / "us" / name, ignore=shutil.ignore_patterns("__pycache__"))
    manifest = (ROOT / "west.yml").read_text()
    assert ZEPHYRS in manifest
    (origins / "us" / "west.yml").write_text(manifest.replace(ZEPHYRS, origins.as_uri()))
    (origins / "zephyr").mkdir()
    (origins / "zephyr" / "west.yml").write_text("manifest:\n  projects: []\n")
    (origins / "zephyr" / "Kconfig.zephyr").touch()
    (origins / "zephyr" / "VERSION").write_text("VERSION_MAJOR = 4\nVERSION_MINOR = 1\nPATCHLEVEL = 0\n")
    repository(origins / "us")
    repository(origins / "zephyr")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return origins


ZEPHYRS = "https://github.com/zephyrproject-rtos"
LISTED = "      west-commands: scripts/west-commands.yml"
IMPORTED = "      import: true"


@pytest.mark.slow
@pytest.mark.parametrize("how", [LISTED, IMPORTED], ids=["listed", "imported"])
def test_west_update_brings_the_commands(origins: Path, tmp_path: Path, how: str) -> None:
    """A user's own manifest names the repository, or imports its manifest; `west update` clones it."""
    top = tmp_path / "top"
    (top / "app").mkdir(parents=True)
    shutil.copy(ROOT / "samples" / "digits" / "digits.tflite", top / "app")
    (top / "app" / "west.yml").write_text(
        f"manifest:\n  projects:\n    - name: tflm_zephyr\n      url: {origins.as_uri()}/us\n"
        f"      revision: main\n{how}\n  self:\n    path: app\n"
    )
    for argv in (["init", "-l", "app"], ["update"]):
        done = _west(top, *argv)
        assert done.returncode == 0, done.stdout + done.stderr
    assert (top / "zephyr").is_dir() is (how == IMPORTED)
    done = _west(top, "tflm", "--help")
    assert done.returncode == 0, done.stderr
    assert "usage: west tflm" in done.stdout and "generate" in done.stdout
    done = _west(top, "tflm", "generate", "app/digits.tflite", "-o", "digits", "--host-link")
    assert done.returncode == 0, done.stderr
    assert (top / "digits" / "tflm" / "app.yaml").is_file()

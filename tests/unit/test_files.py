# SPDX-License-Identifier: Apache-2.0
"""Files written whole or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT
from tflm_zephyr.errors import AppError
from tflm_zephyr.files import temporary_folder, write_atomically, write_new


def test_write_atomically_keeps_the_old_content_when_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(b"old")

    def fails(*args: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(OSError, match="Input/output"):
        write_atomically(path, b"new")
    assert [(entry.name, entry.read_bytes()) for entry in tmp_path.iterdir()] == [("x.txt", b"old")]


def test_write_new(tmp_path: Path) -> None:
    path = tmp_path / "a" / "w.yml"
    write_new(path, b"one")
    write_new(path, b"one")
    with pytest.raises(AppError, match="is there already and differs"):
        write_new(path, b"two")
    assert path.read_bytes() == b"one"
    write_new(path, b"two", force=True)
    assert path.read_bytes() == b"two"


def test_write_new_over_a_folder(tmp_path: Path) -> None:
    with pytest.raises(AppError, match="a folder stands where a file should be"):
        write_new(tmp_path, b"x")


# -- temporary folders: removed at their block's end, or by a later run when their process was killed --------------


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary ones."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def aged(folder: Path) -> None:
    """Make it look as if it had been made an hour ago."""
    then = time.time() - 3600
    os.utime(folder, (then, then))


def left_by_a_killed_process(folder: Path) -> Path:
    code = (
        "import os, signal\n"
        "from tflm_zephyr.files import temporary_folder\n"
        "with temporary_folder() as folder:\n"
        "    (folder / 'model.tflite').write_bytes(b'x')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    env = {**os.environ, "TMPDIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, check=False)
    assert done.returncode == -signal.SIGKILL
    (left,) = folder.iterdir()
    return left


def test_it_is_the_users_alone_and_goes(folder: Path) -> None:
    with temporary_folder() as made:
        assert made.parent == folder and made.stat().st_mode & 0o777 == 0o700
        (made / "file").write_text("")
    assert not list(folder.iterdir())


def test_what_a_killed_process_left_is_removed(folder: Path) -> None:
    left = left_by_a_killed_process(folder)
    with temporary_folder():
        assert left.exists()  # young: it might not have its lock yet
    aged(left)
    with temporary_folder() as made:
        assert not left.exists() and made.exists()


def test_a_folder_in_use_stays(folder: Path) -> None:
    with temporary_folder() as used:
        aged(used)
        with temporary_folder():
            assert used.is_dir()


def test_what_is_not_of_this_tool_stays(folder: Path) -> None:
    """A folder without a lock, and what a link points to."""
    own, elsewhere = folder / "tflm-zephyr-notes", folder / "elsewhere"
    for path in (own, elsewhere):
        path.mkdir()
    (elsewhere / ".tflm-zephyr.lock").write_text("")
    link = folder / "tflm-zephyr-link"
    link.symlink_to(elsewhere)
    for path in (own, elsewhere):
        aged(path)
    with temporary_folder():
        pass
    assert own.is_dir() and link.is_symlink() and (elsewhere / ".tflm-zephyr.lock").exists()

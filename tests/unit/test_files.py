# SPDX-License-Identifier: Apache-2.0
"""Files written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

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


# -- temporary folders; test_process has those of killed processes -------------------------------------------------


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary ones."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_is_the_users_alone_and_goes(folder: Path) -> None:
    with temporary_folder() as made:
        assert made.parent == folder and made.stat().st_mode & 0o777 == 0o700
        (made / "file").write_text("")
    assert not list(folder.iterdir())

# SPDX-License-Identifier: Apache-2.0
"""Compiled templates are kept where that is possible, and never change what a template gives."""

from __future__ import annotations

import os
from pathlib import Path

import jinja2
import pytest

from tflm_zephyr.codegen.compiled_templates import compiled_templates


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in the user's cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert compiled_templates({}) is not None
    found = tmp_path / "cache" / "tflm-zephyr" / "templates"
    assert found.stat().st_mode & 0o777 == 0o700
    return found


def rendered(source: str, **options: bool) -> str:
    env = jinja2.Environment(
        loader=jinja2.DictLoader({"a": source}), bytecode_cache=compiled_templates(options), **options
    )
    return env.get_template("a").render(x=1)


def test_a_template_is_compiled_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert rendered("{{ x }}") == "1"
    assert len(list(folder.iterdir())) == 1
    monkeypatch.setattr(jinja2.Environment, "compile", lambda *args, **kwargs: pytest.fail("compiled again"))
    assert rendered("{{ x }}") == "1"


def test_another_source_is_another_template(folder: Path) -> None:
    assert [rendered(source) for source in ("{{ x }}", "{{ x + 1 }}", "{{ x }}")] == ["1", "2", "1"]
    assert len(list(folder.iterdir())) == 1


def test_options_have_templates_of_their_own(folder: Path) -> None:
    source = "{% if x %}\n{{ x }}{% endif %}"
    assert [rendered(source), rendered(source, trim_blocks=True), rendered(source)] == ["\n1", "1", "\n1"]
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("damage", ["empty", "cut", "bit", "longer"])
def test_a_damaged_file_is_made_anew(folder: Path, damage: str) -> None:
    """A flipped bit in code would crash Python; so would a cut one."""
    rendered("{{ x }}")
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    for place in range(0, len(whole), 97):
        flipped = bytes((whole[place] ^ 1 << place % 8,))
        damaged = {"empty": b"", "cut": whole[:place], "bit": whole[:place] + flipped + whole[place + 1 :]}
        file.write_bytes(damaged.get(damage, whole + bytes(place + 1)))
        assert rendered("{{ x }}") == "1"
        assert file.read_bytes() == whole


def test_a_folder_that_is_gone_is_made_or_done_without(folder: Path) -> None:
    env = jinja2.Environment(loader=jinja2.DictLoader({"a": "{{ x }}"}), bytecode_cache=compiled_templates({}))
    folder.rmdir()
    folder.write_text("a file")
    assert env.get_template("a").render(x=1) == "1"


@pytest.mark.parametrize("given", ["", "relative/cache"])
def test_without_xdg_it_is_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    """The specification ignores a path that is not absolute."""
    monkeypatch.setenv("XDG_CACHE_HOME", given)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert rendered("{{ x }}") == "1"
    assert len(list((tmp_path / ".cache" / "tflm-zephyr" / "templates").iterdir())) == 1


def test_a_cache_folder_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    assert compiled_templates({}) is None
    assert rendered("{{ x }}") == "1"


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o701])
def test_what_lay_open_to_others_is_made_anew(folder: Path, mode: int) -> None:
    rendered("{{ x }}")
    (file,) = folder.iterdir()
    (folder / "theirs").write_bytes(file.read_bytes())
    folder.chmod(mode)
    assert compiled_templates({}) is not None
    assert not list(folder.iterdir()) and folder.stat().st_mode & 0o777 == 0o700


def test_a_link_in_the_folders_place_is_not_followed(folder: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o755)
    folder.rmdir()
    folder.symlink_to(theirs)
    assert compiled_templates({}) is None
    assert theirs.stat().st_mode & 0o777 == 0o755 and rendered("{{ x }}") == "1"


def test_a_link_in_a_files_place_is_not_followed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered("{{ x }}")
    (file,) = folder.iterdir()
    other = file.rename(folder / "elsewhere")
    file.symlink_to(other)
    compiled, compile_ = [], jinja2.Environment.compile
    monkeypatch.setattr(
        jinja2.Environment, "compile", lambda *args, **kwargs: compiled.append(1) or compile_(*args, **kwargs)
    )
    assert rendered("{{ x }}") == "1" and compiled


@pytest.mark.parametrize("what", ["folder", "file"])
def test_what_is_somebody_elses_is_not_trusted(folder: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    rendered("{{ x }}")
    compiled, compile_ = [], jinja2.Environment.compile
    monkeypatch.setattr(
        jinja2.Environment, "compile", lambda *args, **kwargs: compiled.append(1) or compile_(*args, **kwargs)
    )
    cache = compiled_templates({})
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    if what == "folder":
        assert compiled_templates({}) is None
    else:
        env = jinja2.Environment(loader=jinja2.DictLoader({"a": "{{ x }}"}), bytecode_cache=cache)
        assert env.get_template("a").render(x=1) == "1" and compiled

# SPDX-License-Identifier: Apache-2.0
"""Compiled templates are kept where that is possible, and never change what a template gives."""

from __future__ import annotations

import tempfile
from pathlib import Path

import jinja2
import pytest

from tflm_zephyr.codegen.compiled_templates import compiled_templates


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that Jinja makes for the user."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert compiled_templates({}) is not None
    (found,) = tmp_path.iterdir()
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


@pytest.mark.parametrize("data", [b"", b"j2", b"\x80\x04junk", "cut"])
def test_a_damaged_file_is_made_anew(folder: Path, data: bytes | str) -> None:
    rendered("{{ x }}")
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    for size in range(0, len(whole), 41) if data == "cut" else (0,):
        file.write_bytes(whole[:size] if isinstance(data, str) else whole[:12] + data)
        assert rendered("{{ x }}") == "1"
        assert file.read_bytes() == whole


def test_a_folder_that_is_gone_is_done_without(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = compiled_templates({})
    folder.rmdir()
    env = jinja2.Environment(loader=jinja2.DictLoader({"a": "{{ x }}"}), bytecode_cache=cache)
    assert env.get_template("a").render(x=1) == "1"


def test_a_temporary_folder_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    assert compiled_templates({}) is None
    assert rendered("{{ x }}") == "1"


def test_a_folder_of_somebody_elses_is_refused(folder: Path) -> None:
    folder.chmod(0o777)
    cache = compiled_templates({})
    assert cache is None or folder.stat().st_mode & 0o777 == 0o700

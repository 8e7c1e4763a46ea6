# SPDX-License-Identifier: Apache-2.0
"""docs/reference/ is what docs/write_reference.py writes."""

from __future__ import annotations

import importlib.util
import types
from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT

REFERENCE = ROOT / "docs" / "reference"


@pytest.fixture(scope="module")
def writer() -> types.ModuleType:
    """docs/write_reference.py as a module."""
    spec = importlib.util.spec_from_file_location("write_reference", ROOT / "docs" / "write_reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["commands.md", "files.md", "kconfig.md"])
def test_pages_are_up_to_date(writer: types.ModuleType, name: str) -> None:
    page = (REFERENCE / name).read_text(encoding="utf-8")
    assert page == writer.PAGES[name](), "run python docs/write_reference.py"


def test_cmakes_words_are_the_tables(writer: types.ModuleType) -> None:
    found = (ROOT / "cmake" / "tflm_model_words.cmake").read_text(encoding="utf-8")
    assert found == writer.cmake_words(), "run python docs/write_reference.py"
    assert "set(TFLM_WORDS_FILES PLAN_FILE LABELS)" in found and "DEBUG" not in found
    assert "FAST_KERNELS)\nset(TFLM_WORDS_SWITCHES_ON IN_PLACE)" in found


def test_no_page_is_left_over(writer: types.ModuleType) -> None:
    assert {path.name for path in REFERENCE.glob("*.md")} == set(writer.PAGES)


def test_each_command_and_option_is_listed(writer: types.ModuleType) -> None:
    page = writer.commands_page()
    assert "\n## generate\n" in page and "| `-o`, `--output` `APP` | the app's folder |" in page
    assert "`{packed,online,static}`" in page
    assert "tflm-zephyr plan [options] FILE [FILE ...]" in page


def test_values_are_in_words(writer: types.ModuleType) -> None:
    page = writer.files_page()
    assert "| `kernels` | `auto` or `reference` or `cmsis_nn` | `auto` |" in page
    assert (
        "| `arena` | whole number of 1 or more, or a size in bytes: write it as 4096, 4k or 4KiB; or `auto` | `auto` |"
        in page
    )
    assert "**models[].preallocated[]**" in page


def test_kconfig_defaults_of_choices(writer: types.ModuleType, tmp_path: Path) -> None:
    text = 'choice C\n\tdefault A\n\nconfig A\n\tbool "first"\n\n'
    text += 'config B\n\tbool "second"\n\thelp\n\t  More.\n\nendchoice\n'
    (tmp_path / "Kconfig").write_text(text)
    rows = writer._options(tmp_path / "Kconfig")[2:]
    assert rows == ["| `CONFIG_A` | bool | `y` | first. |", "| `CONFIG_B` | bool | `n` | second. More. |"]

# SPDX-License-Identifier: Apache-2.0
"""The commands of README.md, docs/ and the samples' pages run as they stand, and print what the pages show."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.doc_blocks import (
    NEEDS,
    PAGES,
    SHELLS,
    Block,
    blocks_of,
    copy_checkout,
    difference,
    run_blocks,
    runnable,
)
from tflm_zephyr.build.toolchain import detect_toolchain

IDS = {page: page.relative_to(ROOT).as_posix() for page in PAGES}


def pages_with(need: str = "") -> list[Path]:
    """Pages with commands that a machine with `need` can run, and one without cannot."""
    has = {need} - {""}
    return [
        page for page in PAGES if any(block.language in SHELLS and block.needs == has for block in runnable(page, has))
    ]


@pytest.mark.slow
@pytest.mark.parametrize("page", pages_with(), ids=IDS.get)
def test_commands_run_on_the_host(page: Path, tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro")
    pytest.importorskip("ai_edge_litert")
    assert run_blocks(runnable(page), copy_checkout(tmp_path)) > 0


@pytest.mark.zephyr
@pytest.mark.usefixtures("workspace")
@pytest.mark.parametrize("page", pages_with("zephyr"), ids=IDS.get)
def test_commands_run_on_zephyr(page: Path, tmp_path: Path) -> None:
    """Sizes and ticks are other ones with other compilers and revisions: numbers are not compared.

    A plain `west build` gets the compiler that `tflm-zephyr build` finds, as `doctor` advises.
    """
    toolchain = detect_toolchain()
    config = tmp_path / "westconfig"
    arguments = " ".join([*toolchain.cmake_args, f"-DTFLM_ZEPHYR_PYTHON={sys.executable}"])
    config.write_text(f"[build]\ncmake-args = {arguments}\n")
    environ = {**toolchain.env, "WEST_CONFIG_GLOBAL": str(config)}
    blocks = runnable(page, {"zephyr"})
    assert run_blocks(blocks, copy_checkout(tmp_path), numbers=False, environ=environ) > 0


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="needs the extra `train`")
@pytest.mark.parametrize("page", pages_with("tensorflow"), ids=IDS.get)
def test_commands_run_with_tensorflow(page: Path, tmp_path: Path) -> None:
    """Trained weights differ from machine to machine: numbers are not compared."""
    assert run_blocks(runnable(page, {"tensorflow"}), copy_checkout(tmp_path), numbers=False) > 0


@pytest.mark.parametrize("page", PAGES, ids=IDS.get)
def test_needs_are_known_words(page: Path) -> None:
    for block in blocks_of(page):
        assert block.needs <= NEEDS.keys(), f"{block.where} needs {', '.join(sorted(block.needs - NEEDS.keys()))}"
        assert block.notes.keys() <= {"needs", "before", "exit", "first", "tests"}, block.where


@pytest.mark.parametrize("page", PAGES, ids=IDS.get)
def test_all_commands_stand_in_blocks_that_run(page: Path) -> None:
    """No command hides in an indented block or in one of another language, where no test would run it."""
    text = page.read_text(encoding="utf-8")
    for block in blocks_of(page):
        assert block.language not in ("bash", "shell"), f"{block.where}: write sh or console"
        if block.language in SHELLS:
            assert block.steps
            text = text.replace(block.text, "")
    hidden = re.findall(r"^(?:[ \t]+|\$ +)((?:\$ )?(?:tflm-zephyr|west|pip|python|cp) .*)$", text, re.M)
    assert not hidden, f"{IDS[page]}: fence it as sh or console: {hidden[0]}"


def test_pages_with_commands_are_found() -> None:
    assert {"README.md", "docs/tutorial.md", "docs/arena.md"} <= {IDS[page] for page in pages_with()}
    assert {"docs/module.md", "docs/tutorial.md"} <= {IDS[page] for page in pages_with("zephyr")}
    assert "docs/tutorial.md" in {IDS[page] for page in pages_with("tensorflow")}


def write_page(folder: Path, text: str) -> list[Block]:
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    return runnable(page)


def test_a_page_runs_in_its_order(tmp_path: Path) -> None:
    text = '```text title="a/b.txt"\none\n```\n\n<!-- before: cp a/b.txt c -->\n```console\n$ cat \\\n  c\none\n```\n'
    assert run_blocks(write_page(tmp_path, text), tmp_path) == 2


def test_wrong_output_fails(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"page.md:1: echo two\nthe page shows:  one"):
        run_blocks(write_page(tmp_path, "```console\n$ echo two\none\n```\n"), tmp_path)


def test_wrong_exit_codes_fail(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="exit code 1: false"):
        run_blocks(write_page(tmp_path, "```sh\nfalse\n```\n"), tmp_path)
    assert run_blocks(write_page(tmp_path, "<!-- exit: 1 -->\n```console\n$ true\n$ false\n```\n"), tmp_path) == 2
    with pytest.raises(AssertionError, match="exit code 0: true"):
        run_blocks(write_page(tmp_path, "<!-- exit: 1 -->\n```sh\ntrue\n```\n"), tmp_path)


def test_blocks_with_needs_are_left_out(tmp_path: Path) -> None:
    assert not write_page(tmp_path, "<!-- needs: board, network -->\n```sh\nfalse\n```\n")


@pytest.mark.parametrize(
    ("shown", "printed", "numbers", "same"),
    [
        ("a\n...\nd", "a\nb\nc\nd", True, True),
        ("a\n...\nd", "a\nb\nc", True, False),
        ("a\nc", "a\nb\nc", True, False),
        ("a", "a\nb", True, False),
        ("...", "a\nb", True, True),
        ("took ... s (x)", "took 1.5 s (x)", True, True),
        ("7 of 9", "8 of 9", True, False),
        ("7 of 9", "118 of 9.5", False, True),
        ("model b7ad2082", "model 1a2b3c4d", False, True),
        ("7 of 9", "8 in 9", False, False),
        ("FLASH   64506 of", "FLASH  164506 of", False, True),
    ],
)
def test_output_is_compared(shown: str, printed: str, numbers: bool, same: bool) -> None:
    assert (difference(shown.splitlines(), printed.splitlines(), numbers=numbers) == "") is same

# SPDX-License-Identifier: Apache-2.0
"""The documents: CI runs the README's own commands, command lines parse, links lead somewhere."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT
from tflm_zephyr.cli import main

README = ROOT / "README.md"
DOCUMENTS = [
    README,
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "samples").glob("*/README.md")),
]
IDS = [str(path.relative_to(ROOT)) for path in DOCUMENTS]


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def marked_command(mark: str) -> str:
    """The content of the first fenced block after the comment."""
    found = re.search(rf"^<!-- {mark} -->\n```sh\n(.*?)^```$", text_of(README), re.M | re.S)
    assert found, f"README.md has no command marked {mark}"
    return found[1].strip()


@pytest.mark.parametrize("mark", ["first", "tests"])
def test_ci_runs_the_readmes_own_command(mark: str) -> None:
    script = text_of(ROOT / ".ci" / "run")
    function = re.search(r"^readme_command\(\) \{\n.*?^\}$", script, re.M | re.S)
    assert function
    done = subprocess.run(
        ["bash", "-c", f"{function[0]}\nreadme_command {mark}"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == marked_command(mark)
    assert re.search(rf"^(\w+=\S+ )*readme_run {mark}$", script, re.M)


def test_the_first_command_does_all_set_up_and_the_main_job() -> None:
    command = marked_command("first")
    assert "-m venv" in command and "pip install" in command and "'.[host,test]'" in command
    assert "--target host --data samples/digits/test.npz" in command


def test_the_test_command_runs_all_tests() -> None:
    assert "pytest" in marked_command("tests") and " -k" not in marked_command("tests")


def command_lines(path: Path) -> list[str]:
    """Every `tflm-zephyr` command in code, in blocks or in line, continued lines joined."""
    text = text_of(path).replace("\\\n", " ")
    code = [*re.findall(r"^(?:    |\t)(.*)$", text, re.M), *re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text)]
    for block in re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S):
        code += block.splitlines()
    found = []
    for line in code:
        for part in re.split(r"&&|\|\||;|\|", line):
            part = part.strip().removeprefix("$ ")
            if re.match(r"(tflm-zephyr|west tflm) \S", part):
                found.append(re.sub(r"\s+[#>].*", "", part))
    return found


@pytest.mark.parametrize("path", DOCUMENTS, ids=IDS)
def test_command_lines_parse(path: Path) -> None:
    parser = main.build_parser("tflm-zephyr")
    (commands,) = (action.choices for action in parser._actions if isinstance(action.choices, dict))
    for line in command_lines(path):
        argv = shlex.split(re.split(r" >>? ", line.replace("west tflm", "tflm-zephyr"))[0])[1:]
        if argv[0].startswith("-") or len(argv) == 1:  # an option, or a command's bare name
            assert argv[0] in ("--version", "--help") or argv[0] in commands, line
            continue
        try:
            parser.parse_args(argv)
        except SystemExit:
            raise AssertionError(f"{path.name}: `{line}` is no command line") from None


def test_command_lines_are_found() -> None:
    found = command_lines(README)
    assert any(line.startswith("tflm-zephyr generate --app samples/digits/app.yaml") for line in found)
    assert any(line.startswith("tflm-zephyr run build/digits") for line in found)
    assert len(found) > 6


@pytest.mark.parametrize("path", DOCUMENTS, ids=IDS)
def test_relative_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", text_of(path)):
        if re.match(r"[a-z]+:", target):
            continue
        place = target.partition("#")[0]
        assert not place or (path.parent / place).exists(), f"{path.name} links to {target}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=IDS)
def test_files_that_are_named_exist(path: Path) -> None:
    text = re.sub(r"https?://\S+", "", text_of(path))
    for name in re.findall(r"\b((?:samples|docs|boards|templates|tests)/[\w./-]*\.\w+)\b", text):
        assert (ROOT / name).exists(), f"{path.name} names {name}"


def test_the_table_of_boards_is_what_boards_lists() -> None:
    from tflm_zephyr.boards.board import known_boards

    page = text_of(ROOT / "docs" / "boards.md")
    assert set(re.findall(r"^\| `([^`]+)` \|", page, re.M)) == set(known_boards())

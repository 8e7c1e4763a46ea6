# SPDX-License-Identifier: Apache-2.0
"""The rules of CONTRIBUTING.md's "Words" that a program can check, and the form of tests."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.helpers.checkout import ROOT
from tests.helpers.source_trees import nodes_of

LONGEST_TEST_NAME = 59
SOURCES = sorted(
    path for folder in ("tflm_zephyr", "benchmarks", "docs", "samples") for path in (ROOT / folder).rglob("*.py")
)
TESTS = sorted((ROOT / "tests").rglob("test_*.py"))
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted(
        path for folder in ("benchmarks", "docs", "samples", "templates") for path in (ROOT / folder).rglob("*.md*")
    ),
]
RIDDLES = re.compile(r"\b(mend(s|ed|ing)?|told)\b", re.IGNORECASE)


def docstrings(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Each docstring with the line of what it describes."""
    for node in nodes:
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield getattr(node, "lineno", 1), ast.get_docstring(node) or ""


def strings(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Each string literal, docstrings and the literal parts of f-strings included."""
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def found(path: Path, line: int, text: str) -> str:
    """A finding as `file:line: first line of the text`."""
    return f"{path.relative_to(ROOT)}:{line}: {text.strip().splitlines()[0]}"


def test_docstrings_name_the_thing_or_the_result() -> None:
    riddles = [
        found(path, line, text)
        for path in [*SOURCES, *TESTS]
        for line, text in docstrings(nodes_of(path))
        if re.match(r"(What|Of|Whose|Those)\b", text)
    ]
    assert not riddles, "name the thing, or say what the function returns:\n" + "\n".join(riddles)


def test_strings_have_plain_words() -> None:
    riddles = [
        found(path, line, text) for path in SOURCES for line, text in strings(nodes_of(path)) if RIDDLES.search(text)
    ]
    assert not riddles, "write reported, fix:\n" + "\n".join(riddles)


def test_documents_have_plain_words() -> None:
    riddles = [
        found(path, number, line)
        for path in DOCUMENTS
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if RIDDLES.search(re.sub(r'"\w+"', "", line))  # a word in quotes is spoken of, not used
    ]
    assert not riddles, "write reported, fix:\n" + "\n".join(riddles)


def test_names_of_tests_are_short() -> None:
    long = [
        found(path, node.lineno, node.name)
        for path in TESTS
        for node in nodes_of(path)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and len(node.name) > LONGEST_TEST_NAME
    ]
    assert not long, f"more than {LONGEST_TEST_NAME} characters:\n" + "\n".join(long)


def test_names_of_tests_have_plain_words() -> None:
    riddles = [
        found(path, node.lineno, node.name)
        for path in TESTS
        for node in nodes_of(path)
        if isinstance(node, ast.FunctionDef) and RIDDLES.search(node.name.replace("_", " "))
    ]
    assert not riddles, "write reported, fix:\n" + "\n".join(riddles)


def test_helpers_live_outside_test_files() -> None:
    """No file imports from a test file: shared helpers are in tests/helpers, tests/fakes or a conftest."""
    imports = [
        found(path, number, line)
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.match(r"\s*from tests\..*\btest_\w+ import", line)
    ]
    assert not imports, "move what is shared to tests/helpers:\n" + "\n".join(imports)


def test_riddles_are_found() -> None:
    nodes = list(ast.walk(ast.parse('"""What it is."""\nx = f"{y}: Mend it"\n')))
    assert [text for _, text in docstrings(nodes)] == ["What it is."]
    assert [line for line, text in strings(nodes) if RIDDLES.search(text)] == [2]
    assert not RIDDLES.search("recommended, amended, untold")

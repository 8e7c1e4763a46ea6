# SPDX-License-Identifier: Apache-2.0
"""docs/troubleshooting.md: each message that it quotes is one that the toolkit prints."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.source_trees import nodes_of

PAGE = ROOT / "docs" / "troubleshooting.md"
GAP = "\0"
SHORTEST = 10  # letters of a message's fixed part, so that none is found by chance


@cache
def messages() -> tuple[str, ...]:
    """Texts in the sources, with GAP for each value that is filled in."""
    found = [text for path in sorted((ROOT / "tflm_zephyr").rglob("*.py")) for text in python_texts(path)]
    for folder in ("cmake", "templates"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".cmake", ".j2", ".jinja"):
                text = re.sub(r'"\s*\n\s*"', "", path.read_text(encoding="utf-8"))
                found.append(re.sub(r"\$\{[^}]*\}|\{\{.*?\}\}", GAP, text))
    return tuple(found)


def python_texts(path: Path) -> Iterator[str]:
    """The string literals of a module; an f-string is one."""
    for node in nodes_of(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else GAP for part in node.values)


def quoted() -> list[str]:
    """The messages in the page's headings, without those of other tools."""
    text = PAGE.read_text(encoding="utf-8").partition("\n## Messages of other tools")[0]
    return re.findall(r"^### `(.*)`$", text, re.M)


def is_printed(message: str) -> bool:
    """Whether a text of the sources has the message's fixed parts, in their order; case of the first letter aside."""
    parts = [part.strip() for part in message.split("…") if part.strip()]
    pattern = re.compile(".*?".join(map(re.escape, parts)), re.S | re.I)
    return any(pattern.search(text) for text in messages())


@pytest.mark.parametrize("message", quoted())
def test_messages_are_in_the_sources(message: str) -> None:
    assert len(message.replace("…", "").strip()) >= SHORTEST, "too short to be told from others"
    assert is_printed(message), "no source has this text"


def test_headings_are_messages() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(quoted()) > 40
    assert not re.findall(r"^### (?!`).*$", text, re.M)
    assert len(set(quoted())) == len(quoted())


def test_changed_messages_are_noticed() -> None:
    assert is_printed("model … has changed since the app was generated")
    assert not is_printed("model … has been changed since the app was generated")
    assert not is_printed("has changed since the app was generated model …")

# SPDX-License-Identifier: Apache-2.0
"""Licences: every file of the repository names its own in a comment, or REUSE.toml does where it cannot carry one."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.checkout import ROOT

IDENTIFIER = re.compile(r"SPDX-License-Identifier: [A-Za-z0-9.-]+")
HEAD_LINES = 5  # the first, or below a shebang or the first statements of a template


def names_its_licence(path: Path) -> bool:
    with path.open("rb") as file:
        head = b"".join(file.readline(500) for _ in range(HEAD_LINES))
    return bool(IDENTIFIER.search(head.decode("utf-8", "replace")))


def matcher(pattern: str) -> re.Pattern[str]:
    """A path of REUSE.toml as an expression: `*` stays in its folder, `**` goes into all below it (REUSE 3.3)."""
    parts = re.split(r"(\*\*|\*)", pattern)
    return re.compile("".join({"**": ".*", "*": "[^/]*"}.get(part, re.escape(part)) for part in parts))


def annotated(annotations: Iterable[Any]) -> dict[str, re.Pattern[str]]:
    return {path: matcher(path) for annotation in annotations for path in annotation["path"]}


@pytest.fixture(scope="module")
def files() -> list[str]:
    """The repository's files; links and what is deleted in the working tree are left out."""
    if not (ROOT / ".git").exists():
        pytest.skip("no git checkout")
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def patterns() -> dict[str, re.Pattern[str]]:
    tomllib = pytest.importorskip("tomllib", reason="Python 3.11 or newer reads REUSE.toml")
    return annotated(tomllib.loads((ROOT / "REUSE.toml").read_text(encoding="utf-8"))["annotations"])


def test_every_file_has_a_licence(files: list[str], patterns: dict[str, re.Pattern[str]]) -> None:
    bare = [
        name
        for name in files
        if not names_its_licence(ROOT / name) and not any(pattern.fullmatch(name) for pattern in patterns.values())
    ]
    assert not bare, "give these a line `SPDX-License-Identifier: Apache-2.0`, or REUSE.toml a path: " + ", ".join(bare)


def test_reuse_toml_lists_what_exists(files: list[str], patterns: dict[str, re.Pattern[str]]) -> None:
    stale = [path for path, pattern in patterns.items() if not any(map(pattern.fullmatch, files))]
    assert not stale, "no file has these paths of REUSE.toml: " + ", ".join(stale)


def test_a_file_without_a_licence_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text('"""Text."""\n')
    assert not names_its_licence(path)
    path.write_text("#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n")
    assert names_its_licence(path)
    path.write_text("\n" * HEAD_LINES + "# SPDX-License-Identifier: Apache-2.0\n")  # text of a test, not the file's own
    assert not names_its_licence(path)


def test_paths_match_as_reuse_has_them() -> None:
    assert matcher("**/*.json").fullmatch("a/b/c.json")
    assert not matcher("*.json").fullmatch("a/c.json")
    assert not matcher("**/*.json").fullmatch("a/c.json5")

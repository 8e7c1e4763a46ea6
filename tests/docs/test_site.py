# SPDX-License-Identifier: Apache-2.0
"""The site: mkdocs.yml names every page, links lead from page to page, and it builds strictly."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
import yaml

from tests.helpers.checkout import ROOT

DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def hooks() -> types.ModuleType:
    """docs/site_hooks.py as a module."""
    pytest.importorskip("mkdocs")
    spec = importlib.util.spec_from_file_location("site_hooks", DOCS / "site_hooks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def in_nav() -> set[str]:
    """The pages that mkdocs.yml names, by their path in the site's sources."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    return set(re.findall(r"[\w/-]+\.md", str(yaml.safe_load(text)["nav"])))


def test_each_page_is_in_the_navigation() -> None:
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    pages |= {"changelog.md", "contributing.md"}
    pages |= {f"samples/{path.parent.name}.md" for path in (ROOT / "samples").glob("*/README.md")}
    assert in_nav() == pages, "name new pages under nav: in mkdocs.yml"


@pytest.mark.parametrize(
    ("here", "uri", "given", "wanted"),
    [
        ("docs/a.md", "a.md", "[x](arena.md#head)", "[x](arena.md#head)"),
        ("docs/how-to/a.md", "how-to/a.md", "[x](../arena.md)", "[x](../arena.md)"),
        ("docs/a.md", "a.md", "[x](../samples/digits/README.md#use-it)", "[x](samples/digits.md#use-it)"),
        ("samples/two_buffers/README.md", "samples/two_buffers.md", "[x](../digits)", "[x](digits.md)"),
        ("samples/digits/README.md", "samples/digits.md", "[x](../../README.md#start)", "[x](../index.md)"),
        ("CHANGELOG.md", "changelog.md", "[x](docs/arena.md)", "[x](arena.md)"),
        ("docs/a.md", "a.md", "the [manifest](../west.yml) has", "the manifest has"),
        ("docs/a.md", "a.md", "[x](https://example.com/b)", "[x](https://example.com/b)"),
        ("docs/a.md", "a.md", "[x](#here)", "[x](#here)"),
        ("docs/a.md", "a.md", "```c\na[i](../b.c)\n```\n", "```c\na[i](../b.c)\n```\n"),
    ],
)
def test_links_lead_to_pages(hooks: types.ModuleType, here: str, uri: str, given: str, wanted: str) -> None:
    assert hooks.relinked(given, here, uri) == wanted


@pytest.mark.slow
def test_the_site_builds_strictly(tmp_path: Path) -> None:
    pytest.importorskip("material")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    first = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert "measured and verified Zephyr firmware out" in first
    sample = (tmp_path / "site" / "samples" / "digits" / "index.html").read_text(encoding="utf-8")
    assert "<title>digits: a handwritten digit in" in sample  # from the heading, below the licence
    foreign = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(https?://[^"]+)"', first)
    assert not foreign, "a page loads nothing from elsewhere"

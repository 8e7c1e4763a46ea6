# SPDX-License-Identifier: Apache-2.0
"""Hooks of mkdocs: pages that lie outside docs/ join the site, and links between files of the repository lead to pages.

The same file reads well in the repository and on the site: its links are relative paths to files of the repository. A
link to a file that is no page of the site keeps its text only.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]\n]+)\]\((?P<target>[^)\s]+)\)")
_LICENCE = re.compile(r"\A<!-- SPDX-License-Identifier: [^\n]* -->\n")  # before the heading that gives a page its title
_FENCED = re.compile(r"^(```+).*?^\1$", re.M | re.S)


def outside_pages() -> dict[str, str]:
    """Pages outside docs/: the path in the repository -> the path in the site's sources."""
    found = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
    for path in sorted((ROOT / "samples").glob("*/README.md")):
        found[path.relative_to(ROOT).as_posix()] = f"samples/{path.parent.name}.md"
    return found


def site_path(path: str) -> str | None:
    """The path in the site's sources of a file of the repository; None for a file that the site lacks."""
    if path in ("README.md", "README"):
        return "index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    pages = outside_pages()
    return pages.get(path) or pages.get(f"{path.rstrip('/')}/README.md")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that lie outside docs/."""
    for source, name in outside_pages().items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The page's text with links for the site."""
    names = {name: source for source, name in outside_pages().items()}
    here = names.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    return relinked(_LICENCE.sub("", markdown), here, page.file.src_uri)


def relinked(markdown: str, here: str, uri: str) -> str:
    """`markdown` of the repository's file `here` with its relative links leading from the page `uri`."""

    def link(match: re.Match[str]) -> str:
        target, mark, anchor = match["target"].partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(here), target))
        place = site_path(path)
        if place is None:
            return match["text"]
        # README.md's sections are not those of the first page.
        anchor = "" if place == "index.md" else f"{mark}{anchor}"
        return f"[{match['text']}]({posixpath.relpath(place, posixpath.dirname(uri) or '.')}{anchor})"

    parts, at = [], 0
    for fence in _FENCED.finditer(markdown):
        parts += [_LINK.sub(link, markdown[at : fence.start()]), fence[0]]
        at = fence.end()
    return "".join([*parts, _LINK.sub(link, markdown[at:])])

# SPDX-License-Identifier: Apache-2.0
"""The README's pictures are those that docs/draw_pictures.py draws."""

from __future__ import annotations

import re
from importlib.util import module_from_spec, spec_from_file_location

import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.command_line import Tool

PICTURES = ROOT / "docs" / "pictures"


def words(svg: str) -> list[str]:
    """The text of an SVG; rich's own elements differ from version to version."""
    return re.sub(r"<style>.*?</style>|<[^>]*>", " ", svg, flags=re.S).replace("&#160;", " ").split()


def test_the_drawings_are_up_to_date(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_from_file_location("draw_pictures", ROOT / "docs" / "draw_pictures.py")
    assert spec and spec.loader
    script = module_from_spec(spec)
    spec.loader.exec_module(script)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    drawn = script.drawings()
    kept = {name: (PICTURES / name).read_text(encoding="utf-8") for name in drawn}
    assert drawn["arena.svg"] == kept["arena.svg"], "run python docs/draw_pictures.py"
    assert words(drawn["terminal.svg"]) == words(kept["terminal.svg"]), "run python docs/draw_pictures.py"
    assert "http" not in kept["terminal.svg"].replace("http://www.w3.org/2000/svg", "")


def test_pages_show_them() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    shown = {name for page in pages for name in re.findall(r"pictures/([\w.]+)", page.read_text(encoding="utf-8"))}
    assert {path.name for path in PICTURES.iterdir()} == shown

# SPDX-License-Identifier: Apache-2.0
"""docs/rooms.svg shows the rooms and imports of today, as docs/draw_rooms.py draws them."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.rooms import MODULES, documented_rooms, imported, room_of

LONGEST_DESCRIPTION = 42
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = spec_from_file_location("draw_rooms", ROOT / "docs" / "draw_rooms.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def picture(script: ModuleType) -> str:
    drawn: str = script.picture()
    return drawn


def test_the_picture_is_up_to_date(picture: str) -> None:
    drawn = (ROOT / "docs" / "rooms.svg").read_text(encoding="utf-8")
    assert drawn == picture, "imports or the table of rooms changed: run python docs/draw_rooms.py"


def test_it_draws_the_imports_that_are_checked(script: ModuleType) -> None:
    pairs = {(room_of(name), room_of(other)) for name in MODULES for other in imported(name)}
    assert script.imports() == {(here, there) for here, there in pairs if here not in ("root", there)}


def test_it_shows_every_room_and_import(script: ModuleType, picture: str) -> None:
    tree = ElementTree.fromstring(picture)
    names = [text.text for text in tree.iter(f"{SVG}text") if text.get("class") == "name"]
    dots = list(tree.iter(f"{SVG}circle"))
    assert names == documented_rooms()
    assert len(dots) == len(script.imports()) + 1  # and the legend's


def test_descriptions_fit_the_picture(script: ModuleType) -> None:
    described: Mapping[str, str] = script.rooms()
    too_long = {name: text for name, text in described.items() if len(text) > LONGEST_DESCRIPTION}
    assert not too_long, "the table's text up to the first colon is too long for docs/rooms.svg"

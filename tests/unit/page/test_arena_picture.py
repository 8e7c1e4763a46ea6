# SPDX-License-Identifier: Apache-2.0
"""The arena before and after, as pictures."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from PIL import Image

from tests.helpers.command_line import Tool
from tests.helpers.hostile_model import hostile
from tests.helpers.model_builder import chain

SVG = "{http://www.w3.org/2000/svg}"
ASKED = ("plan", "net.tflite", "--kernels", "reference")


def test_two_panels_before_and_after(tool: Tool) -> None:
    Path("net.tflite").write_bytes(chain(3, 4096))
    assert tool(*ASKED, "--svg", "a.svg", "--png", "a.png").out.endswith("Written: a.svg\nWritten: a.png\n")
    tree = ElementTree.fromstring(Path("a.svg").read_text())
    texts = [text.text for text in tree.iter(f"{SVG}text")]
    assert (
        "TFLM’s greedy planner: 8.0 KiB" in texts and "This plan: 4.0 KiB" in texts and "4.0 KiB less, 50.0 %" in texts
    )
    boxes = [
        rect for rect in tree.iter(f"{SVG}rect") if rect.get("class") in ("input", "output", "intermediate", "odd")
    ]
    assert len(boxes) == 2 * 4 + 3  # of two panels, and of the legend
    assert sum(rect.get("class") == "shared" for rect in tree.iter(f"{SVG}rect")) == 3 + 1
    image = Image.open(io.BytesIO(Path("a.png").read_bytes()))
    assert image.size == (1920, 840) and (15, 157, 107) in {colour for _, colour in image.getcolors(1 << 20) or []}


def test_one_panel_where_nothing_is_gained(tool: Tool) -> None:
    Path("net.tflite").write_bytes(hostile())
    assert tool(*ASKED, "--no-in-place", "--svg", "a.svg").code == 0
    texts = [text.text or "" for text in ElementTree.fromstring(Path("a.svg").read_text()).iter(f"{SVG}text")]
    assert any(text.startswith("This plan: ") for text in texts) and not any("greedy" in text for text in texts)


def test_a_picture_is_not_replaced_silently(tool: Tool) -> None:
    Path("net.tflite").write_bytes(chain())
    Path("a.svg").write_text("mine")
    assert "is there already and differs" in tool(*ASKED, "--svg", "a.svg").one_line()
    assert tool(*ASKED, "--svg", "a.svg", "--force").code == 0 and Path("a.svg.orig").read_text() == "mine"
    assert "replaces pictures, and none is drawn" in tool(*ASKED, "--force").one_line()

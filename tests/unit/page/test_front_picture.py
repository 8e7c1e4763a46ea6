# SPDX-License-Identifier: Apache-2.0
"""Ways to run a model, as a picture."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.helpers.architectures import mobilenet
from tests.helpers.command_line import Tool
from tflm_zephyr.page import front_picture, png, svg

SVG = "{http://www.w3.org/2000/svg}"


def way(size: int, slower: float, rows: bool) -> dict[str, Any]:
    return {"arena_bytes": size, "slower": slower, "segments": [{}] * rows}


def front(*ways: tuple[int, float, bool], streamed: tuple[tuple[int, float, bool], ...] = ()) -> dict[str, Any]:
    return {
        "model": "a<b>.tflite",
        "kernels": "cmsis_nn kernels on cortex-m3",
        "ways": [way(*one) for one in ways],
        "streamed": {"ways": [way(*one) for one in streamed], "why": ""},
    }


def circles(text: str) -> list[tuple[str, float, float]]:
    """Look and centre of the dots, without those of the legend."""
    tree = ElementTree.fromstring(text)
    found = [(c.get("class", ""), float(c.get("cx", 0)), float(c.get("cy", 0))) for c in tree.iter(f"{SVG}circle")]
    return [dot for dot in found if dot[2] < 400]


def texts(text: str) -> list[str]:
    return [item.text or "" for item in ElementTree.fromstring(text).iter(f"{SVG}text")]


def test_a_dot_for_each_way_by_ram_and_work() -> None:
    drawn = svg(front_picture(front((1000, 0.06, True), (2000, 0.02, True), (4000, 0.0, False))))
    (one, x1, y1), (two, x2, y2), (whole, x3, y3) = circles(drawn)
    assert one == two != whole
    assert x1 < x2 < x3 and y1 < y2 < y3
    assert abs((x3 - x2) - 2 * (x2 - x1)) < 0.1 and abs((y2 - y1) - 2 * (y3 - y2)) < 0.1
    assert {"1,000 B, 6.0 %", "2,000 B, 2.0 %", "4,000 B, 0.00 %"} <= set(texts(drawn))


def test_the_default_limit_is_drawn_where_a_way_exceeds_it() -> None:
    limit = "3 %: the limit of --rows unless --slower names another"
    assert limit in texts(svg(front_picture(front((1000, 0.06, True), (4000, 0.0, False)))))
    assert limit not in texts(svg(front_picture(front((1000, 0.01, True), (4000, 0.0, False)))))


def test_labels_do_not_lie_on_each_other() -> None:
    ways = [(10_000 + 10 * k, 0.01 - 0.0001 * k, True) for k in range(50)]
    labels = [text for text in texts(svg(front_picture(front(*ways)))) if " B, " in text]
    assert 2 <= len(labels) < 10


def test_no_label_lies_on_the_limit() -> None:
    for most in (0.1, 0.3, 0.5, 0.8):
        ways = front(
            (1000, most, True), *((1500 * k, 0.03 - 0.003 * k, True) for k in range(1, 9)), (16000, 0.0, False)
        )
        shapes = [shape for shape in front_picture(ways).shapes if shape.y < 400]
        (limit,) = {shape.y for shape in shapes if shape.look == "peak"}
        labels = [shape for shape in shapes if " B, " in shape.text]
        assert any(abs(label.y - limit) < 20 for label in labels)
        assert all(limit <= label.y - 10 or limit >= label.y + 3 for label in labels)


def test_streamed_ways_have_their_own_look() -> None:
    streamed = ((500, 0.08, True), (400, 0.12, True))
    drawn = svg(front_picture(front((1000, 0.06, True), (4000, 0.0, False), streamed=streamed)))
    looks = [look for look, *_ in circles(drawn)]
    assert len(set(looks)) == 3
    assert {"streamed input", "500 B, 8.0 %"} <= set(texts(drawn))
    assert "streamed input" not in texts(svg(front_picture(front((4000, 0.0, False)))))


def test_a_single_way() -> None:
    drawn = svg(front_picture(front((4176, 0.0, False))))
    assert len(circles(drawn)) == 1
    assert "layers row by row" not in texts(drawn)


def test_png_has_both_colours() -> None:
    image = Image.open(io.BytesIO(png(front_picture(front((1000, 0.06, True), (4000, 0.0, False))))))
    colours = {colour for _, colour in image.getcolors(1 << 20) or []}
    assert image.size == (1920, 920) and {(15, 157, 107), (111, 143, 224)} <= colours


@pytest.mark.parametrize("flag", ["--svg", "--png"])
def test_another_suffix_is_refused(flag: str, tool: Tool) -> None:
    Path("net.tflite").write_bytes(mobilenet(24, 0.25, colours=1))
    error = tool("plan", "net.tflite", "--kernels", "cmsis_nn", flag, "f.txt").one_line()
    assert f"f.txt: {flag} writes {flag[2:].upper()} files" in error
    assert not Path("f.txt").exists()


def test_plan_writes_it(tool: Tool) -> None:
    Path("net.tflite").write_bytes(mobilenet(24, 0.25, colours=1))
    asked = ("plan", "net.tflite", "--rows", "--kernels", "cmsis_nn", "--core", "cortex-m3")
    assert tool(*asked, "--svg", "f.svg", "--png", "f.png").out.endswith("Written: f.svg\nWritten: f.png\n")
    assert "Ways to run net.tflite" in texts(Path("f.svg").read_text())
    assert "replaces pictures, and none is drawn" in tool(*asked, "--force").one_line()

# SPDX-License-Identifier: Apache-2.0
"""The page as a pure function of documents, without a browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.command_line import Tool
from tests.helpers.hostile_model import TEXTS, hostile
from tests.helpers.model_builder import chain
from tests.helpers.result_documents import results
from tflm_zephyr.documents import checked, load_documents
from tflm_zephyr.page import page

LIMIT_BYTES = 1_000_000


class Elements(HTMLParser):
    """All start tags with their attributes, and the text of style and script elements by name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[tuple[dict[str, str | None], str]] = []
        self._in: dict[str, str | None] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._in = {"tag": tag, **dict(attrs)} if tag in ("script", "style") else None

    def handle_data(self, data: str) -> None:
        if self._in is not None:
            self.raw.append((self._in, data))
            self._in = None


def documents(tool: Tool, model: bytes) -> list[Any]:
    Path("net.tflite").write_bytes(model)
    Path("d.json").write_text(tool("report", "net.tflite", "--json").out)
    return list(load_documents(Path("d.json")))


def test_the_same_documents_give_the_same_bytes(tool: Tool) -> None:
    found = documents(tool, chain(3, 4096))
    assert tool("report", "net.tflite", "-o", "one.html").code == 0
    assert tool("report", "d.json", "-o", "two.html").code == 0
    assert Path("one.html").read_text() == Path("two.html").read_text() == page(found)


def test_documents_of_an_older_release(tool: Tool) -> None:
    """Ways without marks, plans without a backend, no costs of layers."""
    found = json.loads(json.dumps([one for one in documents(tool, chain(3, 4096)) if one["document"] != "layers"]))
    for document in found:
        document.pop("backend", None)
        for way in document.get("ways", ()):
            for key in ("taken", "recommended", "command"):
                del way[key]
    for document in found:
        checked(document, "old")
    text = page(found)
    assert "of an older release" in text and "No way fits" not in text


def test_the_policy_allows_its_own_style_and_script_alone(tool: Tool) -> None:
    parsed = Elements(page(documents(tool, chain())))
    (policy,) = (a["content"] for tag, a in parsed.found if a.get("http-equiv") == "Content-Security-Policy")
    assert policy and policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    for attributes, text in parsed.raw:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert attributes.get("type") == "application/json" or f"{attributes['tag']}-src 'sha256-{digest}'" in policy
    for tag, attributes in parsed.found:
        assert tag not in ("link", "iframe", "object", "embed", "base", "form") and "style" not in attributes
        assert not any(name.startswith("on") for name in attributes)
        assert "src" not in attributes or str(attributes["src"]).startswith("data:")


def test_foreign_text_makes_no_elements(tool: Tool) -> None:
    """The page of a model with hostile names has the same elements as one with plain names."""
    plain = page(documents(tool, hostile(plain=True)))
    shown = page(documents(tool, hostile()), TEXTS[1])
    drawing = re.compile(r'<svg class="drawing".*?</svg>')  # long names take flash, and axes other ticks
    others = [[tag for tag, _ in Elements(drawing.sub("", text)).found] for text in (shown, plain)]
    assert others[0] == others[1]
    assert {tag for text in drawing.findall(shown) for tag, _ in Elements(text).found} <= {
        "svg",
        "rect",
        "text",
        "circle",
    }
    (data,) = (text for attributes, text in Elements(shown).raw if attributes.get("type") == "application/json")
    names = {buffer[0] for placing in json.loads(data).values() for buffer in placing["buffers"]}
    assert TEXTS[1] in names and "<" not in data


def test_results_join_the_page(tool: Tool) -> None:
    found = documents(tool, chain(3, 4096))
    made = results(found[0]["sha256"])
    for document in made:
        Path(f"{document['document']}.json").write_text(json.dumps(document))
    names = [f"{document['document']}.json" for document in made]
    assert tool("report", "d.json", *names, "-o", "page.html").code == 0
    text = re.sub(r"\s+", " ", Path("page.html").read_text())
    assert (
        "300 ticks a run (median of 3) on mps2/an385 with CMSIS-NN kernels, 300.000 ms" in text and "+100.0 %" in text
    )
    assert "The first operator that differs is 1" in text and '<tr class="differs">' in text
    assert (
        "8 of 10 samples of <bdi>d.npz</bdi> are right: accuracy 80.00 %" in text and "data:image/png;base64," in text
    )
    assert re.findall(r'class="verdict ([a-z-]+)"', text)[:4] == ["yes", "no", "too-close-to-tell", "unknown"]
    assert "<polyline" in text and "taken for <strong><bdi>dog</bdi></strong>" in text
    assert "FLASH 1,200 of 4,096 bytes (29.3 %)" in text and "24 more" in text
    cells = re.findall(
        r'class="cell [a-z]+" width="100%" height="100%" data-part="([\w ]+)" data-detail="[^"]*" data-bytes="(\d+)"',
        text,
    )
    assert sum(int(size) for _, size in cells) == 1200 + 2000
    markdown = tool("report", "d.json", *names, "--markdown").out
    assert "- net **differs** from TFLM on the host." in markdown and "| **Accuracy** | 80.00 % |" in markdown


def test_the_page_of_person_detect_is_small(tool: Tool, shared: Path) -> None:
    assert tool("inspect", shared / "models" / "person_detect.tflite", "--html", "page.html").code == 0
    assert 20_000 < Path("page.html").stat().st_size < LIMIT_BYTES


def test_pages_are_replaced_and_other_files_are_not(tool: Tool) -> None:
    Path("net.tflite").write_bytes(chain())
    for _ in range(2):
        assert tool("report", "net.tflite", "-o", "page.html", "--title", "again").code == 0
    Path("mine.html").write_text("<p>mine</p>")
    assert "is there already and differs" in tool("report", "net.tflite", "-o", "mine.html").one_line()
    assert tool("report", "net.tflite", "-o", "mine.html", "--force").code == 0
    assert Path("mine.html.orig").read_text() == "<p>mine</p>"


@pytest.mark.parametrize("name", ["nowhere", "picture.png"])
def test_sources_of_another_kind(tool: Tool, name: str) -> None:
    Path("picture.png").write_bytes(b"")
    assert "Name an app's folder, a .tflite, or a .json" in tool("report", name).one_line()


@pytest.mark.parametrize("options", [(), ("--backend", "compiled"), ("--fast-kernels", "--rows")], ids=" ".join)
def test_layers_and_ways_have_the_same_cycles(options: tuple[str, ...], tool: Tool) -> None:
    """Two boards with different cores: both are the mean."""
    boards = ("-b", "mps2/an385", "-b", "mps2/an386")
    found = tool("report", ROOT / "samples" / "digits" / "digits.tflite", *boards, *options, "--json").json["documents"]
    layers, fit = (next(one for one in found if one["document"] == kind) for kind in ("layers", "fit"))
    (taken,) = (way for way in fit["ways"] if way["taken"])
    assert layers["cycles"] == taken["estimated_cycles"]
    assert 0.98 * layers["cycles"] < sum(one["cycles"] for one in layers["layers"]) <= layers["cycles"]

# SPDX-License-Identifier: Apache-2.0
"""Pages in a headless browser: they run without an error, add up, switch, and are accessible."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import browser
from tests.helpers.checkout import ROOT
from tests.helpers.command_line import Tool
from tests.helpers.hostile_model import TEXTS, hostile
from tests.helpers.model_builder import chain
from tests.helpers.result_documents import results
from tflm_zephyr.documents import load_documents

pytest.importorskip("playwright", reason="no playwright or axe: pip install '.[browser]'")
pytest.importorskip("axe_playwright_python", reason="no playwright or axe: pip install '.[browser]'")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(browser.program() is None, reason="no Chromium: apt install chromium-headless-shell"),
    pytest.mark.usefixtures("fixed_reference"),
]

RECTANGLES = """(model) => [...document.querySelectorAll(`#arena-${model} .placing`)].map((group) => ({
  names: group.dataset.names.split(" "), head: Number(group.dataset.head),
  boxes: [...group.querySelectorAll(".b")].map((r) => ["i", "x", "y", "width", "height"].map(
    (key) => Number(key === "i" ? r.dataset.i : r.getAttribute(key)))),
  shared: [...group.querySelectorAll(".shared")].map((r) => Number(r.getAttribute("height"))),
}))"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser.browser() as found:
        yield found


def reported(tool: Tool, *sources: object) -> tuple[Path, list[Any]]:
    """The page of `sources` and the documents that it is made of."""
    printed = tool("report", *sources, "-o", "page.html", "--json")
    assert printed.code == 0, printed.err
    Path("documents.json").write_text(printed.out)
    return Path("page.html").resolve(), load_documents(Path("documents.json"))


def check_map(opened: browser.Opened, model: str, plan: Any) -> None:
    """The map's rectangles are the buffers of the app's own plans, and its highest byte is the head."""
    drawn = opened.run(RECTANGLES, model)
    named = {name for group in drawn for name in group["names"]}
    assert named == ({"compiled"} if plan["backend"] == "compiled" else {"greedy", "in_place", "packed", "shipped"})
    top = max(placing["head_bytes"] for placing in plan["placings"] if placing["name"] in named)
    for group in drawn:
        for placing in (one for one in plan["placings"] if one["name"] in group["names"]):
            buffers = placing["buffers"]
            want = [
                [i, max(0, b["lower"]), top - b["offset"] - b["size"], b["upper"] - max(0, b["lower"]), b["size"]]
                for i, b in enumerate(buffers)
            ]
            assert group["boxes"] == want
            assert group["head"] == placing["head_bytes"] == max(top - box[2] for box in group["boxes"])
            assert group["shared"] == [pair["bytes"] for pair in placing["in_place"]]


def check_page(chromium: Any, path: Path, plans: list[Any]) -> browser.Opened:
    opened = browser.Opened(chromium, path)
    for number, plan in enumerate(plans):
        check_map(opened, f"m{number}", plan)
    assert opened.run("document.documentElement.scrollWidth") <= 1200
    assert opened.faults() == []
    phone = browser.Opened(chromium, path, width=390, scheme="dark")
    assert phone.run("document.documentElement.scrollWidth") <= 390
    assert phone.faults() == []
    assert opened.said == phone.said == [] and opened.requests == phone.requests == [path.as_uri()]
    return opened


def of(kind: str, documents: list[Any]) -> list[Any]:
    return [document for document in documents if document["document"] == kind]


def test_an_app(tool: Tool, chromium: Any) -> None:
    assert tool("generate", "--app", ROOT / "samples" / "digits" / "app.yaml", "-o", "digits").code == 0
    path, documents = reported(tool, "digits")
    opened = check_page(chromium, path, of("plan", documents))
    assert opened.page.title() == "digits – tflm-zephyr report"
    rows = of("inspect", documents)[0]["operators"]
    convolutions = sum("CONV_2D" in row["name"] for row in rows)
    opened.page.fill(".filter input", "conv 2d")
    assert opened.page.inner_text(".count") == f"{convolutions} of {len(rows)}"
    shown = "[...document.querySelectorAll('.operators tbody tr')].filter((row) => !row.hidden).length"
    assert opened.run(shown) == convolutions < len(rows)


def test_a_compiled_app(tool: Tool, chromium: Any) -> None:
    """One arena, its kernels with their cycles, and the ways with a command to copy, as in the documents."""
    model = ROOT / "samples" / "digits" / "digits.tflite"
    assert tool("generate", model, "-o", "digits", "-b", "mps2/an386", "--backend", "compiled").code == 0
    path, documents = reported(tool, "digits")
    opened = check_page(chromium, path, of("plan", documents))
    (app,), (layers,), (fit,) = (of(kind, documents) for kind in ("app", "layers", "fit"))
    arena = app["models"][0]["arena"]["bytes"]
    assert opened.run("Number(document.querySelector('.placing').dataset.head)") == arena
    assert opened.run("document.querySelectorAll('.tail').length") == 0
    shown = opened.run("[...document.querySelectorAll('.operators tbody tr')].map((row) => row.innerText)")
    for text, layer in zip(shown, layers["layers"], strict=True):
        assert layer["kernel"] in text and (not layer["cycles"] or f"{layer['cycles']:,}" in text)
    rows = opened.run("[...document.querySelectorAll('.ways tbody tr')].map((row) => row.innerText)")
    for text, way in zip(rows, fit["ways"], strict=True):
        assert all(f"{way[key]:,}" in text for key in ("ram_bytes", "flash_bytes", "estimated_cycles"))
        assert (way["recommended"], way["taken"]) == ("recommended" in text, "taken" in text)
    (best,), (own,) = ([way for way in fit["ways"] if way[mark]] for mark in ("recommended", "taken"))
    assert own["ram_bytes"] == arena and best is not own
    opened.page.click(".copy")
    assert opened.run("getSelection().toString()") == best["command"]
    assert tool(*best["command"].split()[1:]).code == 0
    (again,) = of("fit", reported(tool, "digits")[1])
    assert [way["recommended"] for way in again["ways"] if way["taken"]] == [True]


def test_results_of_a_device(tool: Tool, chromium: Any) -> None:
    """A profile, a verification, an evaluation and a footprint with an arena, beside the app and alone."""
    Path("net.tflite").write_bytes(chain(3, 512))
    sha256 = hashlib.sha256(Path("net.tflite").read_bytes()).hexdigest()
    names = []
    for document in results(sha256):
        names.append(f"{document['document']}.json")
        Path(names[-1]).write_text(json.dumps(document))
    path, documents = reported(tool, "net.tflite", *names)
    opened = check_page(chromium, path, of("plan", documents))
    opened.page.hover(".treemap [data-part=arena]")
    assert "arena: models::net::g_arena, 230 bytes of 230" in opened.page.inner_text("body")
    check_page(chromium, reported(tool, "footprint.json")[0], [])


def test_two_models_in_one_app(tool: Tool, chromium: Any) -> None:
    for name, size in (("one", 4096), ("two", 512)):
        Path(f"{name}.tflite").write_bytes(chain(3, size))
    assert tool("generate", "one.tflite", "two.tflite", "-o", "app", "--board", "mps2/an385").code == 0
    path, documents = reported(tool, "app")
    opened = check_page(chromium, path, of("plan", documents))
    assert opened.page.inner_text("#arena-m1-title") == "Arena: two"


def test_switching_and_pointing(tool: Tool, chromium: Any) -> None:
    Path("net.tflite").write_bytes(chain(6, 8192))
    path, documents = reported(tool, "net.tflite")
    (plan,) = of("plan", documents)
    opened = check_page(chromium, path, [plan])
    page = opened.page
    visible = "() => [...document.querySelectorAll('.placing')].filter((g) => getComputedStyle(g).display !== 'none')"
    assert opened.run(f"{visible[6:]}.map((g) => g.dataset.names.includes('shipped'))".replace("() => ", "")) == [True]
    page.locator(".choice input").first.check()
    shown = opened.run(f"{visible[6:]}.map((g) => g.dataset.names.split(' ')[0])".replace("() => ", ""))
    assert shown == ["greedy"]
    last = plan["placings"][0]["buffers"][-1]
    page.locator(".placing[data-names~=greedy] .b").last.hover()
    said = page.inner_text(".details")
    assert f"{last['size']:,} bytes" in said and "int8 1×8192" in said
    page.locator(".choice input").last.check()
    page.focus(".pan")
    page.keyboard.press("ArrowRight")
    assert page.inner_text(".details").startswith("input\n")
    page.keyboard.press("ArrowRight")
    assert "in place: over input" in page.inner_text(".details")


def test_two_thousand_operators(tool: Tool, chromium: Any) -> None:
    Path("big.tflite").write_bytes(chain(2000, 256))
    path, documents = reported(tool, "big.tflite")
    opened = browser.Opened(chromium, path)
    check_map(opened, "m0", of("plan", documents)[0])
    assert opened.run("document.querySelectorAll('.operators tbody tr').length") == 2000
    visible = "[...document.querySelectorAll('.operators tbody tr')].filter((row) => row.offsetParent).length"
    assert opened.run(visible) == 30
    opened.page.click(".graph .all")
    assert opened.run(visible) == 2000
    opened.page.focus(".pan")
    opened.page.keyboard.press("End")
    assert "2,000" in opened.page.inner_text(".graph .lead")
    assert opened.run("document.querySelector('.pan').scrollLeft") > 8000
    assert "step 2000 (operator 1999 RELU)" in opened.page.inner_text(".details")
    assert opened.said == []


def test_foreign_text_is_text(tool: Tool, chromium: Any) -> None:
    Path("net.tflite").write_bytes(hostile())
    path, documents = reported(tool, "net.tflite", "--title", TEXTS[0])
    opened = check_page(chromium, path, of("plan", documents))
    page = opened.page
    assert opened.run("window.hit === undefined") is True
    assert page.inner_text("h1") == TEXTS[0]
    page.focus(".pan")
    seen = []
    for _ in TEXTS:
        page.keyboard.press("ArrowRight")
        seen.append(page.inner_text(".details .who"))
    assert any("</script><script>window.hit=1</script>" in text for text in seen)
    assert any("\\u202e" in text for text in seen) and not any("\u202e" in text for text in seen)
    assert any("(10,000 characters)" in text for text in seen)


def test_the_policy_holds(tool: Tool, chromium: Any) -> None:
    Path("net.tflite").write_bytes(chain())
    path, _ = reported(tool, "net.tflite")
    opened = browser.Opened(chromium, path)
    opened.run(
        "document.body.insertAdjacentHTML('beforeend', '<img src=https://example.org/x><p onclick=x() style=top:0>')"
    )
    opened.run("document.body.append(Object.assign(document.createElement('script'), {text: 'window.hit = 1'}))")
    opened.page.wait_for_timeout(200)
    assert opened.run("window.hit === undefined") is True
    refused = json.dumps(opened.said)
    assert "img-src" in refused and "script-src" in refused and "style-src" in refused

# SPDX-License-Identifier: Apache-2.0
"""Differences between reports, as documents, text and Markdown."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.command_line import Tool
from tests.helpers.model_builder import chain
from tflm_zephyr.page import summary
from tflm_zephyr.page.markdown import escaped


def test_two_models(tool: Tool) -> None:
    Path("a.tflite").write_bytes(chain(3, 4096))
    Path("b.tflite").write_bytes(chain(5, 8192))
    found = tool("report", "--compare", "a.tflite", "b.tflite", "--json").json
    assert found["names"] == ["a", "b"]
    by_name = {(change["topic"], change["what"]): change for change in found["changes"]}
    whole = [change["what"] for change in found["changes"]][:2]
    assert whole == ["whole arena", "flash of the models (estimated)"]
    head = by_name["arena", "head as TFLM places it"]
    assert (head["values"], head["change"], head["ratio"], head["unit"]) == ([8192, 16384], 8192, 1.0, "bytes")
    assert by_name["operators", "RELU"]["values"] == [3, 5]
    arena = [abs(change["change"]) for change in found["changes"] if change["topic"] == "arena"]
    assert arena == sorted(arena, reverse=True)
    said = tool("report", "--compare", "a.tflite", "b.tflite").out
    assert "\n  head as TFLM places it: 8,192 -> 16,384 bytes (+8,192, +100.0 %)\n" in said
    shown = tool("report", "--compare", "a.tflite", "b.tflite", "--markdown").out
    assert (
        shown.startswith("## b\n") and "| head as TFLM places it | 8,192 | 16,384 | +8,192 bytes (+100.0 %) |" in shown
    )


def test_the_same_twice(tool: Tool) -> None:
    for name in ("a", "b"):
        Path(name).mkdir()
        Path(name, "net.tflite").write_bytes(chain())
    assert tool("report", "--compare", "a/net.tflite", "b/net.tflite").out == (
        "Nothing differs between a/net.tflite and b/net.tflite.\n"
    )
    assert "compares two sources at least" in tool("report", "--compare", "a/net.tflite").one_line()


def test_markdown_shows_foreign_text_as_it_is() -> None:
    assert escaped("a|b_c*<img>") == r"a\|b\_c\*\<img\>"
    assert summary([], "x\ny [l](http://e)") == "## x\\\\ny \\[l\\]\\(http\\://e\\)\n"

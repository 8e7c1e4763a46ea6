# SPDX-License-Identifier: Apache-2.0
"""Sizes and refusals out of what an app says, and a line for everything that may come instead."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.fakes.records import BANNER, as_bytes, begin, self_test, with_end
from tests.fakes.scripted_link import ScriptedLink
from tflm_zephyr.device.console.arena_search import measure_arenas, self_test_endings
from tflm_zephyr.errors import DeviceError

MEASURED = "TFLM:measured model={} result=ok arena=1104 allocates=1088 floor=640 head=32 tail=740 odd=0 tries=31"


def said(link: ScriptedLink, listen: Callable[[ScriptedLink], object]) -> str:
    """The one line of a DeviceError; the link is closed."""
    with pytest.raises(DeviceError) as caught:
        listen(link)
    assert not link.is_open
    text = str(caught.value)
    assert "\n" not in text and text.startswith("script: ")
    return text


def test_each_model_has_its_size_and_its_self_test() -> None:
    lines = [BANNER, *self_test(), *self_test(model="cosine"), MEASURED.format("sine"), MEASURED.format("cosine")]
    data = as_bytes(lines)
    link = ScriptedLink(data[:200], data[200:])
    sine, cosine = measure_arenas(link, ["sine", "cosine"], timeout_s=1)
    assert not link.is_open
    assert (sine.model, cosine.model) == ("sine", "cosine")
    assert (sine.arena_bytes, sine.allocates_bytes, sine.floor_bytes) == (1104, 1088, 640)
    assert (sine.head_bytes, sine.tail_bytes, sine.odd, sine.tries) == (32, 740, 0, 31)
    assert cosine.result.status == "pass"


@pytest.mark.parametrize(
    ("line", "tells"),
    [
        ("TFLM:measured model=sine result=no-room room=4096", "sine does not run in 4096 bytes of arena"),
        (
            MEASURED.format("sine").replace("=ok", "=unstable"),
            "sine ran in 1104 bytes of arena once, and then not again",
        ),
        (MEASURED.format("sine").replace("floor=640", ""), "no floor= in "),
        (MEASURED.format("cosine"), "no self-test of cosine before its size"),
        ("TFLM:error code=3 at=fault", "a fatal error: kernel oops"),
        ("*** HARD FAULT ***", "the app crashed"),
    ],
)
def test_what_comes_instead_of_a_size(line: str, tells: str) -> None:
    link = ScriptedLink(as_bytes([*self_test(), line]))
    assert tells in said(link, lambda link: measure_arenas(link, ["sine"], timeout_s=0.3))


def test_a_device_that_says_nothing_or_ends() -> None:
    assert "nothing received within 0.1 s" in said(
        ScriptedLink(), lambda link: measure_arenas(link, ["sine"], timeout_s=0.1)
    )
    ended = said(
        ScriptedLink(as_bytes(self_test()), end="gone"), lambda link: measure_arenas(link, ["sine"], timeout_s=1)
    )
    assert "gone, before the app was done" in ended


def refused(model: str, code: int) -> list[str]:
    return with_end([begin(model), f"TFLM:error code={code} at=init"], "fail")


def test_every_model_says_how_it_ended() -> None:
    link = ScriptedLink(as_bytes([*refused("sine", 4), *self_test(model="cosine"), *refused("tangent", 3)]))
    sine, cosine, tangent = self_test_endings(link, ["sine", "cosine", "tangent"], timeout_s=1)
    assert (sine.status, sine.code, sine.stage) == ("fail", 4, "init")
    assert sine.sentence.startswith("AllocateTensors failed") and sine.sentence.endswith("(code 4, at init)")
    assert (cosine.status, cosine.code, cosine.sentence) == ("pass", None, "")
    assert "null pointers" in tangent.sentence


@pytest.mark.parametrize(
    ("line", "tells"),
    [
        ("TFLM:error code=2 at=fault", "the app crashed: Zephyr's kernel met a fatal error: stack overflow"),
        ("TFLM:error code=8 at=abort", "the app crashed: TFLM aborted"),
        ("TFLM:error code=x at=init", "code= is no number"),
        ("TFLM:begin kernels", "not a field: 'kernels'"),
    ],
)
def test_a_crash_is_no_refusal(line: str, tells: str) -> None:
    assert tells in said(
        ScriptedLink(as_bytes([begin(), line])), lambda link: self_test_endings(link, ["sine"], timeout_s=0.3)
    )

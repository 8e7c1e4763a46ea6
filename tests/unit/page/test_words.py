# SPDX-License-Identifier: Apache-2.0
"""Numbers and foreign text on a page."""

from __future__ import annotations

import pytest

from tflm_zephyr.page import words


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0 B"), (1023, "1,023 B"), (55296, "54.0 KiB"), (-2048, "-2.0 KiB"), (4 << 20, "4.00 MiB")]
)
def test_sizes(value: int, shown: str) -> None:
    assert words.size(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(812, "812"), (9999, "9,999"), (156948, "157 k"), (7160196, "7.16 M"), (2.5e9, "2.5 G")]
)
def test_counts(value: int, shown: str) -> None:
    assert words.short(value) == shown


def test_differences() -> None:
    assert [words.signed(n) for n in (1200, -1200, 0, 0.5)] == ["+1,200", "−1,200", "±0", "+0.5"]
    assert words.share(1, 3) == "33.3 %" and words.share(1, 0) == ""


def test_foreign_text() -> None:
    assert words.seen("größe/Conv2D:0 <b>") == "größe/Conv2D:0 <b>"
    assert words.seen("a\u202eb\u2066c\x00\n\ud800") == "a\\u202eb\\u2066c\\x00\\n\\ud800"
    assert words.seen("x" * 10_000) == "x" * 160 + "… (10,000 characters)"


@pytest.mark.parametrize(
    ("tensor", "said"),
    [
        ({"type": "int8", "scales": [0.5], "zero_points": [-128]}, "real = 0.5 × (q + 128)"),
        ({"type": "int8", "scales": [0.5], "zero_points": [3]}, "real = 0.5 × (q − 3)"),
        ({"type": "int16", "scales": [0.25], "zero_points": [0]}, "real = 0.25 × q"),
        (
            {"type": "int8", "scales": [0.5, 2.0], "zero_points": [0, 0]},
            "2 scales, one for each channel, from 0.5 to 2",
        ),
        ({"type": "float32", "scales": [], "zero_points": []}, "real values"),
        ({"type": "int32", "scales": [], "zero_points": []}, "not quantised"),
    ],
)
def test_quantisation(tensor: dict[str, object], said: str) -> None:
    assert words.quantised(tensor) == said

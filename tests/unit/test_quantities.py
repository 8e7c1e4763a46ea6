# SPDX-License-Identifier: Apache-2.0
"""Bytes and percentages as people write them."""

from __future__ import annotations

import pytest

from tflm_zephyr.quantities import read_percent, read_size


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ("0x1000", 4096), ("4k", 4096), ("4K", 4096), ("4KiB", 4096), ("4 KB", 4096), ("1M", 1 << 20)],
)
def test_sizes(text: str, size: int) -> None:
    assert read_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "0k", "-1", "4.5k", "4g", "k", "16 bytes", "4kk", "²"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="write it as 4096, 4k or 4KiB"):
        read_size(text)


@pytest.mark.parametrize(("text", "share"), [("3", 3), ("3%", 3), ("0.5", 0.5), ("0.5 %", 0.5), (".5%", 0.5), ("0", 0)])
def test_percentages(text: str, share: float) -> None:
    assert read_percent(text) == share


def test_a_whole_percentage_is_written_as_one() -> None:
    assert str(read_percent("10.0%")) == "10"


@pytest.mark.parametrize("text", ["", "%", "-1", "1e3", "nan", "5%%", "five"])
def test_what_is_no_percentage(text: str) -> None:
    with pytest.raises(ValueError, match=r"write it as 3, 3% or 0\.5%"):
        read_percent(text)

# SPDX-License-Identifier: Apache-2.0
"""Bytes and percentages as people write them, on the command line and in app files: 20480, 20k, 20KiB; 5, 0.5%."""

from __future__ import annotations

import re

A_SIZE = "a size in bytes: write it as 4096, 4k or 4KiB"
A_PERCENTAGE = "a percentage: write it as 3, 3% or 0.5%"
MOST_PERCENT = 100_000.0
_DIGITS = 20  # Python refuses to read thousands of them
_SIZE = re.compile(r"(0[xX][0-9a-fA-F]+|\d+)(?: ?([kKmM])(?:i?[bB])?)?", re.ASCII)
_PERCENT = re.compile(r"(\d+(?:\.\d*)?|\.\d+) ?%?", re.ASCII)
_UNITS = {"": 1, "k": 1024, "m": 1024 * 1024}


def read_size(text: str) -> int:
    """Bytes of a text: 4096, 0x1000, 4k, 4KB and 4KiB are 4096, 1M is 1048576. ValueError for 0 and anything else."""
    found = _SIZE.fullmatch(text)
    digits = found[1][:_DIGITS] if found is not None else "0"
    value = int(digits, 16 if digits[:2] in ("0x", "0X") else 10)
    if found is None or value == 0:
        raise ValueError(A_SIZE)
    return value * _UNITS[(found[2] or "").lower()]


def read_percent(text: str) -> float:
    """The percentage in a text, with or without its sign: 3, 3%, 0.5 and 0.5%. ValueError for anything else.

    A whole number is an int, so that it is written as one.
    """
    found = _PERCENT.fullmatch(text)
    if found is None:
        raise ValueError(A_PERCENTAGE)
    value = float(found[1][:_DIGITS])
    return int(value) if value.is_integer() else value

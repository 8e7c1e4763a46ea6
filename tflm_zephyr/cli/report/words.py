# SPDX-License-Identifier: Apache-2.0
"""Numbers with their words."""

from __future__ import annotations

from collections.abc import Sequence

_SHOWN_VALUES = 16


def count(n: int, what: str) -> str:
    """`n` of something: "1 file", "2 files"."""
    return f"{n} {what}{'' if n == 1 else 's'}"


def first_values(values: Sequence[float]) -> str:
    """The first sixteen values, and the number of the others."""
    more = len(values) - _SHOWN_VALUES
    return " ".join(f"{value:.6g}" for value in values[:_SHOWN_VALUES]) + (f" ... and {more} more" if more > 0 else "")

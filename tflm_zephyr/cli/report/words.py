# SPDX-License-Identifier: Apache-2.0
"""Numbers with their words."""

from __future__ import annotations


def count(n: int, what: str) -> str:
    """`n` of something: "1 file", "2 files"."""
    return f"{n} {what}{'' if n == 1 else 's'}"

# SPDX-License-Identifier: Apache-2.0
"""Rounding up to an alignment."""

from __future__ import annotations


def align_up(size: int, alignment: int) -> int:
    """The smallest multiple of `alignment` that is not below `size`; both in the same unit, mostly bytes."""
    return -(-size // alignment) * alignment

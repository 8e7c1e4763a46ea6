# SPDX-License-Identifier: Apache-2.0
"""The result of `budget` as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tflm_zephyr.cli.report.words import count
from tflm_zephyr.validation import INSTRUCTIONS, Spending


def budget(found: Sequence[Spending]) -> str:
    """A line for each limit; that of an overrun says by how much."""
    over = sum(1 for item in found if item.over)
    lines = [_line(item) for item in found]
    verdict = f"{over} of {count(len(found), 'limit')} exceeded" if over else f"{count(len(found), 'limit')} kept"
    return "\n".join([*lines, f"Budget: {verdict}."])


def _line(item: Spending) -> str:
    unit = INSTRUCTIONS if item.what == INSTRUCTIONS else f"bytes of {item.what}"
    of = f"{item.board}: {item.used:,} of {item.limit:,} {unit}"
    return f"{of}, over budget by {item.over:,} ({100 * item.over / item.limit:.1f} %)" if item.over else of


def budget_json(found: Sequence[Spending]) -> dict[str, Any]:
    """The same; `over` is 0 where a limit is kept."""
    return {
        "kept": not any(item.over for item in found),
        "limits": [{**asdict(item), "over": item.over} for item in found],
    }

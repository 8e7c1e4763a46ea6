# SPDX-License-Identifier: Apache-2.0
"""The text of `report`: key figures, or what changed."""

from __future__ import annotations

from pathlib import Path

from tflm_zephyr.cli.report.words import count
from tflm_zephyr.documents import Document
from tflm_zephyr.page import Bundle, key_figures

_SHOWN_CHANGES = 40


def figures(found: Bundle, written: Path | None) -> str:
    """After `report`: the figures at the top of the page."""
    rows = key_figures(found)
    width = max((len(row["title"]) for row in rows), default=0)
    values = max((len(row["value"]) for row in rows), default=0)
    lines = [f"{found.title}: {count(len(list(found.all())), 'document')}"]
    lines += [
        f"  {row['title']:<{width}}  {row['value']:>{values}}  {row['note']}"
        + (" (estimated)" if row["source"] == "estimated" else "")
        for row in rows
    ]
    return "\n".join(lines + ([f"Written: {written}"] if written is not None else []))


def changes(found: Document, written: Path | None) -> str:
    """After `report --compare`: a line for each change, the largest of each topic first."""
    names = found["names"]
    if not found["changes"]:
        return f"Nothing differs between {' and '.join(names)}."
    lines = [" -> ".join(names)]
    topic = ""
    for change in found["changes"][:_SHOWN_CHANGES]:
        if change["topic"] != topic:
            topic = change["topic"]
            lines.append(f"{topic}:")
        lines.append(f"  {change['what']}: {' -> '.join(map(_value, change['values']))}{_difference(change)}")
    more = len(found["changes"]) - _SHOWN_CHANGES
    if more > 0:
        lines.append(f"{more} more, with --json")
    return "\n".join(lines + ([f"Written: {written}"] if written is not None else []))


def _value(value: float | str | None) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def _difference(change: Document) -> str:
    if change["change"] is None:
        return ""
    ratio = "" if change["ratio"] is None else f", {100 * change['ratio']:+.1f} %"
    shown = f"{change['change']:+,}" if isinstance(change["change"], int) else f"{change['change']:+,.4g}"
    return f" {change['unit']} ({shown}{ratio})"

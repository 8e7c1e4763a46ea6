# SPDX-License-Identifier: Apache-2.0
"""A summary in Markdown, for GitHub's $GITHUB_STEP_SUMMARY or a comment on a change."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tflm_zephyr.documents import Document
from tflm_zephyr.page import views, words
from tflm_zephyr.page.bundle import bundle

_MOST_CHANGES = 20


def summary(documents: Sequence[Document], title: str = "", comparison: Document | None = None) -> str:
    """The key figures as a table, boards that do not fit, failures; then what changed, where that is given."""
    found = bundle(documents, title)
    lines = [f"## {escaped(found.title)}", ""]
    figures = views.key_figures(found)
    if figures:
        lines += ["| | | | |", "|---|---:|---|---|"]
        lines += [
            f"| **{escaped(f['title'])}** | {escaped(f['value'])} | {escaped(f['note'])} | {f['source']} |"
            for f in figures
        ]
        lines.append("")
    for board in views.fits(found):
        if board["fits"] != "yes":
            said = {"no": "does **not** fit", "too close to tell": "may not fit: too close to tell"}.get(
                board["fits"], "is not fully known"
            )
            lines.append(f"- {escaped(board['board'])}: the app {said}.")
    for model in found.models:
        verdict = model.first("verify")
        if verdict is not None and not verdict["passed"]:
            lines.append(f"- {escaped(model.name)} **differs** from {escaped(verdict['reference'])}.")
    if comparison is not None:
        lines += ["", *_changes(comparison)]
    return "\n".join(lines).rstrip() + "\n"


def _changes(comparison: Document) -> list[str]:
    names = [escaped(name) for name in comparison["names"]]
    changes: list[Any] = comparison["changes"]
    if not changes:
        return [f"### Nothing changed against {names[0]}"]
    lines = [
        f"### Changes against {names[0]}",
        "",
        f"| | {' | '.join(names)} | change |",
        f"|---|{'---:|' * len(names)}---:|",
    ]
    for change in changes[:_MOST_CHANGES]:
        values = " | ".join(_value(value) for value in change["values"])
        lines.append(f"| {escaped(change['what'])} | {values} | {_difference(change)} |")
    if len(changes) > _MOST_CHANGES:
        lines += ["", f"and {len(changes) - _MOST_CHANGES} more."]
    return lines


def _value(value: float | str | None) -> str:
    if value is None:
        return "–"
    return escaped(value) if isinstance(value, str) else words.number(value)


def _difference(change: Any) -> str:
    if change["change"] is None:
        return ""
    ratio = "" if change["ratio"] is None else f" ({100 * change['ratio']:+.1f} %)".replace("-", "−")
    return f"{words.signed(change['change'])} {change['unit']}{ratio}"


def escaped(text: str) -> str:
    """Foreign text that Markdown shows as it is, in one line."""
    return re.sub(r"([\\`*_{}\[\]()<>#+!|~@&:])", r"\\\1", words.seen(text))

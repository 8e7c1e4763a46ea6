# SPDX-License-Identifier: Apache-2.0
"""The diagnosis of `doctor`, as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tflm_zephyr.cli.report.words import count

if TYPE_CHECKING:
    from tflm_zephyr.build import Finding

_MARK_WIDTH, _TOPIC_WIDTH = 9, 18


def diagnosis(findings: Sequence[Finding], board: str) -> str:
    """A line for each finding, its fix below it, and the verdict."""
    lines = []
    for finding in findings:
        lines.append(f"{finding.mark:<{_MARK_WIDTH}}{finding.topic:<{_TOPIC_WIDTH}} {finding.text}".rstrip())
        if finding.fix and finding.mark != "ok":
            lines.append(f"{'':<{_MARK_WIDTH + _TOPIC_WIDTH}} fix: {finding.fix}")
    missing = [finding.topic for finding in findings if finding.mark == "missing"]
    purpose = f"for {board}" if board else "for any board"
    if missing:
        lines.append(f"{count(len(missing), 'thing')} needed {purpose} missing: {', '.join(missing)}.")
    else:
        lines.append(f"Nothing needed {purpose} is missing.")
    return "\n".join(lines)


def diagnosis_json(findings: Sequence[Finding], board: str) -> dict[str, Any]:
    """The diagnosis as JSON. `ok`: all needed parts are installed. `board`: null without --board."""
    return {
        "board": board or None,
        "ok": all(finding.mark != "missing" for finding in findings),
        "findings": [asdict(finding) for finding in findings],
    }

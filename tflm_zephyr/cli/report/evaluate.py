# SPDX-License-Identifier: Apache-2.0
"""The result of an evaluation as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tflm_zephyr.cli.report.infer import effort, target_line, ticks_of, who
from tflm_zephyr.device.session import Hello
from tflm_zephyr.validation import Accuracy, Deviation
from tflm_zephyr.validation.evaluation import TickStatistics

_WIDEST_MATRIX = 20
_SHOWN_PAIRS = 10


def text(
    hello: Hello, data: Path, found: Accuracy | Deviation, ticks: TickStatistics | None, labels: Sequence[str]
) -> str:
    """Accuracy with its confusion matrix, or deviation; then the cost of a run."""
    lines = [target_line(hello)]
    if len(hello.outputs) > 1:
        lines.append(f"  note: only output 0 of {len(hello.outputs)}, {hello.outputs[0].name}, is evaluated")
    if isinstance(found, Accuracy):
        lines.append(f"  {data.name}: {found.correct} of {found.count} right, accuracy {100 * found.accuracy:.2f} %")
        lines += _confusion(found.confusion, labels)
    else:
        lines.append(
            f"  {data.name}: {found.count} samples, mean absolute error {found.mean_absolute:.4g}, "
            f"largest {found.largest:.4g}"
        )
    if ticks is not None:
        lines.append(
            f"  a run takes {effort(hello, round(ticks.mean))} on average, "
            f"99 % of runs {effort(hello, ticks.p99)} at most"
        )
    return "\n".join(lines)


def _confusion(confusion: Sequence[Sequence[int]], labels: Sequence[str]) -> list[str]:
    names = list(labels) or [str(k) for k in range(len(confusion))]
    if len(confusion) <= _WIDEST_MATRIX:
        rows = [["", *names], *([names[i], *map(str, row)] for i, row in enumerate(confusion))]
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        table = ["    " + "  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in rows]
        return ["  rows: true class, columns: predicted class", *table]
    wrong = [(n, i, j) for i, row in enumerate(confusion) for j, n in enumerate(row) if n and i != j]
    wrong.sort(key=lambda entry: (-entry[0], entry[1:]))
    lines = [f"    {n} of {names[i]} predicted as {names[j]}" for n, i, j in wrong[:_SHOWN_PAIRS]]
    more = len(wrong) - _SHOWN_PAIRS
    return lines + ([f"    and {more} more pairs"] if more > 0 else [])


def plain(
    hello: Hello, data: Path, found: Accuracy | Deviation, ticks: TickStatistics | None, labels: Sequence[str]
) -> dict[str, Any]:
    """The same as JSON values; they do not depend on the number of sessions."""
    rate = {"accuracy": found.accuracy} if isinstance(found, Accuracy) else {}
    return {
        **who(hello),
        "data": data.name,
        "output": hello.outputs[0].name,
        **asdict(found),
        **rate,
        "labels": list(labels),
        "ticks": None if ticks is None else asdict(ticks),
        **ticks_of(hello),
    }

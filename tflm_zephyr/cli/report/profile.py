# SPDX-License-Identifier: Apache-2.0
"""A profile as a table, with the changes since an older one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tflm_zephyr.cli.report.infer import target_line
from tflm_zephyr.cli.report.words import count
from tflm_zephyr.device.session import Hello
from tflm_zephyr.validation import Cost, CostChange, MeasuredProfile, as_json

if TYPE_CHECKING:
    from tflm_zephyr.cli.report.terminal import Drawn


def text(hello: Hello, found: MeasuredProfile, changes: Sequence[CostChange]) -> str:
    """A line for each operator, then their sum."""
    counted = found.unit if found.unit == "instructions" else f"ticks at {found.hz:,} Hz"
    runs = f"{found.runs} run{'' if found.runs == 1 else 's'}"
    timed = found.unit == "ticks"
    head = ["", "operator", "min", "median", "max", "share", *(["median µs"] if timed else [])]
    rows = [head + (["change"] if changes else [])]
    for number, cost in enumerate((*found.operators, found.total)):
        last = number == len(found.operators)
        row = ["" if last else str(number), cost.name, *(f"{n:,}" for n in (cost.least, cost.median, cost.most))]
        row.append(_share(cost, found.total))
        if timed:
            row.append(f"{cost.median * 1e6 / found.hz:,.1f}")
        rows.append(row + ([_change(changes[number])] if changes else []))
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = [target_line(hello), f"  {counted}, {runs}"]
    for row in rows:
        cells = [
            cell.ljust(w) if k == 1 else cell.rjust(w) for k, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(f"  {'  '.join(cells)}".rstrip())
    return "\n".join(lines)


def on_terminal(hello: Hello, plain: Mapping[str, Any], after: Sequence[str]) -> Drawn:
    """The same with a bar for each operator; `plain` is the document, `after` are lines below the table."""
    from tflm_zephyr.cli.report import terminal

    unit = plain["unit"] if plain["unit"] == "instructions" else f"ticks at {plain['hz']:,} Hz"
    before = [target_line(hello), f"  {unit}, the median of {count(plain['runs'], 'run')}"]
    return terminal.profile(plain, before, after)


def _share(cost: Cost, total: Cost) -> str:
    return f"{100 * cost.median / total.median:.1f} %" if total.median else ""


def _change(change: CostChange) -> str:
    return f"{100 * change.ratio:+.1f} %{' SLOWER' if change.slower else ''}"


def verdict(changes: Sequence[CostChange], max_regression: float) -> str:
    """The operators that became slower than allowed, in one line."""
    slower = [change for change in changes if change.slower]
    if not slower:
        return f"Nothing is slower than the baseline by more than {100 * max_regression:g} %."
    names = ", ".join(
        f"{change.name if change.number is None else f'operator {change.number} ({change.name})'} by "
        f"{100 * change.ratio:.1f} %"
        for change in slower
    )
    return f"SLOWER than the baseline by more than {100 * max_regression:g} %: {names}."


def plain(found: MeasuredProfile, changes: Sequence[CostChange]) -> dict[str, Any]:
    """The profile, which can be a baseline, and the changes."""
    if not changes:
        return as_json(found)
    return {
        **as_json(found),
        "changes": [
            {"operator": c.number, "name": c.name, "before": c.before, "after": c.after, "slower": c.slower}
            for c in changes
        ],
    }

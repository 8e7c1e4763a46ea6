# SPDX-License-Identifier: Apache-2.0
"""Results on a terminal: tables with bars, and the arena's map, as wide as the terminal.

Drawn with rich, which knows the terminal's width and colours, and NO_COLOR. Elsewhere the plain text is printed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.bar import Bar
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from tflm_zephyr.page import ArenaStep, ArenaText

Drawn = RenderableType

_ACCENT, _GOOD, _BAD, _QUIET = "blue", "green", "red", "bright_black"
_LOOKS = {
    "input": "cyan", "output": "magenta", "intermediate": "blue", "odd": "bright_blue", "variable": "white",
    "scratch": "yellow", "shared": f"bold {_GOOD}", "free": _QUIET,
}  # fmt: skip


def plan(figures: Sequence[tuple[str, int, str]], before: Iterable[str], after: Iterable[str]) -> Drawn:
    """The sizes of the head as bars; `figures` are name, bytes and note, `before` and `after` lines of text."""
    most = max((size for name, size, _ in figures if name not in ("linear", "tail")), default=1) or 1
    table = _table("", ">", "bar", "")
    for name, size, note in figures:
        own = name == "this plan"
        colour = _GOOD if own else _QUIET if name in ("linear", "lower bound", "tail") else _ACCENT
        drawn = Bar(most, 0, min(size, most), color=colour) if name != "tail" else Text()
        table.add_row(Text(f"  {name}", "bold" if own else ""), Text(f"{size:,}"), drawn, Text(note, _QUIET))
    return Group(*map(_line, before), table, *map(_line, after))


def arena(drawn: ArenaText) -> Drawn:
    """The arena with buffers in the colours of their kinds, neighbours in two shades, and in-place pairs in green."""
    buffers = (Text(line, no_wrap=True, overflow="ellipsis") for line in drawn.buffers)
    return Group(*buffers, *map(_step, drawn.steps), Text(drawn.legend))


def _step(step: ArenaStep) -> Text:
    text = Text(step.label, _QUIET, no_wrap=True)
    for run in step.runs:
        look = "odd" if run.look == "intermediate" and ord(run.sign) % 2 else run.look
        text.append(run.sign * run.cells, _LOOKS[look])
    return text.append(step.total, _QUIET)


def fit(document: Mapping[str, Any], lines: Iterable[str]) -> Drawn:
    """A bar of flash and RAM for each board, then the remarks and remedies in `lines`."""
    table = _table("", "", "bar", ">", "")
    for board in document["boards"]:
        verdict = {"yes": _GOOD, "no": _BAD}.get(board["fits"], "yellow")
        for number, (name, key) in enumerate((("flash", "flash"), ("RAM", "ram"))):
            use = board[key]
            if use is None:
                continue
            there = max(1, use["available_bytes"])
            first = Text(board["board"] if number == 0 else "", "bold")
            size = f"{use['used_bytes'] / 1024:,.1f} of {there / 1024:,.1f} KiB"
            said = {"yes": "fits", "no": "does not fit", "too close to tell": "too close"}.get(
                board["fits"], "at least"
            )
            colour = _BAD if use["used_bytes"] > there else _ACCENT
            bar = Bar(there, 0, min(use["used_bytes"], there), color=colour)
            table.add_row(first, Text(name, _QUIET), bar, Text(size), Text(said if number == 0 else "", verdict))
    return Group(table, *map(_line, lines))


def profile(document: Mapping[str, Any], before: Iterable[str], after: Iterable[str]) -> Drawn:
    """A bar for each operator's median."""
    total = document["total"]["median"] or 1
    most = max((cost["median"] for cost in document["operators"]), default=1) or 1
    changes = {change["operator"]: change for change in document.get("changes", ())}
    table = _table(">", "", ">", "bar", ">", *([">"] if changes else []))
    for number, cost in [*enumerate(document["operators"]), (None, document["total"])]:
        last = number is None
        row: list[RenderableType] = [
            Text("" if last else str(number), _QUIET),
            Text(cost["name"], "bold" if last else ""),
            Text(f"{cost['median']:,}"),
            Text() if last else Bar(most, 0, cost["median"], color=_ACCENT),
            Text(f"{100 * cost['median'] / total:.1f} %"),
        ]
        if changes:
            change = changes.get(number)
            shown = f"{100 * (change['after'] / change['before'] - 1):+.1f} %" if change and change["before"] else ""
            row.append(Text(shown, _BAD if change and change["slower"] else ""))
        table.add_row(*row)
    return Group(*map(_line, before), table, *map(_line, after))


def footprint(document: Mapping[str, Any], after: Iterable[str]) -> Drawn:
    """A bar for each part's bytes in the largest region, the bytes of all regions beside it."""
    regions = [use for use in document["regions"] if use["used_bytes"]]
    table = _table("", "bar", *(">" for _ in regions))
    table.add_row(Text(), Text(), *(Text(use["name"], _QUIET) for use in regions))
    most = max((max(sums.values(), default=0) for sums in document["parts"].values()), default=1) or 1
    for part, sums in document["parts"].items():
        bar = Bar(most, 0, max(sums.values(), default=0), color=_ACCENT)
        table.add_row(Text(part), bar, *(Text(f"{sums[u['name']]:,}" if sums.get(u["name"]) else "-") for u in regions))
    table.add_row(Text("sum", "bold"), Text(), *(Text(f"{use['used_bytes']:,}", "bold") for use in regions))
    return Group(table, *map(_line, after))


def _table(*columns: str) -> Table:
    """A grid: "" for text, ">" for numbers, "bar" for what takes the rest of the width."""
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    for kind in columns:
        if kind == "bar":
            table.add_column(ratio=1, min_width=8)
        else:
            table.add_column(justify="right" if kind else "left", no_wrap=kind == ">", overflow="fold")
    return table


def _line(text: str) -> Text:
    """A line of plain text: warnings in yellow, notes quiet."""
    style = "yellow" if text.lstrip().startswith("warning:") else _QUIET if text.lstrip().startswith("note:") else ""
    return Text(text, style, overflow="fold")

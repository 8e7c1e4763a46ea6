# SPDX-License-Identifier: Apache-2.0
"""A plan's arena as text: a line a step, laid out as TFLM's GreedyMemoryPlanner::PrintMemoryPlan() prints it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from tflm_zephyr.documents import Document
from tflm_zephyr.page.arena_map import Placed, Rectangle, maps

_LEGEND = (
    "A line a step: * lives in that step alone, = is an output in place of its input, . is free; then the bytes alive."
)
_SIGNS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class Run:
    """Cells of a line with one sign; `look` is the buffer's kind, "shared" or "free"."""

    sign: str
    cells: int
    look: str


@dataclass(frozen=True)
class ArenaStep:
    """The arena at a step, from its start to its end, and the bytes alive, those of an in-place pair once."""

    number: int
    runs: tuple[Run, ...]
    alive_bytes: int

    @property
    def label(self) -> str:
        """The step's number before the runs."""
        return f"{self.number:4d}: "

    @property
    def total(self) -> str:
        """The bytes alive behind the runs, in KiB rounded up as TFLM prints them."""
        return f" ({(self.alive_bytes + 1023) // 1024}k)"


@dataclass(frozen=True)
class ArenaText:
    """A line for each buffer, the steps, and what their signs mean."""

    buffers: tuple[str, ...]
    steps: tuple[ArenaStep, ...]
    legend: str = _LEGEND

    def lines(self) -> list[str]:
        """All of it as plain text."""
        steps = (f"{s.label}{''.join(run.sign * run.cells for run in s.runs)}{s.total}" for s in self.steps)
        return [*self.buffers, *steps, self.legend]


def arena_text(plan: Document, width: int = 80) -> ArenaText:
    """The arena of a `plan` document as it ships, `width` cells wide; 80 are TFLM's."""
    shipped = next(one for one in maps(plan) if "shipped" in one.names)
    placing = next(placing for placing in plan["placings"] if placing["name"] == "shipped")
    buffers = tuple(
        f"{_sign(r)} (id={r.index}): size={r.height}, offset={r.y}, "
        f"first_used={r.x} last_used={r.x + r.width - 1}  {placing['buffers'][r.index]['id']}"
        for r in shipped.rectangles
    )
    return ArenaText(buffers, tuple(_steps(shipped, len(placing["steps"]), width)))


def _sign(r: Rectangle) -> str:
    return "*" if r.width == 1 else _SIGNS[r.index % len(_SIGNS)]


def _steps(one: Placed, steps: int, width: int) -> Iterator[ArenaStep]:
    scale = max(width, one.head_bytes)
    for number in range(steps):
        alive = [r for r in one.rectangles if r.x <= number < r.x + r.width]
        shared = [r for r in one.shared if r.x == number]
        cells = [(".", "free")] * width
        for r in (*alive, *shared):
            sign = "=" if r.kind == "shared" else _sign(r)
            first, end = r.y * width // scale, (r.y + r.height) * width // scale
            cells[first:end] = [(sign, r.kind)] * (end - first)
        runs = tuple(Run(sign, len(list(group)), look) for (sign, look), group in groupby(cells))
        yield ArenaStep(number, runs, sum(r.height for r in alive) - sum(r.height for r in shared))

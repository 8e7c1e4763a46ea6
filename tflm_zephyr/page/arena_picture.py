# SPDX-License-Identifier: Apache-2.0
"""A plan's arena before and after: TFLM's own placing beside the plan that ships."""

from __future__ import annotations

from collections.abc import Iterator

from tflm_zephyr.documents import Document
from tflm_zephyr.page import words
from tflm_zephyr.page.arena_map import TITLES, Placed, maps, ticks
from tflm_zephyr.page.drawing import Picture, Shape

_WIDTH, _HEIGHT = 960, 420
_TOP, _BOTTOM, _LEFT, _GAP = 92, 72, 64, 28  # around and between the panels


def arena_picture(plan: Document) -> Picture:
    """A panel for each of the two placings of a `plan` document, one where they are the same."""
    found = maps(plan)
    own = next(one for one in found if "shipped" in one.names)
    stock = next(one for one in found if "greedy" in one.names)
    panels = [own] if own is stock else [stock, own]
    top = max(one.head_bytes for one in panels) or 16
    steps = max(len(placing["steps"]) for placing in plan["placings"])
    width = (_WIDTH - _LEFT - 24 - _GAP * (len(panels) - 1)) / len(panels)
    title = f"Arena of {words.seen(plan['model'], 60)}"
    drawn = [Shape("paper", 0, 0, _WIDTH, _HEIGHT), Shape("title", _LEFT, 36, text=title)]
    for number, one in enumerate(panels):
        left = _LEFT + number * (width + _GAP)
        drawn += _panel(one, left, width, top, steps, with_names=number == 0)
        saved = stock.head_bytes - one.head_bytes
        name = TITLES["shipped"] if one is own else TITLES["greedy"]
        drawn.append(Shape("name", left, 68, text=f"{name}: {words.size(one.head_bytes)}"))
        if saved > 0:
            text = f"{words.size(saved)} less, {words.share(saved, stock.head_bytes)}"
            drawn.append(Shape("figure", left + width, 68, text=text, anchor="end"))
    drawn += _legend(panels)
    spoken = f"Arena of {words.seen(plan['model'], 60)}, before and after planning"
    return Picture(spoken, _WIDTH, _HEIGHT, drawn)


def _panel(one: Placed, left: float, width: float, top: int, steps: int, *, with_names: bool) -> Iterator[Shape]:
    height = _HEIGHT - _TOP - _BOTTOM
    across, up = width / steps, height / top
    floor = _TOP + height

    def place(x: int, y: int, wide: int, high: int) -> tuple[float, float, float, float]:
        return left + x * across, floor - (y + high) * up, wide * across, high * up

    yield Shape("panel", left, _TOP, width, height)
    for at in ticks(top):
        yield Shape("grid", left, floor - at * up, width, 1)
        if with_names:
            yield Shape("tick", left - 8, floor - at * up + 4, text=words.size(at), anchor="end")
    edge = 1 if across >= 4 else 0
    for r in one.rectangles:
        x, y, wide, high = place(r.x, r.y, r.width, r.height)
        look = "odd" if r.kind == "intermediate" and r.index % 2 else r.kind
        yield Shape(look, x, y, max(wide - edge, 0.3), max(high - edge, 0.3))
    for r in one.shared:
        x, y, wide, high = place(r.x, r.y, r.width, r.height)
        yield Shape("shared", x, y, max(wide - edge, 0.3), max(high - edge, 0.3))
    yield Shape("peak", left, floor - one.head_bytes * up - 1, width, 1.5)
    yield Shape("base", left, floor, width, 1)
    yield Shape("note", left, floor + 18, text=f"{steps - 1} steps of a run, one for each operator")


def _legend(panels: list[Placed]) -> Iterator[Shape]:
    kinds = list(dict.fromkeys(r.kind for one in panels for r in one.rectangles))
    names = {"scratch": "scratch buffer", "shared": "in place: output over input"}
    x = float(_LEFT)
    for kind in [*kinds, *(["shared"] if any(one.shared for one in panels) else [])]:
        yield Shape(kind, x, _HEIGHT - 27, 11, 11)
        text = names.get(kind, kind)
        yield Shape("note", x + 17, _HEIGHT - 17, text=text)
        x += 17 + 6.4 * len(text) + 26

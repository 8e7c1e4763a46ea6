# SPDX-License-Identifier: Apache-2.0
"""A plan's arena before and after, as SVG and PNG: TFLM's own placing beside the plan that ships.

Both are drawn from one list of shapes. The SVG follows the viewer's light or dark scheme; the PNG is light.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from xml.sax.saxutils import escape

from tflm_zephyr.documents import Document
from tflm_zephyr.page import words
from tflm_zephyr.page.arena_map import TITLES, Placed, maps, ticks

_WIDTH, _HEIGHT = 960, 420
_TOP, _BOTTOM, _LEFT, _GAP = 92, 72, 64, 28  # around and between the panels
_PNG_SCALE = 2
_FONT_SIZES = {"title": 19, "name": 14, "figure": 14, "tick": 11, "note": 12, "peak-name": 12}
_BOLD = ("title", "name")
_LIGHT = {
    "paper": "#ffffff", "panel": "#f5f6f8", "grid": "#dde1e6", "base": "#59626e", "edge": "#ffffff",
    "title": "#15191f", "name": "#15191f", "tick": "#59626e", "note": "#59626e", "figure": "#08704b",
    "input": "#0e8a9c", "output": "#7a4fc4", "intermediate": "#6f8fe0", "odd": "#93aceb", "variable": "#69737f",
    "scratch": "#d9993a", "shared": "#0f9d6b", "peak": "#b42318", "peak-name": "#b42318",
}  # fmt: skip
_DARK = {
    "paper": "#0f1216", "panel": "#171b21", "grid": "#2a313a", "base": "#a0a9b4", "edge": "#171b21",
    "title": "#e7eaee", "name": "#e7eaee", "tick": "#a0a9b4", "note": "#a0a9b4", "figure": "#4fd3a0",
    "input": "#2bb3c6", "output": "#a98bea", "intermediate": "#4f6dc0", "odd": "#6784d6", "variable": "#7e8894",
    "scratch": "#d9a04d", "shared": "#35d399", "peak": "#ff8d80", "peak-name": "#ff8d80",
}  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """A filled rectangle, or with `text` a line of text that starts, is centred or ends (`anchor`) at x, y."""

    look: str
    x: float
    y: float
    width: float = 0
    height: float = 0
    text: str = ""
    anchor: str = "start"


def shapes(plan: Document) -> list[Shape]:
    """The picture's shapes, the lowest first: a panel for each of the two placings, one where they are the same."""
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
    return drawn + list(_legend(panels))


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


def as_svg(plan: Document) -> str:
    """The picture as an SVG of its own."""
    title = f"Arena of {escape(words.seen(plan['model'], 60))}, before and after planning"
    style = "".join(
        f".{look}{{fill:{colour}" + (f";font:{_font(look)}" if look in _FONT_SIZES else "") + "}"
        for look, colour in _LIGHT.items()
    )
    dark = "".join(f".{look}{{fill:{colour}}}" for look, colour in _DARK.items())
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'role="img" aria-label="{title}">',
        f"<title>{title}</title>",
        f"<style>text{{font-variant-numeric:tabular-nums}}{style}@media (prefers-color-scheme:dark){{{dark}}}</style>",
        *map(_svg, shapes(plan)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _font(look: str) -> str:
    return f'{"600 " if look in _BOLD else ""}{_FONT_SIZES[look]}px system-ui,"Segoe UI","DejaVu Sans",sans-serif'


def _svg(shape: Shape) -> str:
    if shape.text:
        anchor = "" if shape.anchor == "start" else f' text-anchor="{shape.anchor}"'
        return f'<text class="{shape.look}" x="{shape.x:.1f}" y="{shape.y:.1f}"{anchor}>{escape(shape.text)}</text>'
    box = f'x="{shape.x:.2f}" y="{shape.y:.2f}" width="{shape.width:.2f}" height="{shape.height:.2f}"'
    return f'<rect class="{shape.look}" {box}/>'


def as_png(plan: Document) -> bytes:
    """The picture as a PNG of twice the size, with the font that Pillow brings."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (_WIDTH * _PNG_SCALE, _HEIGHT * _PNG_SCALE), _LIGHT["paper"])
    draw = ImageDraw.Draw(image)
    for shape in shapes(plan):
        x, y = shape.x * _PNG_SCALE, shape.y * _PNG_SCALE
        if shape.text:
            font = ImageFont.load_default(_FONT_SIZES[shape.look] * _PNG_SCALE)
            anchor = {"start": "ls", "middle": "ms", "end": "rs"}[shape.anchor]
            bold = 0.6 if shape.look in _BOLD else 0
            colour = _LIGHT[shape.look]
            draw.text((x, y), shape.text, colour, font, anchor=anchor, stroke_width=bold, stroke_fill=colour)
        elif shape.width and shape.height:
            right = max(x, x + shape.width * _PNG_SCALE - 1)
            draw.rectangle((x, y, right, max(y, y + shape.height * _PNG_SCALE - 1)), _LIGHT[shape.look])
    out = io.BytesIO()
    image.save(out, "PNG", optimize=True)
    return out.getvalue()

# SPDX-License-Identifier: Apache-2.0
"""Pictures from one list of shapes. The SVG follows the viewer's light or dark scheme, the PNG is light."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

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
    """A filled rectangle, with `text` a line of text that starts, is centred or ends (`anchor`) at x, y, or a disc.

    A disc has a `radius` and its centre at x, y.
    """

    look: str
    x: float
    y: float
    width: float = 0
    height: float = 0
    text: str = ""
    anchor: str = "start"
    radius: float = 0


@dataclass(frozen=True)
class Picture:
    """Shapes, the lowest first, on a paper of so many pixels; `title` is read to those who do not see it."""

    title: str
    width: int
    height: int
    shapes: Sequence[Shape]


def svg(picture: Picture) -> str:
    """The picture as an SVG of its own."""
    title, size = escape(picture.title, {'"': "&quot;"}), (picture.width, picture.height)
    style = "".join(
        f".{look}{{fill:{colour}" + (f";font:{_font(look)}" if look in _FONT_SIZES else "") + "}"
        for look, colour in _LIGHT.items()
    )
    dark = "".join(f".{look}{{fill:{colour}}}" for look, colour in _DARK.items())
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" width="{size[0]}" '
        f'height="{size[1]}" role="img" aria-label="{title}">',
        f"<title>{title}</title>",
        f"<style>text{{font-variant-numeric:tabular-nums}}{style}@media (prefers-color-scheme:dark){{{dark}}}</style>",
        *map(_svg, picture.shapes),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def inline(picture: Picture) -> str:
    """The picture as a part of a page, whose style sheet has the colours and fonts of the looks under .drawing."""
    title = escape(picture.title, {'"': "&quot;"})
    box = f'viewBox="0 0 {picture.width} {picture.height}" role="img" aria-label="{title}"'
    return "".join([f'<svg class="drawing" {box}>', *map(_svg, picture.shapes), "</svg>"])


def _font(look: str) -> str:
    return f'{"600 " if look in _BOLD else ""}{_FONT_SIZES[look]}px system-ui,"Segoe UI","DejaVu Sans",sans-serif'


def _svg(shape: Shape) -> str:
    if shape.text:
        anchor = "" if shape.anchor == "start" else f' text-anchor="{shape.anchor}"'
        return f'<text class="{shape.look}" x="{shape.x:.1f}" y="{shape.y:.1f}"{anchor}>{escape(shape.text)}</text>'
    if shape.radius:
        return f'<circle class="{shape.look}" cx="{shape.x:.2f}" cy="{shape.y:.2f}" r="{shape.radius:g}"/>'
    box = f'x="{shape.x:.2f}" y="{shape.y:.2f}" width="{shape.width:.2f}" height="{shape.height:.2f}"'
    return f'<rect class="{shape.look}" {box}/>'


def png(picture: Picture) -> bytes:
    """The picture as a PNG of twice the size, with the font that Pillow brings."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (picture.width * _PNG_SCALE, picture.height * _PNG_SCALE), _LIGHT["paper"])
    draw = ImageDraw.Draw(image)
    for shape in picture.shapes:
        x, y, colour = shape.x * _PNG_SCALE, shape.y * _PNG_SCALE, _LIGHT[shape.look]
        if shape.text:
            font = ImageFont.load_default(_FONT_SIZES[shape.look] * _PNG_SCALE)
            anchor = {"start": "ls", "middle": "ms", "end": "rs"}[shape.anchor]
            bold = 0.6 if shape.look in _BOLD else 0
            draw.text((x, y), shape.text, colour, font, anchor=anchor, stroke_width=bold, stroke_fill=colour)
        elif shape.radius:
            radius = shape.radius * _PNG_SCALE
            draw.ellipse((x - radius, y - radius, x + radius, y + radius), colour)
        elif shape.width and shape.height:
            right = max(x, x + shape.width * _PNG_SCALE - 1)
            draw.rectangle((x, y, right, max(y, y + shape.height * _PNG_SCALE - 1)), colour)
    out = io.BytesIO()
    image.save(out, "PNG", optimize=True)
    return out.getvalue()

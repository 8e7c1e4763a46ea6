# SPDX-License-Identifier: Apache-2.0
"""Squarified treemaps: rectangles with areas as given and sides as equal as can be.

The algorithm is that of Bruls, Huizing and van Wijk, "Squarified Treemaps" (2000). It is drawn here and not by a script
in the page, so that the page needs no library and shows it in viewers that run no scripts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Box:
    """A rectangle: left, top, width and height in the unit of the whole."""

    x: float
    y: float
    width: float
    height: float


def squarified(sizes: Sequence[float], into: Box) -> list[Box]:
    """A box in `into` for each of `sizes`, which are positive and sorted, the largest first."""
    total = sum(sizes)
    if not total:
        return []
    scale = into.width * into.height / total
    areas = [one * scale for one in sizes]
    found: list[Box] = []
    rest, at = into, 0
    while at < len(areas):
        side = min(rest.width, rest.height)
        end = at + 1
        while end < len(areas) and _worst(areas[at : end + 1], side) <= _worst(areas[at:end], side):
            end += 1
        boxes, rest = _row(areas[at:end], rest)
        found += boxes
        at = end
    return found


def _worst(areas: Sequence[float], side: float) -> float:
    """The largest ratio of sides in a row of `areas` along `side`."""
    total = sum(areas)
    return max(side * side * max(areas) / (total * total), total * total / (side * side * min(areas))) if side else 0.0


def _row(areas: Sequence[float], rest: Box) -> tuple[list[Box], Box]:
    """The row's boxes along the shorter side of `rest`, and what remains of it."""
    total = sum(areas)
    boxes = []
    if rest.width >= rest.height:
        width, y = total / rest.height if rest.height else 0.0, rest.y
        for area in areas:
            height = area / width if width else 0.0
            boxes.append(Box(rest.x, y, width, height))
            y += height
        return boxes, Box(rest.x + width, rest.y, max(0.0, rest.width - width), rest.height)
    height, x = total / rest.width if rest.width else 0.0, rest.x
    for area in areas:
        width = area / height if height else 0.0
        boxes.append(Box(x, rest.y, width, height))
        x += width
    return boxes, Box(rest.x, rest.y + height, rest.width, max(0.0, rest.height - height))

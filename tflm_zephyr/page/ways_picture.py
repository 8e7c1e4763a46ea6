# SPDX-License-Identifier: Apache-2.0
"""All ways to run an app's models: RAM and flash against time, a numbered dot for each way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tflm_zephyr.page import words
from tflm_zephyr.page.arena_map import ticks
from tflm_zephyr.page.drawing import Picture, Shape

_WIDTH, _HEIGHT = 480, 300
_TOP, _BOTTOM, _LEFT, _RIGHT = 20, 52, 62, 34
_NEAR = 15
"""Pixels across and down within which dots have one label."""
_NAMES = {
    "ram_bytes": "RAM of the models",
    "flash_bytes": "flash of the models",
    "estimated_cycles": "estimated cycles",
}


def ways_pictures(ways: Sequence[Mapping[str, Any]]) -> list[Picture]:
    """RAM and flash against cycles; RAM against flash where no cycles are known. `ways` are those of a `fit` document.

    A way's number is its place in the list, from 1. Ways without a size are left out.
    """
    timed = any(way["estimated_cycles"] is not None for way in ways)
    sides = ("ram_bytes", "flash_bytes") if timed else ("ram_bytes",)
    return [one for key in sides for one in _picture(ways, key, "estimated_cycles" if timed else "flash_bytes")]


def _picture(ways: Sequence[Mapping[str, Any]], across: str, up: str) -> Iterator[Picture]:
    known = [(k, way) for k, way in enumerate(ways, 1) if way[across] is not None and way[up] is not None]
    if len(known) < 2:
        return
    most, top = (room * max(1, *(way[key] for _, way in known)) for key, room in ((across, 1.1), (up, 1.2)))
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    floor = _TOP + height
    dots = [(k, way, _LEFT + way[across] / most * width, floor - way[up] / top * height) for k, way in known]
    title = f"{_NAMES[across]} to the right, {_NAMES[up]} upwards"
    drawn = [Shape("panel", _LEFT, _TOP, width, height)]
    for at in ticks(int(most), 4):
        x = _LEFT + at / most * width
        drawn += [Shape("grid", x, _TOP, 1, height), Shape("tick", x, floor + 17, text=words.size(at), anchor="middle")]
    for at in _steps(top) if up == "estimated_cycles" else ticks(int(top), 4):
        y, label = floor - at / top * height, words.short(at) if up == "estimated_cycles" else words.size(at)
        drawn += [Shape("grid", _LEFT, y, width, 1), Shape("tick", _LEFT - 7, y + 4, text=label, anchor="end")]
    drawn += [
        Shape("base", _LEFT, floor, width, 1),
        Shape("note", _LEFT + width / 2, floor + 40, text=f"{_NAMES[across]}; {_NAMES[up]} upwards", anchor="middle"),
    ]
    for _, way, x, y in sorted(dots, key=lambda dot: (dot[1].get("recommended", False), dot[1].get("taken", False))):
        if way.get("taken"):
            drawn += [Shape("title", x, y, radius=10), Shape("panel", x, y, radius=8)]
        drawn.append(Shape("shared" if way.get("recommended") else "intermediate", x, y, radius=6))
    yield Picture(title, _WIDTH, _HEIGHT, [*drawn, *_labels([(k, x, y) for k, _, x, y in dots])])


def _steps(top: float) -> list[int]:
    """Round numbers from 0 to `top`, about four of them."""
    step = 1
    for factor in (2, 2.5, 2) * 12:
        if top / step <= 4:
            break
        step = int(step * factor)
    return list(range(0, int(top) + 1, step))


def _labels(dots: Sequence[tuple[int, float, float]]) -> Iterator[Shape]:
    """The numbers of the dots above them, those of dots that lie together in one label."""
    left = list(dots)
    while left:
        _, x, y = left[0]
        here = [dot for dot in left if abs(dot[1] - x) < _NEAR and abs(dot[2] - y) < _NEAR]
        left = [dot for dot in left if dot not in here]
        middle, high = sum(dot[1] for dot in here) / len(here), min(dot[2] for dot in here)
        yield Shape("name", middle, high - 14, text=", ".join(str(k) for k, *_ in sorted(here)), anchor="middle")

# SPDX-License-Identifier: Apache-2.0
"""Ways to run a model as compiled code: RAM against the work that less of it costs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any

from tflm_zephyr.documents import Document
from tflm_zephyr.page import words
from tflm_zephyr.page.arena_map import ticks
from tflm_zephyr.page.drawing import Picture, Shape

_WIDTH, _HEIGHT = 960, 460
_TOP, _BOTTOM, _LEFT, _RIGHT = 92, 96, 64, 40
_WHOLE, _ROWS, _STREAMED, _LIMIT = "intermediate", "shared", "input", "peak"
_KINDS = {
    _ROWS: "layers row by row",
    _WHOLE: "whole tensors",
    _STREAMED: "streamed input",
}
_DOT, _LINE = 5.0, 1.5
_APART = (96, 17)
"""Pixels across and down that labels have for themselves."""
_TALL, _DEEP = 13, 5
"""Pixels that a label needs above and below its base line."""
_DEFAULT = 0.03
"""The share of more work that `generate --rows` allows by itself."""


def front_picture(front: Document) -> Picture:
    """A dot for each way of a `front` document, by the colour of its kind, and the steps between the dots."""
    ways: Sequence[dict[str, Any]] = front["ways"]
    streamed: Sequence[dict[str, Any]] = front["streamed"]["ways"]
    top = 1.15 * max([*(way["slower"] for way in (*ways, *streamed)), 0.004])
    most = 1.08 * max(way["arena_bytes"] for way in (*ways, *streamed))
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    title = f"Ways to run {words.seen(front['model'], 60)}"
    dots, others = (
        [(_LEFT + way["arena_bytes"] / most * width, _TOP + height - way["slower"] / top * height) for way in found]
        for found in (ways, streamed)
    )
    kinds = [*map(_kind, ways), *(_STREAMED for _ in streamed)]
    drawn = [
        Shape("paper", 0, 0, _WIDTH, _HEIGHT),
        Shape("title", _LEFT, 36, text=title),
        Shape("note", _LEFT, 62, text=f"more work (an estimate) against RAM; {words.seen(front['kernels'], 90)}"),
        Shape("panel", _LEFT, _TOP, width, height),
        *_axes(top, most, width, height),
        *_steps(dots, _LEFT + width),
        *(_steps(others, _LEFT + width) if others else ()),
        *(Shape(kind, *dot, radius=_DOT) for kind, dot in zip(kinds, (*dots, *others), strict=True)),
        *_labels((*ways, *streamed), (*dots, *others), _limit(top, height)),
        *_legend({*kinds, _WHOLE}, top > _DEFAULT),
    ]
    return Picture(f"{title}: RAM against more work", _WIDTH, _HEIGHT, drawn)


def _kind(way: dict[str, Any]) -> str:
    return _ROWS if way["segments"] else _WHOLE


def _axes(top: float, most: float, width: float, height: float) -> Iterator[Shape]:
    floor = _TOP + height
    for size in ticks(int(most)):
        x = _LEFT + size / most * width
        yield Shape("grid", x, _TOP, 1, height)
        yield Shape("tick", x, floor + 18, text=words.size(size), anchor="middle")
    for share in _shares(top):
        y = floor - share / top * height
        yield Shape("grid", _LEFT, y, width, 1)
        yield Shape("tick", _LEFT - 8, y + 4, text=f"{100 * share:g} %", anchor="end")
    limit = _limit(top, height)
    if limit is not None:
        yield from (Shape(_LIMIT, _LEFT + 12 * dash, limit, 6, 1) for dash in range(int(width / 12)))
    yield Shape("base", _LEFT, floor, width, 1)
    yield Shape("note", _LEFT + width / 2, floor + 38, text="RAM of the model, input included", anchor="middle")


def _limit(top: float, height: float) -> float | None:
    """The height of the line at the share that --rows allows; None where no way is that slow."""
    return _TOP + height - _DEFAULT / top * height if top > _DEFAULT else None


def _shares(top: float, wanted: int = 6) -> list[float]:
    """Round shares from 0 to `top`, about `wanted` of them."""
    step = 0.001
    for factor in (2, 2.5, 2) * 6:
        if top / step <= wanted:
            break
        step *= factor
    return [round(step * k, 6) for k in range(int(top / step) + 1)]


def _steps(dots: Sequence[tuple[float, float]], right: float) -> Iterator[Shape]:
    """From each dot to the next: with RAM between the two, the first one's way is the best."""
    ends = [*(x for x, _ in dots[1:]), right]
    for (x, y), end in zip(dots, ends, strict=True):
        yield Shape("tick", x, y - _LINE / 2, end - x, _LINE)
    for (_, y), (x, below) in pairwise(dots):
        yield Shape("tick", x - _LINE / 2, y, _LINE, below - y)


def _labels(
    ways: Sequence[dict[str, Any]], dots: Sequence[tuple[float, float]], limit: float | None
) -> Iterator[Shape]:
    """RAM and work of the ways, where there is room: the smallest one's and the cheapest one's first.

    A label that the line at `limit` would cross stands above it.
    """
    order = dict.fromkeys([0, len(ways) - 1, *range(len(ways))])
    taken: list[tuple[float, float]] = []
    for k in order:
        x, y = dots[k][0] + 9, dots[k][1] - 8
        at_edge = x + _APART[0] > _WIDTH - _RIGHT
        if at_edge:
            x, y = x - _APART[0], y - 4
        if limit is not None and y - _TALL < limit < y + _DEEP:
            y = limit - _DEEP
        if all(abs(x - other) >= _APART[0] or abs(y - height) >= _APART[1] for other, height in taken):
            taken.append((x, y))
            share = 100 * ways[k]["slower"]
            text = f"{ways[k]['arena_bytes']:,} B, {share:.{1 if share >= 1 else 2}f} %"
            yield Shape("tick", x + _APART[0] if at_edge else x, y, text=text, anchor="end" if at_edge else "start")


def _legend(kinds: Collection[str], limit: bool) -> Iterator[Shape]:
    x, y = float(_LEFT), _HEIGHT - 22
    for look, text in ((look, text) for look, text in _KINDS.items() if look in kinds):
        yield Shape(look, x + 5, y - 4, radius=_DOT)
        yield Shape("note", x + 17, y, text=text)
        x += 17 + 6.4 * len(text) + 26
    if limit:
        yield Shape(_LIMIT, x, y - 4, 6, 1)
        yield Shape(_LIMIT, x + 10, y - 4, 6, 1)
        yield Shape("note", x + 22, y, text=f"{100 * _DEFAULT:g} %: the limit of --rows unless --slower names another")

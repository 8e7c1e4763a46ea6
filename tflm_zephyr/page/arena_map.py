# SPDX-License-Identifier: Apache-2.0
"""A plan's placings as maps of the arena: time to the right in steps, addresses upwards in bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tflm_zephyr.documents import Document

TITLES = {
    "greedy": "TFLM’s greedy planner",
    "packed": "Packed",
    "in_place": "In-place",
    "shipped": "This plan",
    "compiled": "Compiled",
}
ABOUT = {
    "greedy": "where TFLM’s own planner puts the buffers of the model as it is",
    "packed": "all buffers placed freely, none over another",
    "in_place": "outputs over inputs where the kernels allow it",
    "shipped": "what runs on the device with the interpreter",
    "compiled": "what runs on the device with the backend compiled, which has no tail besides",
}
KINDS = ("input", "output", "intermediate", "variable", "scratch")


@dataclass(frozen=True)
class Rectangle:
    """A buffer of a placing, by its index there: steps `x` to `x + width`, bytes `y` to `y + height` from the start."""

    index: int
    x: int
    width: int
    y: int
    height: int
    kind: str


@dataclass(frozen=True)
class Placed:
    """One map: `names` of the placings that look so; `shared` are the bytes of in-place pairs at their step."""

    names: tuple[str, ...]
    head_bytes: int
    rectangles: tuple[Rectangle, ...]
    shared: tuple[Rectangle, ...]
    peak_steps: tuple[int, ...]

    @property
    def title(self) -> str:
        """The placings' names in words."""
        return " = ".join(TITLES[name] for name in self.names)


def maps(plan: Document) -> list[Placed]:
    """The maps of the placings in `plan`, equal ones once, the plan's own last."""
    kinds = {(t["subgraph"], t["index"]): t["role"] for t in plan["tensors"]}
    found: list[Placed] = []
    for placing in plan["placings"]:
        drawn = _placed(placing, kinds)
        same = next((k for k, other in enumerate(found) if _alike(other, drawn)), None)
        if same is None:
            found.append(drawn)
        else:
            found[same] = Placed((*found[same].names, *drawn.names), *_look(found[same]))
    return found


def _look(drawn: Placed) -> tuple[int, tuple[Rectangle, ...], tuple[Rectangle, ...], tuple[int, ...]]:
    return drawn.head_bytes, drawn.rectangles, drawn.shared, drawn.peak_steps


def _alike(one: Placed, other: Placed) -> bool:
    return _look(one) == _look(other)


def _placed(placing: dict[str, Any], kinds: dict[tuple[int, int], str]) -> Placed:
    buffers = placing["buffers"]
    rectangles = tuple(
        Rectangle(
            i,
            max(0, b["lower"]),
            b["upper"] - max(0, b["lower"]),
            b["offset"],
            b["size"],
            "scratch" if b["kind"] == "scratch" else kinds.get((b["subgraph"], b["index"]), "intermediate"),
        )
        for i, b in enumerate(buffers)
    )
    shared = tuple(
        Rectangle(pair["output"], buffers[pair["output"]]["lower"], 1, low, high - low, "shared")
        for pair in placing["in_place"]
        for low, high in [_common(buffers[pair["input"]], buffers[pair["output"]])]
    )
    return Placed((placing["name"],), placing["head_bytes"], rectangles, shared, _peaks(rectangles, shared))


def _common(one: dict[str, int], other: dict[str, int]) -> tuple[int, int]:
    low = max(one["offset"], other["offset"])
    return low, min(one["offset"] + one["size"], other["offset"] + other["size"])


def _peaks(rectangles: Sequence[Rectangle], shared: Sequence[Rectangle]) -> tuple[int, ...]:
    """The steps at which the most bytes are alive, shared ones counted once."""
    change: Counter[int] = Counter()
    for sign, group in ((1, rectangles), (-1, shared)):
        for r in group:
            change[r.x] += sign * r.height
            change[r.x + r.width] -= sign * r.height
    live, by_step = 0, {}
    for step in sorted(change):
        live += change[step]
        by_step[step] = live
    most = max(by_step.values(), default=0)
    return tuple(step for step, alive in by_step.items() if alive == most and most)


def ticks(top: int, wanted: int = 5) -> list[int]:
    """Round numbers of bytes from 0 to `top`, about `wanted` of them: powers of two and their halves."""
    step = 16
    while top / step > wanted:
        step *= 2
    return list(range(0, top + 1, step))

# SPDX-License-Identifier: Apache-2.0
"""`plan --rows`: the ways to run a model as compiled code, RAM against work, and why layers do not run row by row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tflm_zephyr.compiler import CompiledModel, FrontPoint


def plain(path: Path, kernels: str, points: Sequence[FrontPoint]) -> dict[str, Any]:
    """The document: a way for each point, the smallest first, and the reasons at the smallest one."""
    smallest = points[0].compiled
    return {
        "model": path.name,
        "kernels": kernels,
        "ways": [
            {
                "arena_bytes": point.compiled.arena_bytes,
                "slower": round(point.slower, 5),
                "segments": [
                    {
                        "operators": [member.operator for member in layer.members],
                        "row_bytes": layer.scratch_bytes,
                        "calls": sum(layer.segment.calls.values()),
                    }
                    for layer in point.compiled.segments
                    if layer.segment is not None
                ],
            }
            for point in points
        ],
        "whole": [
            {"operator": operator, "key": smallest.layers[place].key, "why": why}
            for place, operator, why in _reasons(smallest)
        ],
    }


def text(path: Path, kernels: str, points: Sequence[FrontPoint]) -> str:
    """The table for people, and the reasons."""
    lines = [
        f"{path.name}, {kernels}: ways to run as compiled code",
        "",
        "  RAM, bytes    more work  layers row by row",
    ]
    for point in points:
        shown = ", ".join(_range([member.operator for member in layer.members]) for layer in point.compiled.segments)
        lines.append(f"{point.compiled.arena_bytes:12,} {100 * point.slower:10.2f} %  {shown or 'none'}")
    lines += ["", "More work is an estimate. On whole tensors in the smallest way:"]
    reasons: dict[str, list[str]] = {}
    for place, operator, why in _reasons(points[0].compiled):
        reasons.setdefault(why, []).append(f"{operator} ({points[0].compiled.layers[place].key})")
    lines += [f"  {', '.join(layers)}: {why}" for why, layers in reasons.items()]
    return "\n".join(lines)


def _reasons(compiled: CompiledModel) -> list[tuple[int, int, str]]:
    """Place in the layers, operator and reason of each layer that runs on whole tensors."""
    why = compiled.why_no_rows
    return [
        (place, layer.operator, why[layer.operator])
        for place, layer in enumerate(compiled.layers)
        if layer.operator in why
    ]


def _range(operators: Sequence[int]) -> str:
    return str(operators[0]) if len(operators) == 1 else f"{operators[0]} to {operators[-1]}"

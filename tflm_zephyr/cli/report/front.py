# SPDX-License-Identifier: Apache-2.0
"""`plan --rows`: the ways to run a model as compiled code, RAM against work, and why layers do not run row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tflm_zephyr.codegen import fast_remark

if TYPE_CHECKING:
    from tflm_zephyr.compiler import CompiledModel, FrontPoint


@dataclass(frozen=True)
class Streamed:
    """The ways to run a model whose input comes row by row, or `why` there is none."""

    points: tuple[FrontPoint, ...] = ()
    why: str = ""


def plain(path: Path, kernels: str, points: Sequence[FrontPoint], streamed: Streamed) -> dict[str, Any]:
    """The document: a way for each point, the smallest first, and the reasons at the smallest one."""
    smallest = points[0].compiled
    choice = smallest.choice
    return {
        "model": path.name,
        "kernels": kernels,
        "ways": _ways(points),
        "streamed": {"ways": _ways(streamed.points), "why": streamed.why},
        **({} if choice is None else {"choice": choice.report(), "layers": _layers(smallest)}),
        "whole": [
            {"operator": operator, "key": smallest.layers[place].key, "why": why}
            for place, operator, why in _reasons(smallest)
        ],
    }


def _layers(compiled: CompiledModel) -> list[dict[str, Any]]:
    """The kernel of each layer that had two to choose from, and the runner-up."""
    assert compiled.choice is not None
    found = ((layer, compiled.choice.layer_report(layer.operator)) for layer in compiled.layers)
    return [{"operator": layer.operator, "key": layer.key, **costs} for layer, costs in found if costs]


def _ways(points: Sequence[FrontPoint]) -> list[dict[str, Any]]:
    return [
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
            ],
        }
        for point in points
    ]


def text(path: Path, kernels: str, points: Sequence[FrontPoint], streamed: Streamed) -> str:
    """The table for people, and the reasons."""
    lines = [
        f"{path.name}, {kernels}: ways to run as compiled code",
        *([remark] if (remark := fast_remark(path.stem, points[-1].compiled)) else []),
        "",
        "  RAM, bytes    more work  layers row by row",
    ]
    lines += _table(points)
    if streamed.points:
        rows = streamed.points[0].compiled.stream
        count = "" if rows is None else f" in {rows.rows:,} rows of {rows.row_bytes:,} bytes"
        lines += ["", f"With streamed input{count}, which is never there as a whole:", *_table(streamed.points)]
    else:
        lines += ["", f"Streamed input: {streamed.why}"]
    reasons: dict[str, list[str]] = {}
    for place, operator, why in _reasons(points[0].compiled):
        reasons.setdefault(why, []).append(f"{operator} ({points[0].compiled.layers[place].key})")
    lines += ["", "More work is an estimate." + (" On whole tensors in the smallest way:" if reasons else "")]
    lines += [f"  {', '.join(layers)}: {why}" for why, layers in reasons.items()]
    return "\n".join(lines)


def _table(points: Sequence[FrontPoint]) -> Iterator[str]:
    for point in points:
        shown = ", ".join(_range([member.operator for member in layer.members]) for layer in point.compiled.segments)
        yield f"{point.compiled.arena_bytes:12,} {100 * round(point.slower, 5):10.2f} %  {shown or 'none'}"


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

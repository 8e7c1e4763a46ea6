# SPDX-License-Identifier: Apache-2.0
"""`plan --hop`: the ways to run a model whose windows overlap, RAM against work, and a hop's work on each board."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tflm_zephyr.compiler import CompiledModel, HopWork

_HZ_PER_MHZ = 1_000_000


@dataclass(frozen=True)
class OnBoard:
    """A hop on a board whose core is `core`, by the way that `generate` takes. `clock_hz`: 0 where it is not known."""

    board: str
    core: str
    clock_hz: int
    work: HopWork


@dataclass(frozen=True)
class Hops:
    """The ways to run a model, the one that `generate` takes, RAM of the whole window, and hops each `period_s`."""

    path: Path
    kernels: str
    ways: Sequence[CompiledModel]
    chosen: CompiledModel
    whole_arena_bytes: int
    boards: Sequence[OnBoard]
    period_s: float | None


def plain(item: Hops) -> dict[str, Any]:
    """The document."""
    hop, stream = item.chosen.hop, item.chosen.stream
    assert hop is not None
    assert stream is not None
    return {
        "model": item.path.name,
        "kernels": item.kernels,
        "hop_rows": hop.every,
        "window_rows": stream.rows,
        "row_bytes": stream.row_bytes,
        "whole_arena_bytes": item.whole_arena_bytes,
        "ways": [
            {"arena_bytes": way.arena_bytes, "operators": _operators(way), "chosen": way is item.chosen}
            for way in item.ways
        ],
        "boards": [_board(one, item.period_s) for one in item.boards],
        "layers": [
            {"operator": one.operator, "key": one.key, "computed_rows": one.computed, "rows": one.rows}
            for one in item.boards[0].work.layers
        ],
    }


def _board(one: OnBoard, period_s: float | None) -> dict[str, Any]:
    return {
        "board": one.board,
        "core": one.core,
        "cycles": one.work.cycles,
        "whole_cycles": one.work.whole_cycles,
        "needed_mhz": None if period_s is None else _mhz(one, period_s),
        "duty": None if period_s is None or not one.clock_hz else round(one.work.cycles / period_s / one.clock_hz, 5),
    }


def _mhz(one: OnBoard, period_s: float) -> float:
    return round(one.work.cycles / period_s / _HZ_PER_MHZ, 3)


def _operators(way: CompiledModel) -> list[int]:
    """The operators that keep rows."""
    return [member.operator for layer in way.segments for member in layer.members]


def text(item: Hops) -> str:
    """The tables for people."""
    hop, stream = item.chosen.hop, item.chosen.stream
    assert hop is not None
    assert stream is not None
    return "\n".join(
        [
            f"{item.path.name}, {item.kernels}: windows of {stream.rows:,} rows of {stream.row_bytes:,} bytes, "
            f"each {hop.every:,} behind the one before",
            "",
            f"  RAM, bytes  layers that keep rows; the whole window takes {item.whole_arena_bytes:,} bytes",
            *_ways(item),
            "",
            "  board                  cycles a hop   of a window",
            *_boards(item),
            "",
            "  layer                       rows a hop, of all   cycles, of the layer's",
            *_layers(item.boards[0]),
            "",
            "Cycles are estimates of the way marked *, which generate takes.",
        ]
    )


def _ways(item: Hops) -> Iterator[str]:
    for way in item.ways:
        operators = _operators(way)
        shown = str(operators[0]) if len(operators) == 1 else f"{operators[0]} to {operators[-1]}"
        yield f"{way.arena_bytes:12,}  {shown}{' *' if way is item.chosen else ''}"


def _boards(item: Hops) -> Iterator[str]:
    for one in item.boards:
        line = f"  {one.board:22} {one.work.cycles:12,} {one.work.cycles / one.work.whole_cycles:13.3f}"
        if item.period_s is not None:
            line += f"   {_mhz(one, item.period_s):.1f} MHz at a hop each {1000 * item.period_s:g} ms"
            if one.clock_hz:
                duty = one.work.cycles / item.period_s / one.clock_hz
                line += f": {100 * duty:.1f} % of {one.clock_hz / _HZ_PER_MHZ:g} MHz"
        yield line


def _layers(one: OnBoard) -> Iterator[str]:
    for layer in one.work.layers:
        rows = f"{layer.computed:6,} of {layer.rows:,}" if layer.rows else "   all of it"
        share = layer.cycles / layer.whole_cycles if layer.whole_cycles else 1.0
        yield f"  {layer.operator:3} {layer.key:24} {rows:18} {share:10.3f}"

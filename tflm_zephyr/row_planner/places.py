# SPDX-License-Identifier: Apache-2.0
"""Places of a segment's row buffers: those whose rows are read at once take turns in the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import merge

from tflm_zephyr.row_planner.chain import Chain
from tflm_zephyr.row_planner.schedule import Schedule

_Spans = Sequence[tuple[int, int]]


def row_places(chain: Chain, schedule: Schedule) -> tuple[dict[int, int], int]:
    """The first byte of each row buffer, and the bytes of all. The largest come first; each goes to the first room."""
    sizes = {tensor: rows * chain.tensors[tensor].row_bytes for tensor, rows in schedule.capacities.items()}
    rooms: list[tuple[int, _Spans]] = []
    offsets: dict[int, int] = {}
    total = 0
    for tensor in sorted(sizes, key=lambda tensor: (tensor in schedule.spans, -sizes[tensor], tensor)):
        spans = schedule.spans.get(tensor)
        room = None
        if spans is not None:
            room = next((k for k, (_, taken) in enumerate(rooms) if not _meet(taken, spans)), None)
        if spans is not None and room is not None:
            at, taken = rooms[room]
            rooms[room] = at, list(merge(taken, spans))
            offsets[tensor] = at
            continue
        if spans is not None:
            rooms.append((total, spans))
        offsets[tensor] = total
        total += chain.aligned(sizes[tensor])
    return offsets, total


def _meet(one: _Spans, other: _Spans) -> bool:
    """Whether any two spans of two sorted lists have a step in common."""
    i = j = 0
    while i < len(one) and j < len(other):
        if one[i][1] < other[j][0]:
            i += 1
        elif other[j][1] < one[i][0]:
            j += 1
        else:
            return True
    return False

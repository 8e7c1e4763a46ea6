# SPDX-License-Identifier: Apache-2.0
"""Places of a segment's row buffers: those whose rows are read at once take turns in the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import merge

from tflm_zephyr.row_planner.chain import Chain
from tflm_zephyr.row_planner.schedule import Schedule

_Spans = Sequence[tuple[int, int]]


def row_places(chain: Chain, schedule: Schedule) -> tuple[dict[int, int], int]:
    """The first byte of each row buffer, and the bytes of all. The largest come first; each goes to the first room."""
    sizes = {tensor: rows * chain.tensors[tensor].row_bytes for tensor, rows in schedule.capacities.items()}
    rooms: list[_Room] = []
    offsets: dict[int, int] = {}
    total = 0
    # Buffers that are filled once come first: most of them roll, and meet nearly all other buffers.
    for tensor in sorted(sizes, key=lambda tensor: (len(schedule.spans[tensor]) > 1, -sizes[tensor], tensor)):
        spans, size = schedule.spans[tensor], chain.aligned(sizes[tensor])
        room = next((room for room in rooms if size <= room.size and not _meet(room.taken, spans)), None)
        if room is None:
            room = _Room(total, size, ())
            rooms.append(room)
            total += size
        room.taken = list(merge(room.taken, spans))
        offsets[tensor] = room.first
    return offsets, total


@dataclass
class _Room:
    """Bytes for row buffers, and from which step to which one they are taken."""

    first: int
    size: int
    taken: _Spans


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

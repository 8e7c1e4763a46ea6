# SPDX-License-Identifier: Apache-2.0
"""The independent checker: a sweep over time, in no way built like the planners, run on every plan."""

from __future__ import annotations

from bisect import bisect_left, insort

from tflm_zephyr.errors import PlanError
from tflm_zephyr.plan.problem import Buffer, Plan


def check(plan: Plan, *, arena_bytes: int | None = None) -> None:
    """Raise PlanError, naming the buffers and offsets, unless the plan can be used as it stands.

    Checked: one offset a buffer, none negative, each a multiple of the alignment, fixed offsets kept, no two
    buffers alive at one step sharing a byte, and, when `arena_bytes` is given, none ending past the arena.
    """
    problem, where = plan.problem, plan.problem.name or f"{plan.method} plan"
    if len(plan.offsets) != len(problem.buffers):
        what = f"{len(plan.offsets)} offsets for {len(problem.buffers)} buffers"
        raise PlanError(what, where=where, hint="A plan gives one offset for each buffer.")
    unit = problem.alignment
    spans = []
    for buffer, offset in zip(problem.buffers, plan.offsets, strict=True):
        end = offset + (buffer.size + unit - 1) // unit * unit
        if offset < 0:
            raise PlanError(f"buffer {buffer.id} has the negative offset {offset}", where=where)
        if offset % unit:
            what = f"buffer {buffer.id} at offset {offset} is not aligned to {unit} bytes"
            raise PlanError(what, where=where)
        if buffer.offset is not None and buffer.offset != offset:
            what = f"buffer {buffer.id} is fixed at offset {buffer.offset}, the plan says {offset}"
            raise PlanError(what, where=where)
        if arena_bytes is not None and end > arena_bytes:
            what = f"buffer {buffer.id} at offset {offset} ends at {end}, past the arena's {arena_bytes} bytes"
            raise PlanError(what, where=where)
        spans.append((offset, end))
    _sweep(problem.buffers, spans, where)


def _sweep(buffers: tuple[Buffer, ...], spans: list[tuple[int, int]], where: str) -> None:
    """Walk through the steps; the buffers alive, sorted by offset, must follow each other without overlap."""
    events = [(buffers[i].lower, 1, i) for i, (start, end) in enumerate(spans) if end > start]
    events += [(buffers[i].upper, 0, i) for i, (start, end) in enumerate(spans) if end > start]
    alive: list[tuple[int, int, int]] = []
    for _, born, i in sorted(events):
        entry = (*spans[i], i)
        if not born:
            del alive[bisect_left(alive, entry)]
            continue
        at = bisect_left(alive, entry)
        for other in alive[max(0, at - 1) : at + 1]:
            if other[0] < entry[1] and entry[0] < other[1]:
                raise PlanError(_clash(buffers, entry, other), where=where)
        insort(alive, entry)


def _clash(buffers: tuple[Buffer, ...], one: tuple[int, int, int], other: tuple[int, int, int]) -> str:
    first, second = sorted((one, other), key=lambda entry: entry[2])
    texts = []
    for start, end, i in (first, second):
        buffer = buffers[i]
        texts.append(f"buffer {buffer.id} (bytes {start} to {end}, steps {buffer.lower} to {buffer.upper - 1})")
    return f"{texts[0]} and {texts[1]} overlap"

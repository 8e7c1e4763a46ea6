# SPDX-License-Identifier: Apache-2.0
"""The independent checker: a sweep over time that shares no code with the planners and runs on every plan."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from itertools import pairwise

from tflm_zephyr.errors import PlanError
from tflm_zephyr.memory_planner.problem import Buffer, Plan

WhyUnsafe = Callable[[int, int, int], "str | None"]
"""The reason against an in-place pair, None for none: (input's index, output's index, input offset - output offset)."""
_Entry = tuple[int, int, int]  # first byte, end, index


def check_plan(plan: Plan, *, arena_bytes: int | None = None, why_unsafe: WhyUnsafe | None = None) -> None:
    """Raise PlanError, naming the buffers and offsets, unless the plan can be used as it stands.

    Checked: one offset a buffer, none negative, each a multiple of the alignment, fixed offsets kept, no two
    buffers alive at one step sharing a byte, and, when `arena_bytes` is given, none ending past the arena. Two may
    share bytes where they meet at one step only, the last of one and the first of the other, and `why_unsafe` returns
    None for them. The problem's own in-place pairs are not used.
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
    _sweep(problem.buffers, spans, where, why_unsafe)


def _sweep(buffers: tuple[Buffer, ...], spans: list[tuple[int, int]], where: str, why_unsafe: WhyUnsafe | None) -> None:
    """Walk through the steps; the buffers alive, sorted by offset, must follow each other without overlap.

    A buffer that may overlap another one does so at its first step, which is the other's last: those of the step are
    kept apart until the next one, so that both lists are free of overlaps.
    """
    born: dict[int, list[int]] = {}
    died: dict[int, list[int]] = {}
    for i, (start, end) in enumerate(spans):
        if end > start:
            born.setdefault(buffers[i].lower, []).append(i)
            died.setdefault(buffers[i].upper, []).append(i)
    alive: list[_Entry] = []
    for step in sorted({*born, *died}):
        for i in died.get(step, ()):
            del alive[bisect_left(alive, (*spans[i], i))]
        fresh = sorted((*spans[i], i) for i in born.get(step, ()))
        for one, other in pairwise(fresh):
            if other[0] < one[1]:
                raise PlanError(_clash(buffers, one, other), where=where)
        for entry in fresh:
            for other in _overlapping(alive, entry):
                reason = _why_not(buffers, other, entry, why_unsafe)
                if reason is not None:
                    raise PlanError(_clash(buffers, entry, other) + reason, where=where)
        for entry in fresh:
            insort(alive, entry)


def _overlapping(alive: list[_Entry], entry: _Entry) -> list[_Entry]:
    """The entries of `alive`, which do not overlap each other, that share bytes with `entry`."""
    at = bisect_left(alive, entry)
    found = alive[at - 1 : at] if at and alive[at - 1][1] > entry[0] else []
    while at < len(alive) and alive[at][0] < entry[1]:
        found.append(alive[at])
        at += 1
    return found


def _why_not(buffers: tuple[Buffer, ...], old: _Entry, new: _Entry, why_unsafe: WhyUnsafe | None) -> str | None:
    if why_unsafe is None or buffers[old[2]].upper - 1 != buffers[new[2]].lower:
        return ""
    reason = why_unsafe(old[2], new[2], old[0] - new[0])
    return None if reason is None else f": {reason}"


def _clash(buffers: tuple[Buffer, ...], one: _Entry, other: _Entry) -> str:
    first, second = sorted((one, other), key=lambda entry: entry[2])
    texts = []
    for start, end, i in (first, second):
        buffer = buffers[i]
        texts.append(f"buffer {buffer.id} (bytes {start} to {end}, steps {buffer.lower} to {buffer.upper - 1})")
    return f"{texts[0]} and {texts[1]} overlap"

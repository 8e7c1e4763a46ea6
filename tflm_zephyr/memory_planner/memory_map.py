# SPDX-License-Identifier: Apache-2.0
"""The arena's map by step, laid out as TFLM's GreedyMemoryPlanner::PrintMemoryPlan() prints it, with names."""

from __future__ import annotations

from tflm_zephyr.memory_planner.problem import Plan

_SIGNS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
WIDTH = 80
LEGEND = (
    "A line a step: * lives in that step alone, = is an output in place of its input, . is free; then the bytes alive."
)


def draw(plan: Plan, width: int = WIDTH) -> list[str]:
    """The map as lines of text: a buffer each (sign, size, offset, first and last step, id), then a step each.

    A step's line shows the arena from its start (left) to its end in `width` cells, 80 as in TFLM: a buffer's sign
    where it is alive, `*` for one alive at a single step, `.` for free bytes, `=` where an operator writes its
    output over an input, `!` where two other buffers claim a cell, and the live bytes in KiB rounded up. But for
    the `=`, layout and rounding are those of TFLM's greedy_memory_planner.cc, revision 8d404de7; steps before 0
    (tensors that no operator reaches) are not drawn. Where most steps change nothing, as in problems that count
    clock ticks, only those that do are drawn.
    """
    buffers, sizes = plan.problem.buffers, plan.problem.sizes
    signs = ["*" if buffer.upper - buffer.lower == 1 else _SIGNS[i % len(_SIGNS)] for i, buffer in enumerate(buffers)]
    lines = [
        f"{signs[i]} (id={i}): size={sizes[i]}, offset={plan.offsets[i]}, "
        f"first_used={buffer.lower} last_used={buffer.upper - 1}  {buffer.id}"
        for i, buffer in enumerate(buffers)
    ]
    scale = max(width, plan.size_bytes)
    begin: dict[int, list[int]] = {}
    for i, buffer in enumerate(buffers):
        begin.setdefault(max(0, buffer.lower), []).append(i)
    pairs = {frozenset((pair.input, pair.output)) for pair in plan.shared}
    alive: list[int] = []
    for step in _steps(plan):
        alive = sorted(alive + begin.get(step, []))
        alive = [i for i in alive if buffers[i].upper > step]
        cells: list[tuple[str, int]] = [(".", -1)] * width
        for i in alive:
            start = plan.offsets[i] * width // scale
            for cell in range(start, (plan.offsets[i] + sizes[i]) * width // scale):
                sign, other = cells[cell]
                together = "=" if frozenset((i, other)) in pairs else "!"
                cells[cell] = (signs[i] if sign == "." else together, i)
        live = sum(sizes[i] for i in alive)
        lines.append(f"{step:4d}: {''.join(sign for sign, _ in cells)} ({(live + 1023) // 1024}k)")
    return lines


def _steps(plan: Plan) -> list[int]:
    buffers = plan.problem.buffers
    last = max((buffer.upper for buffer in buffers), default=1)
    if last <= 4 * len(buffers) + 64:
        return list(range(last))
    changes = {0, *(max(0, buffer.lower) for buffer in buffers), *(buffer.upper for buffer in buffers)}
    return sorted(step for step in changes if 0 <= step < last)

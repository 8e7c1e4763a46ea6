# SPDX-License-Identifier: Apache-2.0
"""Every buffer behind the one before: what TFLM's LinearMemoryPlanner does when all tensors are preserved."""

from __future__ import annotations

from tflm_zephyr.memory_planner.problem import Plan, Problem


def linear(problem: Problem) -> Plan:
    """Offsets in the problem's order without any reuse; fixed buffers stay, the others follow behind them.

    Source: tensorflow/lite/micro/memory_planner/linear_memory_planner.cc, revision 8d404de7 (which takes no
    fixed offsets).
    """
    fixed = ((b.offset, size) for b, size in zip(problem.buffers, problem.sizes, strict=True))
    following = max((offset + size for offset, size in fixed if offset is not None), default=0)
    offsets = []
    for buffer, size in zip(problem.buffers, problem.sizes, strict=True):
        if buffer.offset is not None:
            offsets.append(buffer.offset)
        else:
            offsets.append(following)
            following += size
    return Plan(problem, tuple(offsets), "linear")

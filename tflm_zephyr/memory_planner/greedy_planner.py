# SPDX-License-Identifier: Apache-2.0
"""TFLM's GreedyMemoryPlanner, to the byte, in far fewer steps.

TFLM (tensorflow/lite/micro/memory_planner/greedy_memory_planner.cc, revision 8d404de7) puts buffers with an
offline offset first, as given. The others fill the rest of its array from the back and are sorted by
descending size with a bubble sort that swaps strictly smaller neighbours only, hence is stable: equal sizes
end in reverse order of adding. Each is then placed at the lowest offset where it fits before the next buffer
alive at the same time, walking those in order of offset.

That walk depends on the union of the bytes occupied, not on which buffer occupies them, so `FirstFit` keeps
unions of intervals over a tree of time spans and a placement looks at O(log n) of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from tflm_zephyr.memory_planner.problem import Plan, Problem

_Spans = list[tuple[int, int]]


def greedy(problem: Problem) -> Plan:
    """Offsets as TFLM's greedy planner chooses them when the buffers are added in the problem's order."""
    sizes = problem.sizes
    free = [i for i, buffer in enumerate(problem.buffers) if buffer.offset is None]
    return first_fit(problem, sorted(free, key=lambda i: (-sizes[i], -i)), "greedy")


def first_fit(problem: Problem, order: Iterable[int], method: str) -> Plan:
    """Fixed buffers where they are, then those of `order` (indices), each at its lowest offset that fits."""
    sizes = problem.sizes
    arena = FirstFit(problem)
    offsets = [0] * len(sizes)
    for i, buffer in enumerate(problem.buffers):
        if buffer.offset is not None:
            offsets[i] = buffer.offset
            arena.occupy(i, buffer.offset, sizes[i])
    for i in order:
        offsets[i] = arena.lowest(i, sizes[i])
        arena.occupy(i, offsets[i], sizes[i])
    return Plan(problem, tuple(offsets), method)


class FirstFit:
    """The occupied bytes at each time: a segment tree over the steps at which a lifespan starts.

    A node's `whole` is the union of buffers alive over all of its span (and not over its parent's), `part`
    that of all buffers alive somewhere in it. Touching intervals merge; empty ones stay, because TFLM's walk
    stops at an empty buffer as at any other.
    """

    def __init__(self, problem: Problem) -> None:
        steps = {step: k for k, step in enumerate(sorted({buffer.lower for buffer in problem.buffers}))}
        self._leaves = max(1, len(steps))
        self._spans = _spans(problem, steps)
        self._whole: list[_Spans] = [[] for _ in range(2 * self._leaves)]
        self._part: list[_Spans] = [[] for _ in range(2 * self._leaves)]

    def lowest(self, buffer: int, size: int) -> int:
        """The lowest offset at which `size` bytes are free during the buffer's life, by TFLM's rule."""
        taken: _Spans = []
        above: set[int] = set()
        for node in self._cover(buffer):
            taken += self._part[node]
            node >>= 1
            while node and node not in above:
                above.add(node)
                taken += self._whole[node]
                node >>= 1
        taken.sort()
        candidate = 0
        for start, end in taken:
            if start - candidate >= size:
                break
            if end > candidate:
                candidate = end
        return candidate

    def occupy(self, buffer: int, offset: int, size: int) -> None:
        """Take `size` bytes from `offset` on during the buffer's life."""
        for node in self._cover(buffer):
            _add(self._whole[node], offset, offset + size)
            while node and _add(self._part[node], offset, offset + size):  # what a part has, those above it have
                node >>= 1

    def _cover(self, buffer: int) -> list[int]:
        first, end = self._spans[buffer]
        left, right = first + self._leaves, end + self._leaves
        nodes = []
        while left < right:
            if left & 1:
                nodes.append(left)
                left += 1
            if right & 1:
                right -= 1
                nodes.append(right)
            left >>= 1
            right >>= 1
        return nodes


def _spans(problem: Problem, steps: dict[int, int]) -> list[tuple[int, int]]:
    """Each lifespan as a half-open range over the steps at which some lifespan starts.

    Two lifespans meet if and only if one of them is alive where the other starts.
    """
    starts = sorted(steps)
    events = sorted({buffer.upper for buffer in problem.buffers})
    ends = {}
    k = 0
    for upper in events:
        while k < len(starts) and starts[k] < upper:
            k += 1
        ends[upper] = k
    return [(steps[buffer.lower], ends[buffer.upper]) for buffer in problem.buffers]


def _add(spans: _Spans, start: int, end: int) -> bool:
    """Add [start, end) to sorted, disjoint intervals; those that it touches become one. False if one of them has it."""
    low, high = 0, len(spans)
    while low < high:
        middle = (low + high) // 2
        if spans[middle][1] < start:
            low = middle + 1
        else:
            high = middle
    if low < len(spans) and spans[low][0] <= start and end <= spans[low][1]:
        return False
    after = low
    while after < len(spans) and spans[after][0] <= end:
        start, end = min(start, spans[after][0]), max(end, spans[after][1])
        after += 1
    spans[low:after] = [(start, end)]
    return True

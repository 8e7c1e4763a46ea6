# SPDX-License-Identifier: Apache-2.0
"""Steps as loops: a schedule repeats itself but for its first and last rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tflm_zephyr.row_planner.schedule import Step

_LONGEST = 64


@dataclass(frozen=True)
class Loop:
    """`steps`, `times` times."""

    steps: tuple[Step, ...]
    times: int


def folded(steps: Sequence[Step]) -> tuple[Loop, ...]:
    """Loops that unfold to `steps`: from the front, always the one that saves the most steps."""
    found: list[Loop] = []
    plain: list[Step] = []
    at = 0
    while at < len(steps):
        length, times = _best(steps, at)
        if times == 1:
            plain.append(steps[at])
            at += 1
            continue
        if plain:
            found.append(Loop(tuple(plain), 1))
            plain = []
        found.append(Loop(tuple(steps[at : at + length]), times))
        at += length * times
    return (*found, Loop(tuple(plain), 1)) if plain else tuple(found)


def unfolded(loops: Sequence[Loop]) -> Iterator[Step]:
    """The steps one after the other."""
    for loop in loops:
        for _ in range(loop.times):
            yield from loop.steps


def _best(steps: Sequence[Step], at: int) -> tuple[int, int]:
    """Length and turns of the loop at `at` that saves the most steps; (1, 1) for none."""
    best, saved = (1, 1), 0
    for length in range(1, min(_LONGEST, (len(steps) - at) // 2) + 1):
        times = 1
        while steps[at + times * length : at + (times + 1) * length] == steps[at : at + length]:
            times += 1
        if (times - 1) * length > saved:
            best, saved = (length, times), (times - 1) * length
    return best

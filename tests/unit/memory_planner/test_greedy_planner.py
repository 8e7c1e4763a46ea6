# SPDX-License-Identifier: Apache-2.0
"""The greedy planner against a literal transcription of TFLM's, swap by swap and list entry by list entry."""

from __future__ import annotations

import random

import pytest

from tests.helpers.marks import rest_slow
from tflm_zephyr.memory_planner.checker import check_plan
from tflm_zephyr.memory_planner.greedy_planner import FirstFit, greedy
from tflm_zephyr.memory_planner.problem import Buffer, Problem


def tflm_offsets(requests: list[tuple[int, int, int, int]]) -> list[int]:
    """Offsets by TFLM's steps; a request is (size, first, last, offline offset or -1)."""
    count = len(requests)
    sizes, ids, offsets = [0] * count, [0] * count, [-1] * count
    head, tail = 0, count
    for i, (size, _, _, offline) in enumerate(requests):
        if offline == -1:
            tail -= 1
            sizes[tail], ids[tail] = size, i
        else:
            sizes[head], ids[head], offsets[i] = size, i, offline
            head += 1
    swapped = True
    while swapped:
        swapped = False
        for i in range(head + 1, count):
            if sizes[i - 1] < sizes[i]:
                sizes[i - 1], sizes[i] = sizes[i], sizes[i - 1]
                ids[i - 1], ids[i] = ids[i], ids[i - 1]
                swapped = True
    if not count:
        return offsets
    entry_offset, entry_id, following, first = [0] * count, [0] * count, [-1] * count, 0
    entry_id[0] = ids[0]
    if requests[ids[0]][3] == -1:
        offsets[ids[0]] = 0
    entry_offset[0] = offsets[ids[0]]

    def next_active(start: int, begin: int, end: int) -> int:
        entry = first if start == -1 else following[start]
        while entry != -1:
            _, entry_first, entry_last, _ = requests[entry_id[entry]]
            if not (entry_first > end or begin > entry_last):
                return entry
            entry = following[entry]
        return -1

    for new in range(1, count):
        size, begin, end, offline = requests[ids[new]]
        candidate = 0
        if offline == -1:
            prior = -1
            while True:
                nearest = next_active(prior, begin, end)
                if prior != -1:
                    candidate = max(candidate, entry_offset[prior] + requests[entry_id[prior]][0])
                if nearest == -1 or entry_offset[nearest] - candidate >= size:
                    break
                prior = nearest
        else:
            candidate = offline
        offsets[ids[new]] = candidate
        entry_offset[new], entry_id[new] = candidate, ids[new]
        if entry_offset[first] > candidate:
            following[new], first = first, new
            continue
        current = first
        while following[current] != -1 and entry_offset[following[current]] <= candidate:
            current = following[current]
        following[new], following[current] = following[current], new
    return offsets


def random_requests(rng: random.Random) -> list[tuple[int, int, int, int]]:
    steps = rng.choice((1, 3, 10, 40))
    sizes = rng.choice(((16,), (16, 32), (0, 16, 48), tuple(16 * k for k in range(60))))
    fixed = rng.choice((0.0, 0.0, 0.3, 0.9))
    requests = []
    for _ in range(rng.randrange(0, 40)):
        first = rng.randrange(-1, steps)
        last = min(steps, first + rng.choice((0, 1, 2, steps)))
        offline = 16 * rng.randrange(0, 40) if rng.random() < fixed else -1
        requests.append((rng.choice(sizes), first, last, offline))
    return requests


def as_problem(requests: list[tuple[int, int, int, int]]) -> Problem:
    return Problem(
        tuple(
            Buffer(str(i), first, last + 1, size, None if offline == -1 else offline)
            for i, (size, first, last, offline) in enumerate(requests)
        )
    )


@pytest.mark.parametrize("seed", range(120))
def test_every_offset_is_tflms(seed: int) -> None:
    requests = random_requests(random.Random(seed))
    assert list(greedy(as_problem(requests)).offsets) == tflm_offsets(requests)


def test_equal_sizes_are_placed_last_added_first() -> None:
    plan = greedy(Problem(tuple(Buffer(str(i), 0, 1, 16) for i in range(4))))
    assert plan.offsets == (48, 32, 16, 0)


def test_sizes_are_rounded_up_before_they_are_compared() -> None:
    plan = greedy(Problem((Buffer("a", 0, 1, 30), Buffer("b", 0, 1, 17))))
    assert plan.offsets == (32, 0)
    assert plan.size_bytes == 64


def test_a_gap_between_fixed_buffers_is_used() -> None:
    fixed = (Buffer("low", 0, 2, 16, 0), Buffer("high", 0, 2, 16, 48))
    plan = greedy(Problem((*fixed, Buffer("fits", 1, 2, 32), Buffer("too big", 0, 1, 48))))
    assert plan.offsets == (0, 48, 16, 64)


def test_no_buffers_need_no_memory() -> None:
    assert greedy(Problem(())).size_bytes == 0


@pytest.mark.parametrize("life", rest_slow(["chain", "skips"]))
def test_ten_thousand_buffers_take_n_log_n_steps(life: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, looked = random.Random(7), []
    cover = FirstFit._cover

    def counted(arena: FirstFit, buffer: int) -> list[int]:
        nodes = cover(arena, buffer)
        looked.append(len(nodes))
        return nodes

    monkeypatch.setattr(FirstFit, "_cover", counted)
    buffers = []
    for i in range(10_000):
        last = i + 2 if life == "chain" or i % 3 else i + rng.choice((5, 50, 500))
        buffers.append(Buffer(str(i), i, last, 16 * rng.randrange(1, 4000)))
    plan = greedy(Problem(tuple(buffers)))
    assert len(looked) == 2 * 10_000 and sum(looked) < 2 * 10_000 * 2 * 14
    check_plan(plan)

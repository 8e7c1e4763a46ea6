# SPDX-License-Identifier: Apache-2.0
"""The dynamic program against all ways to cut a small chain."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace

from tests.helpers.row_chains import conv, random_chain, simulate, tensors
from tflm_zephyr.row_planner import Chain, Operation, Way, front
from tflm_zephyr.row_planner.front import PACES
from tflm_zephyr.row_planner.places import row_places
from tflm_zephyr.row_planner.schedule import scheduled


def alive(chain: Chain, first: int, last: int, without: set[int]) -> int:
    """Bytes that the operations first <= k < last need, or that outlive them, counted tensor by tensor."""
    total = 0
    for k, tensor in enumerate(chain.tensors):
        needed = [n for n, operation in enumerate(chain.operations) if k in (*operation.reads, *operation.writes)]
        needed += [-1] * (k in chain.inputs) + [len(chain.operations)] * (k in chain.outputs)
        if needed and min(needed) < last and max(needed) >= first and k not in without:
            total += chain.aligned(tensor.size)
    return total


def by_rows(chain: Chain, first: int, last: int) -> Iterator[tuple[int, float]]:
    """Bytes and cost of a segment at each pace."""
    for pace in PACES:
        schedule = scheduled(chain, first, last, pace)
        total = alive(chain, first, last, set(schedule.capacities))
        shared = [
            min(chain.aligned(chain.tensors[one].size),
                chain.aligned(chain.tensors[other].size) - chain.aligned(max(0, distance)))
            for (one, other), distance in schedule.distances.items()
        ]  # fmt: skip
        _, buffers = row_places(chain, schedule)  # tested by itself
        scratch = max(chain.aligned(operation.scratch) for operation in chain.operations[first:last])
        yield total - max(shared, default=0) + buffers + scratch, schedule.cost(chain)


def every_cut(chain: Chain) -> Iterator[tuple[int, float]]:
    """Bytes and cost of all ways to cut the chain."""
    count = len(chain.operations)
    for cuts in itertools.product((False, True), repeat=count - 1):
        places = [0, *(k + 1 for k, cut in enumerate(cuts) if cut), count]
        options = []
        for first, last in itertools.pairwise(places):
            found = []
            if last == first + 1:
                operation = chain.operations[first]
                whole = alive(chain, first, last, set()) + chain.aligned(operation.scratch)
                found = [(whole, 0.0), *((whole - way.saved, way.cost) for way in operation.ways)]
            if all(operation.streams for operation in chain.operations[first:last]):
                found += by_rows(chain, first, last)
            options.append(set(found))
        for chosen in itertools.product(*options):
            yield max(size for size, _ in chosen), sum(cost for _, cost in chosen)


def test_brute_force_finds_nothing_better() -> None:
    rng = random.Random(7)
    for _ in range(12):
        chain = random_chain(rng, operations=4)
        cuts = front(chain)
        best: dict[int, float] = {}
        for size, cost in every_cut(chain):
            best[size] = min(cost, best.get(size, cost))
        smallest = min(best)
        assert cuts[0].bytes == smallest
        assert cuts[0].cost == best[smallest]
        for size, cost in best.items():
            assert any(cut.bytes <= size and cut.cost <= cost for cut in cuts), "a better cut was missed"


def test_every_operation_is_in_one_segment() -> None:
    rng = random.Random(3)
    for _ in range(10):
        chain = random_chain(rng)
        for cut in front(chain):
            found = [k for segment in cut.segments for k in range(segment.first, segment.last)]
            assert found == list(range(len(chain.operations)))
            assert cut.bytes == max(segment.bytes for segment in cut.segments)


def test_operations_on_whole_tensors_cut_the_chain() -> None:
    whole = Operation((1,), (2,), ways=(Way(100, 3.0),))
    chain = Chain(tensors((20,) * 4, (16,) * 4), (conv(0, 1), whole, conv(2, 3)), (0,), (3,))
    for cut in front(chain):
        assert all(segment.pace is None or 1 not in range(segment.first, segment.last) for segment in cut.segments)


def test_without_work_each_operation_is_a_segment() -> None:
    chain = Chain(tensors((20,) * 4, (16, 64, 64, 4)), (conv(0, 1), conv(1, 2), conv(2, 3)), (0,), (3,))
    (smallest, *_) = front(chain)
    assert [segment.last - segment.first for segment in smallest.segments] == [3]
    (shortest, *_) = front(chain, work=0)
    assert [segment.last - segment.first for segment in shortest.segments] == [1, 1, 1]


def supplied(chain: Chain) -> Chain:
    """The chain whose input comes from outside, by an operation of its own."""
    source = Operation((), (0,), step_costs=(1.0,), supplied=True)
    return replace(chain, operations=(source, *chain.operations), inputs=())


def test_what_comes_from_outside_is_never_whole() -> None:
    rng = random.Random(11)
    for _ in range(20):
        chain = supplied(random_chain(rng, operations=5))
        cuts = front(chain)
        assert cuts
        for cut in cuts:
            first = cut.segments[0]
            assert first.pace is not None
            schedule = scheduled(chain, first.first, first.last, first.pace)
            assert 0 in schedule.capacities
            assert max(chain.readers[0]) < first.last
            steps = [*schedule.steps, *((k, chain.rows_of(k)) for k in range(first.last, len(chain.operations)))]
            places, _ = row_places(chain, schedule)
            assert simulate(chain, steps, schedule.capacities, places) is None


def test_rows_from_outside_save_the_input() -> None:
    chain = Chain(tensors((20,) * 3, (64, 64, 4)), (conv(0, 1, size=3), conv(1, 2)), (0,), (2,))
    assert front(supplied(chain))[0].bytes < front(chain)[0].bytes

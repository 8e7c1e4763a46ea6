# SPDX-License-Identifier: Apache-2.0
"""Clean rows and what a hop computes, against all rows of two windows by what they are made of."""

from __future__ import annotations

import random
from collections.abc import Hashable
from dataclasses import replace

import pytest

from tests.helpers.row_chains import conv, random_chain, tensors
from tflm_zephyr.row_planner import Chain, Operation, choices, sliding


def with_source(chain: Chain) -> Chain:
    """The chain with an operation that supplies tensor 0."""
    return replace(chain, operations=(Operation((), (0,), supplied=True), *chain.operations), inputs=())


def made_of(chain: Chain, begin: int) -> dict[int, list[Hashable]]:
    """By tensor, each row by all that it is made of, for the window whose first row is row `begin` of the signal."""
    found: dict[int, list[Hashable]] = {0: [begin + row for row in range(chain.tensors[0].rows)]}
    for k, operation in enumerate(chain.operations[1:]):
        rows = range(chain.tensors[operation.writes[0]].rows)
        taps = [
            tuple(
                found[w.tensor][at] if 0 <= at < len(found[w.tensor]) else "padding"
                for w in operation.windows
                for at in range(row * w.stride - w.padding, row * w.stride - w.padding + w.size)
            )
            for row in rows
        ]
        found[operation.writes[0]] = [
            (k, tap, row if operation.gathers else 0) for row, tap in zip(rows, taps, strict=True)
        ]
    return found


def padded(value: Hashable) -> bool:
    return value == "padding" or (isinstance(value, tuple) and any(padded(one) for one in value if one is not value))


def test_clean_rows_are_those_of_the_window_before() -> None:
    rng = random.Random(4)
    slid = 0
    for _ in range(300):
        chain, hop = with_source(random_chain(rng, 5)), rng.choice((1, 2, 3, 4, 6))
        before, after = (made_of(chain, begin) for begin in (0, hop))
        found = sliding(chain, 0, hop)
        for tensor, slide in found.tensors.items():
            slid += tensor > 0
            assert slide.shift * slide.stride == hop
            clean = [row for row in range(slide.rows) if not padded(after[tensor][row])]
            assert clean == list(range(slide.first, slide.last + 1))
            for row in range(slide.first, slide.new):
                assert after[tensor][row] == before[tensor][row + slide.shift]
            assert slide.new < slide.rows
    assert slid > 200


@pytest.mark.parametrize(
    ("operation", "hop", "why"),
    [
        (conv(0, 1, size=3, stride=2), 3, "a row for every 2 rows"),
        (conv(0, 1, size=8), 3, "keeps no row"),
        (Operation((0,), (1,)), 1, "does not run row by row"),
        (conv(0, 1), 10, "leaves none of the window's 10"),
    ],
)
def test_what_does_not_slide_has_a_reason(operation: Operation, hop: int, why: str) -> None:
    chain = with_source(Chain(tensors((10, 3), (4, 4)), (operation,), (0,), (1,)))
    found = sliding(chain, 0, hop)
    assert found.end == 1
    assert why in found.why


def test_fewer_kept_rows_are_more_computed_ones() -> None:
    layers = [conv(k, k + 1, size=3, padding=1) for k in range(4)]
    chain = with_source(Chain(tensors((20,) * 5, (8,) * 5), tuple(layers), (0,), (4,)))
    found = choices(chain, sliding(chain, 0, 1).tensors, 5)
    work = [sum(sum(hop.calls(k)) for k in hop.operations) for hop in found]
    kept = [sum(20 - hop.base(tensor) for tensor in range(5)) for hop in found]
    assert work == sorted(set(work))
    assert kept == sorted(set(kept), reverse=True)
    assert work[0] == sum(2 * k + 1 for k in range(1, 5))
    assert found[-1].ahead == {0: 0, 1: 7, 2: 6, 3: 5, 4: 4}

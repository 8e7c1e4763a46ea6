# SPDX-License-Identifier: Apache-2.0
"""Setting aside what finds a place in any case changes no answer."""

from __future__ import annotations

import random

import pytest

from tests.helpers.packing_cases import GAPS, Piece, assert_packed, cut, peak, sections
from tflm_zephyr.memory_planner.capacity_search import fit
from tflm_zephyr.memory_planner.reduction import Pieces, fit_reduced, pieces


def listed(given: list[Piece]) -> Pieces:
    found = pieces([p[0] for p in given], [p[1] for p in given], [p[2] for p in given], 10**6)
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(40))
def test_the_answer_is_that_of_the_whole(seed: int) -> None:
    rng = random.Random(seed)
    given = [(low, low + rng.randrange(1, 5), rng.randrange(1, 9)) for low in rng.choices(range(20), k=16)]
    for capacity in range(peak(given) - 1, peak(given) + 3):
        whole, reduced = fit(sections(given), capacity, 10**6), fit_reduced(listed(given), capacity, 10**6)
        assert (whole.offsets is None, whole.proven) == (reduced.offsets is None, reduced.proven)
        if reduced.offsets is not None:
            assert_packed(given, reduced.offsets, capacity)


@pytest.mark.parametrize(("given", "most"), GAPS)
def test_a_proof_for_what_is_hard_holds_for_all(given: list[Piece], most: int) -> None:
    more = [*given, *((low, low + 2, 1) for low in range(30, 90, 2))]
    refused = fit_reduced(listed(more), most, 10**6)
    assert refused.offsets is None and refused.proven
    found = fit_reduced(listed(more), most + 1, 10**6)
    assert found.offsets is not None
    assert_packed(more, found.offsets, most + 1)


def test_a_long_row_of_small_buffers_takes_no_search() -> None:
    rng = random.Random(0)
    row = [(low, low + 2, rng.randrange(1, 9)) for low in range(1000)]
    result = fit_reduced(listed(row), 40, 0)
    assert result.offsets is not None and result.work == 0
    assert_packed(row, result.offsets, 40)


def test_a_capacity_of_the_largest_buffer_alone() -> None:
    assert fit_reduced(listed([(0, 1, 5), (1, 2, 5), (2, 3, 1)]), 5, 10**6).offsets is not None
    refused = fit_reduced(listed([(0, 1, 5), (1, 2, 5)]), 4, 10**6)
    assert refused.offsets is None and refused.proven


def test_pieces_that_all_meet_are_too_many_pairs() -> None:
    assert pieces([0] * 100, [1] * 100, [1] * 100, 4950) is not None
    assert pieces([0] * 100, [1] * 100, [1] * 100, 4949) is None


@pytest.mark.parametrize("seed", range(5))
def test_work_is_for_all_groups_together(seed: int) -> None:
    given = [(low + 100 * k, high + 100 * k, size) for k in range(5) for low, high, size in cut(seed + k, 60)]
    assert fit_reduced(listed(given), 64, 5000).work < 60_000

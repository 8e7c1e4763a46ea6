# SPDX-License-Identifier: Apache-2.0
"""Schedules against a simulation that keeps every row by its number."""

from __future__ import annotations

import random

import pytest

from tests.helpers.row_chains import conv, random_chain, simulate, tensors
from tflm_zephyr.row_planner import Chain, Operation, Pace, Window
from tflm_zephyr.row_planner.schedule import scheduled

PACES = (Pace(1, 1), Pace(1, 2), Pace(1, 0), Pace(2, 0), Pace(4, 0), Pace(3, 2))


def test_a_window_has_only_rows_that_exist() -> None:
    window = Window(0, size=5, stride=2, padding=3)
    assert [(window.first(row), window.end(row, 6)) for row in range(4)] == [(0, 2), (0, 4), (1, 6), (3, 6)]
    assert Window(0, size=2, padding=4).end(0, 9) == 0


def test_a_pointwise_and_a_window_of_three() -> None:
    chain = Chain(tensors((8, 8, 8), (4, 10, 6)), (conv(0, 1), conv(1, 2, size=3, padding=1)), (0,), (2,))
    schedule = scheduled(chain, 0, 2, Pace())
    assert schedule.steps[:6] == ((0, 1), (0, 1), (1, 1), (0, 1), (1, 1), (0, 1))
    assert schedule.capacities == {1: 3}
    # Behind output row 0 comes input row 2, so that the output may reach two input rows: 6 - 8 bytes.
    assert schedule.distances == {(0, 2): max(6 * (row + 1) - 4 * (row + 2) for row in range(6))}


def test_a_residual_keeps_the_rows_that_its_sum_needs() -> None:
    both = Operation((1, 3), (4,), (Window(1), Window(3)))
    chain = Chain(
        tensors((9,) * 5, (4,) * 5),
        (conv(0, 1), conv(1, 2, size=3, padding=1), conv(2, 3, size=3, padding=1), both),
        (0,),
        (4,),
    )
    assert scheduled(chain, 0, 4, Pace()).capacities == {1: 3, 2: 3, 3: 1}


def test_an_operation_that_gathers_takes_in_rows_as_they_come() -> None:
    chain = Chain(
        tensors((6, 6, 1), (4, 8, 8)),
        (conv(0, 1), Operation((1,), (2,), (Window(1, size=6),), gathers=True)),
        (0,),
        (2,),
    )
    schedule = scheduled(chain, 0, 2, Pace())
    assert schedule.steps == ((0, 1), (1, 1)) * 6
    assert schedule.capacities == {1: 1}


def test_rows_that_nobody_needs_are_not_computed() -> None:
    chain = Chain(tensors((9, 9, 4), (4, 4, 4)), (conv(0, 1), conv(1, 2, size=2, stride=2)), (0,), (2,))
    assert scheduled(chain, 0, 2, Pace()).steps.count((0, 1)) == 8


@pytest.mark.parametrize("pace", PACES)
def test_random_chains_find_their_rows(pace: Pace) -> None:
    rng = random.Random(str(pace))
    for _ in range(40):
        chain = random_chain(rng)
        schedule = scheduled(chain, 0, len(chain.operations), pace)
        assert simulate(chain, schedule.steps, schedule.capacities) is None
        for tensor, rows in schedule.capacities.items():
            less = {**schedule.capacities, tensor: rows - 1}
            assert simulate(chain, schedule.steps, less) is not None, "a buffer has a row too many"


def test_the_cost_is_that_of_calls_and_moves() -> None:
    pointwise = conv(0, 1, step_costs=(15, 12))
    chain = Chain(tensors((8, 8, 8), (4, 10, 6)), (pointwise, conv(1, 2, size=3, padding=1)), (0,), (2,), move_cost=0.5)
    assert scheduled(chain, 0, 2, Pace()).cost(chain) == 8 * 15 + 8 * 2 * 10 * 0.5

# SPDX-License-Identifier: Apache-2.0
"""Row buffers that share bytes never hold rows at once that are still read."""

from __future__ import annotations

import random

from tests.helpers.row_chains import conv, random_chain, simulate, tensors
from tflm_zephyr.row_planner import Chain, Pace
from tflm_zephyr.row_planner.places import row_places
from tflm_zephyr.row_planner.schedule import scheduled


def test_rows_that_are_read_at_once_share_their_place() -> None:
    windows = [conv(k, k + 1, size=3 if k % 2 else 1, padding=k % 2) for k in range(6)]
    chain = Chain(tensors((9,) * 7, (16,) * 7), tuple(windows), (0,), (6,))
    schedule = scheduled(chain, 0, 6, Pace())
    places, total = row_places(chain, schedule)
    assert schedule.capacities == {1: 3, 2: 1, 3: 3, 4: 1, 5: 3}
    assert places[2] == places[4]
    assert total == (3 + 3 + 3 + 1) * 16


def test_random_chains_find_their_rows_in_shared_places() -> None:
    rng = random.Random(11)
    shared = 0
    for _ in range(80):
        chain = random_chain(rng)
        schedule = scheduled(chain, 0, len(chain.operations), Pace(rng.choice((1, 1, 2)), rng.choice((0, 1, 2))))
        places, total = row_places(chain, schedule)
        assert simulate(chain, schedule.steps, schedule.capacities, places) is None
        sizes = {t: chain.aligned(rows * chain.tensors[t].row_bytes) for t, rows in schedule.capacities.items()}
        assert max((places[t] + size for t, size in sizes.items()), default=0) <= total <= sum(sizes.values())
        shared += total < sum(sizes.values())
    assert shared > 5

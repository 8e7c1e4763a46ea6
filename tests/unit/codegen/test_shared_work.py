# SPDX-License-Identifier: Apache-2.0
"""Work that ways of an app share is done once for what it depends on."""

from __future__ import annotations

import pytest

from tflm_zephyr.codegen.shared_work import SharedWork


def test_each_result_is_made_once() -> None:
    shared, made = SharedWork(), iter(range(9))
    assert [shared.once("arena", key, lambda: next(made)) for key in ("a", "b", "a")] == [0, 1, 0]
    assert shared.once("model", "a", lambda: next(made)) == 2
    assert shared.counts == {"arena": 2, "model": 1}


def test_a_failure_is_no_result() -> None:
    shared = SharedWork()
    with pytest.raises(ZeroDivisionError):
        shared.once("arena", "a", lambda: 1 // 0)
    assert shared.once("arena", "a", lambda: 1) == 1

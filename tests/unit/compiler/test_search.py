# SPDX-License-Identifier: Apache-2.0
"""The search for a way to run a model: wishes and budgets, and what is made only once for all of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.helpers.architectures import mobilenet
from tflm_zephyr.compiler import CompilerOptions, Search
from tflm_zephyr.compiler.compilation import LayerSource, UnplacedModel
from tflm_zephyr.errors import PlanError
from tflm_zephyr.kernels import kernel_library
from tflm_zephyr.model import parse_model

NET = parse_model(mobilenet(32, 0.5, colours=1))
M4 = (kernel_library("cmsis_nn", dsp=True),)
ROWS = CompilerOptions(rows=True)
OURS = CompilerOptions(rows=True, fast=True, pick=True)


@pytest.fixture(scope="module")
def search() -> Search:
    return Search(NET, M4)


def test_points_of_the_front_trade_ram_for_work(search: Search) -> None:
    front = search.front(ROWS)
    sizes = [point.compiled.arena_bytes for point in front]
    assert len(front) > 1 and sizes == sorted(sizes)
    assert [point.slower for point in front] == sorted((point.slower for point in front), reverse=True)


@pytest.mark.parametrize("options", [CompilerOptions(), OURS], ids=["CMSIS-NN", "ours"])
def test_a_budget_is_kept_at_the_least_cost(search: Search, options: CompilerOptions) -> None:
    whole = search.best(replace(options, rows=False)).arena_bytes
    least = search.front(replace(options, rows=True))[0].compiled.arena_bytes
    assert least < whole
    found = search.best(replace(options, rows=False, ram=least))
    assert found.segments and found.arena_bytes <= least
    assert search.best(replace(options, rows=False, ram=whole)).slower <= search.best(options).slower
    assert not search.best(replace(options, rows=False, ram=1 << 20)).segments


def test_a_budget_that_nothing_meets_is_refused(search: Search) -> None:
    with pytest.raises(PlanError, match="RAM"):
        search.best(replace(OURS, rows=False, ram=64))


def test_without_flash_for_our_kernels_none_is_taken(search: Search) -> None:
    ours, none = (search.best(replace(OURS, more_flash=flash)) for flash in (None, -1_000_000))
    assert any(layer.fast for layer in ours.layers)
    assert not any(layer.fast for layer in none.layers)


def test_layers_are_made_once_for_a_choice_of_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    made: Counter[object] = Counter()
    real = LayerSource.parts

    def parts(source: LayerSource, fast: object) -> UnplacedModel:
        made[fast if isinstance(fast, bool) else "a choice"] += 1
        return real(source, fast)  # type: ignore[arg-type]

    monkeypatch.setattr(LayerSource, "parts", parts)
    search = Search(NET, M4)
    assert search.best(ROWS) is search.best(replace(ROWS))
    search.front(ROWS)
    search.best(CompilerOptions())
    search.best(replace(CompilerOptions(), slower=0.5))
    assert made == {False: 1}

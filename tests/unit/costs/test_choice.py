# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from itertools import product

import pytest

from tflm_zephyr.costs import Candidate, LayerOptions, Work, choose

PIECES = {"a": {"a", "common"}, "b": {"b", "common"}, "c": {"c"}}
BYTES = {"a": 900, "b": 500, "c": 700, "common": 400}


def library_bytes(kernels: Collection[str]) -> int:
    return sum(BYTES[piece] for piece in set().union(*(PIECES[kernel] for kernel in kernels)))


def option(
    function: str, code: int, own: int, kernel: str, other: int, more: int = 0, scratch: int = 0
) -> LayerOptions:
    first = Candidate("own", Work(own, own), 100 + more, scratch, function, code)
    return LayerOptions(first, Candidate(kernel, Work(other, other), 100, 0))


def flash(layers: Sequence[LayerOptions], own: Sequence[bool]) -> int:
    taken = [layer.own if takes else layer.other for layer, takes in zip(layers, own, strict=True)]
    functions = {one.function: one.code_bytes for one in taken if one.function}
    library = library_bytes({one.kernel for one in taken if not one.function})
    return sum(functions.values()) + library + sum(one.own_bytes for one in taken)


def cycles(layers: Sequence[LayerOptions], own: Sequence[bool]) -> int:
    return sum((layer.own if takes else layer.other).work.cycles for layer, takes in zip(layers, own, strict=True))


def test_without_a_budget_each_layer_has_the_faster_kernel() -> None:
    layers = [option("f", 1000, 10, "a", 20), option("g", 1000, 30, "a", 20)]
    assert choose(layers, library_bytes) == (True, False)


def test_ties_go_to_less_scratch_and_then_to_fewer_constants() -> None:
    same = option("f", 1000, 20, "a", 20)
    assert choose([same], library_bytes) == (True,)
    assert choose([option("f", 0, 20, "a", 20, scratch=8)], library_bytes) == (False,)
    assert choose([option("f", 0, 20, "a", 20, more=4)], library_bytes) == (False,)


def test_no_more_flash_replaces_the_library_where_its_code_goes() -> None:
    layers = [option("f", 1000, 10, "a", 20), option("f", 1000, 10, "a", 20)]
    assert choose(layers, library_bytes, 0) == (True, True)
    assert choose([*layers, option("g", 2000, 10, "a", 20)], library_bytes, 0) == (False, False, False)


def test_a_shared_function_is_paid_once() -> None:
    layers = [option("f", 600, 10, "a", 20)] * 3 + [option("g", 2000, 1, "a", 20)]
    assert choose(layers, library_bytes, 600) == (True, True, True, False)


@pytest.mark.parametrize("seed", range(40))
def test_the_choice_is_the_best_of_all(seed: int) -> None:
    rng = random.Random(seed)
    layers = [
        option(
            rng.choice("fghi"), 0, rng.randint(1, 50), rng.choice("abc"), rng.randint(1, 50), rng.choice((0, 40, 200))
        )
        for _ in range(7)
    ]
    sizes = {name: rng.randint(100, 1500) for name in "fghi"}
    layers = [
        LayerOptions(
            Candidate("own", one.own.work, one.own.own_bytes, 0, one.own.function, sizes[one.own.function]),
            one.other,
        )
        for one in layers
    ]
    more = rng.choice((0, 300, 1000, 3000))
    limit = flash(layers, [False] * 7) + more
    found = choose(layers, library_bytes, more)
    fitting = [own for own in product((False, True), repeat=7) if flash(layers, own) <= limit]
    assert flash(layers, found) <= limit
    assert cycles(layers, found) == min(cycles(layers, own) for own in fitting)

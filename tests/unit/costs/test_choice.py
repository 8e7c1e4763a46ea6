# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import product

import pytest

from tflm_zephyr.costs import Candidate, LayerOptions, Price, choose

PIECES = {"a": {"a", "common"}, "b": {"b", "common"}, "c": {"c"}}
BYTES = {"a": 900, "b": 500, "c": 700, "common": 400}


def library_bytes(kernels: Collection[str]) -> int:
    return sum(BYTES[piece] for piece in set().union(*(PIECES[kernel] for kernel in kernels)))


def option(
    function: str, code: int, own: int, kernel: str, other: int, more: int = 0, scratch: int = 0
) -> LayerOptions:
    first = Candidate("own", Price(own, own, 0.0), 100 + more, scratch, function, code)
    return LayerOptions((first, Candidate(kernel, Price(other, other, 0.0), 100, 0)))


def taken(layers: Sequence[LayerOptions], numbers: Sequence[int]) -> list[Candidate]:
    return [layer.candidates[number] for layer, number in zip(layers, numbers, strict=True)]


def flash(layers: Sequence[LayerOptions], numbers: Sequence[int]) -> int:
    found = taken(layers, numbers)
    functions = {one.function: one.code_bytes for one in found if one.function}
    library = library_bytes({one.kernel for one in found if not one.function})
    return sum(functions.values()) + library + sum(one.own_bytes for one in found)


def cycles(layers: Sequence[LayerOptions], numbers: Sequence[int]) -> int:
    return sum(one.cycles for one in taken(layers, numbers))


def test_without_a_budget_each_layer_has_the_faster_kernel() -> None:
    layers = [option("f", 1000, 10, "a", 20), option("g", 1000, 30, "a", 20)]
    assert choose(layers, library_bytes) == (0, 1)


def test_ties_go_to_less_scratch_and_then_to_fewer_constants() -> None:
    same = option("f", 1000, 20, "a", 20)
    assert choose([same], library_bytes) == (0,)
    assert choose([option("f", 0, 20, "a", 20, scratch=8)], library_bytes) == (1,)
    assert choose([option("f", 0, 20, "a", 20, more=4)], library_bytes) == (1,)


def test_no_more_flash_replaces_the_library_where_its_code_goes() -> None:
    layers = [option("f", 1000, 10, "a", 20), option("f", 1000, 10, "a", 20)]
    assert choose(layers, library_bytes, 0) == (0, 0)
    assert choose([*layers, option("g", 2000, 10, "a", 20)], library_bytes, 0) == (1, 1, 1)


def test_a_shared_function_is_paid_once() -> None:
    layers = [option("f", 600, 10, "a", 20)] * 3 + [option("g", 2000, 1, "a", 20)]
    assert choose(layers, library_bytes, 600) == (0, 0, 0, 1)


def random_layer(rng: random.Random, sizes: Mapping[str, int], kernels: str, count: int) -> LayerOptions:
    """A layer with `count` candidates of ours, and CMSIS-NN's kernels, of which one or two take it."""
    ours = [
        Candidate("own", Price(time, time, 0.0), rng.choice((100, 140, 300)), 0, function, sizes[function])
        for function, time in ((rng.choice(sorted(sizes)), rng.randint(1, 50)) for _ in range(count))
    ]
    others = [
        Candidate(kernel, Price(time, time, 0.0), 100, 0)
        for kernel, time in ((kernel, rng.randint(1, 50)) for kernel in rng.sample(kernels, rng.randint(1, 2)))
    ]
    return LayerOptions((*ours, *others))


@pytest.mark.parametrize(("count", "most"), [(7, 1), (6, 2), (4, 4)])
@pytest.mark.parametrize("seed", range(25))
def test_the_choice_is_the_best_of_all(seed: int, count: int, most: int) -> None:
    """Layers that share functions of ours in any way, by trying all of their candidates."""
    rng = random.Random(seed)
    sizes = {name: rng.randint(100, 1500) for name in "fghij"}
    layers = [random_layer(rng, sizes, "abc", rng.randint(1, most)) for _ in range(count)]
    limit = flash(layers, [-1] * count) + (more := rng.choice((0, 300, 1000, 3000)))
    found = choose(layers, library_bytes, more)
    every = product(*(range(len(layer.candidates)) for layer in layers))
    fitting = [numbers for numbers in every if flash(layers, numbers) <= limit]
    assert flash(layers, found) <= limit
    assert cycles(layers, found) == min(cycles(layers, numbers) for numbers in fitting)


def test_code_that_may_be_larger_counts_as_large() -> None:
    sure = Candidate("own", Price(1, 1, 0.0), 0, 0, "f", 900)
    unsure = replace(sure, unsure_bytes=200)
    library = Candidate("a", Price(9, 9, 0.0), 0, 0)
    assert [choose([LayerOptions((one, library))], library_bytes, 0) for one in (sure, unsure)] == [(0,), (0,)]
    assert [choose([LayerOptions((one, library))], library_bytes, 0, spare=350) for one in (sure, unsure)] == [
        (0,), (1,),
    ]  # fmt: skip

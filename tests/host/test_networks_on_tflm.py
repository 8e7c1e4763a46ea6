# SPDX-License-Identifier: Apache-2.0
"""Random convolutional networks: the same bytes with outputs over inputs, and with operators in another order."""

from __future__ import annotations

import numpy
import pytest

pytest.importorskip("tflite_micro")

from tests.helpers.heads import better_order, plan_head
from tests.helpers.networks import network
from tests.helpers.small_models import converted
from tests.helpers.tflm_digests import digests
from tflm_zephyr.arena.given_offsets import given_plan
from tflm_zephyr.host import run_many
from tflm_zephyr.kernels.libraries import host
from tflm_zephyr.model.reader import parse_model
from tflm_zephyr.model.types import Model
from tflm_zephyr.model.writer import with_offline_plan, without_conversions

HOST = host()


def same_bytes(model: Model, plain: list[str] | None) -> int:
    """How many outputs overlap inputs in the model's plan, under which its outputs are those of `plain`."""
    head = plan_head(model, HOST, in_place=[HOST])
    assert head.lower_bound_bytes <= head.head_bytes <= head.packed_bytes <= head.greedy_bytes
    assert digests(model, [head.offsets]) == plain
    if head.offsets is not None:
        given = given_plan(parse_model(with_offline_plan(model, head.offsets)), HOST)
        assert given is not None and given.size_bytes == head.head_bytes
    return head.in_place_count


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["int8", "float32"])
def test_overlaps_and_orders(kind: str) -> None:
    overlapping = reordered = 0
    for seed in range(15):
        model = parse_model(network(seed, kind))
        plain = digests(model, [None])
        assert plain is not None
        overlapping += same_bytes(model, plain) > 0
        better = better_order(model, HOST, in_place=True)
        if better is not None:
            reordered += 1
            same_bytes(better[0], plain)
    assert overlapping >= 12
    assert reordered >= 3


@pytest.mark.parametrize("engine", ["tflm", "litert"])
def test_without_conversions_are_the_integers_of_the_model(engine: str) -> None:
    model = parse_model(converted())
    given = numpy.arange(-4, 4, dtype="int8") * 5
    (real, same), (inner, kept) = (
        run_many(one.data, [(data.tobytes(),)], engine=engine).outputs
        for one, data in ((model, given * numpy.float32(0.05)), (without_conversions(model), given))
    )
    assert numpy.array_equal(numpy.frombuffer(real, "float32"), numpy.frombuffer(inner, "int8") * numpy.float32(0.04))
    assert same == kept and len({*inner}) > 4

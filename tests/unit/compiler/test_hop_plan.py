# SPDX-License-Identifier: Apache-2.0
"""Windows that overlap: ways to run a hop, proven on their calls, each planted fault caught, refusals with reasons."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.helpers.architectures import flat_convolutions, mobilenet
from tests.helpers.small_models import dense
from tests.helpers.stateful_models import stateful
from tflm_zephyr.compiler import CompiledModel, CompilerOptions, Search, compiled_work, hop_work
from tflm_zephyr.compiler.plan_proof import prove
from tflm_zephyr.compiler.row_program import HopProgram
from tflm_zephyr.costs import Costs, Prices
from tflm_zephyr.errors import ModelError, PlanError
from tflm_zephyr.kernels import kernel_library
from tflm_zephyr.model import parse_model

PLAIN = (kernel_library("cmsis_nn"),)
MODEL = parse_model(mobilenet(64, 0.25))


def options(hop: int, **more: object) -> CompilerOptions:
    return replace(CompilerOptions(stream=True, hop=hop), **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def ways() -> tuple[CompiledModel, ...]:
    return Search(MODEL, PLAIN).hops(options(8))


def hop_of(compiled: CompiledModel) -> HopProgram:
    assert compiled.hop is not None
    return compiled.hop


def with_hop(compiled: CompiledModel, hop: HopProgram) -> CompiledModel:
    old = compiled.streaming_layer
    assert old is not None
    new = replace(old, segment=replace(old.segment, hop=hop))
    return replace(compiled, layers=tuple(new if layer is old else layer for layer in compiled.layers))


def test_less_work_is_more_ram(ways: tuple[CompiledModel, ...]) -> None:
    sizes, cycles = [way.arena_bytes for way in ways], [hop_of(way).cycles for way in ways]
    assert len(ways) > 3
    assert sizes == sorted(sizes)
    assert cycles == sorted(cycles, reverse=True)
    whole = Search(MODEL, PLAIN).best(CompilerOptions())
    assert max(cycles) < sum(layer.cycles for layer in whole.layers)


def test_budgets_choose_the_way(ways: tuple[CompiledModel, ...]) -> None:
    search = Search(MODEL, PLAIN)
    assert search.best(options(8, slower=0.0)).arena_bytes == ways[-1].arena_bytes
    assert search.best(options(8, slower=10.0)).arena_bytes == ways[0].arena_bytes
    assert search.best(options(8, ram=ways[1].arena_bytes)).arena_bytes == ways[1].arena_bytes
    with pytest.raises(PlanError, match=f"takes {ways[0].arena_bytes:,} bytes of RAM"):
        search.best(options(8, ram=ways[0].arena_bytes - 1))


def faults(hop: HopProgram) -> Iterator[tuple[str, HopProgram]]:
    """Programs with a fault each."""
    for k, buffer in enumerate(hop.buffers):
        if buffer.base < buffer.new and buffer.spot is not None and buffer.spot.kept:
            short = replace(buffer, base=buffer.base + 1)
            yield f"buffer {k} has a row less", replace(hop, buffers=(*hop.buffers[:k], short, *hop.buffers[k + 1 :]))
            other = next(one for one in hop.buffers if one is not buffer and one.spot and one.spot.kept)
            over = replace(buffer, spot=other.spot)
            yield f"buffer {k} lies over another", replace(hop, buffers=(*hop.buffers[:k], over, *hop.buffers[k + 1 :]))
    for k, move in enumerate(hop.moves):
        rest, row_bytes = (hop.moves[:k], hop.moves[k + 1 :]), hop.buffers[move.buffer].row_bytes
        yield f"move {k} is left out", replace(hop, moves=(*rest[0], *rest[1]))
        less = replace(move, size=move.size - row_bytes)
        yield f"move {k} forgets a row", replace(hop, moves=(*rest[0], less, *rest[1]))
        far = replace(move, by=move.by + row_bytes)
        yield f"move {k} goes too far", replace(hop, moves=(*rest[0], far, *rest[1]))
    for name in ("pushed", "invoked"):
        calls = getattr(hop, name)
        for k, call in enumerate(calls):
            yield f"{name} {k} is left out", replace(hop, **{name: (*calls[:k], *calls[k + 1 :])})
            if call.count > 1:
                fewer = replace(call, count=call.count - 1)
                yield f"{name} {k} has a row less", replace(hop, **{name: (*calls[:k], fewer, *calls[k + 1 :])})
    yield "the state is in the rows", replace(hop, state=16)


@pytest.mark.parametrize("place", [0, -1])
def test_planted_faults_are_refused(ways: tuple[CompiledModel, ...], place: int) -> None:
    compiled = ways[place]
    prove(compiled, PLAIN)
    tried = 0
    for what, hop in faults(hop_of(compiled)):
        tried += 1
        try:
            prove(with_hop(compiled, hop), PLAIN)
        except PlanError:
            continue
        pytest.fail(what)
    assert tried > 40


def test_other_layers_leave_kept_rows_alone(ways: tuple[CompiledModel, ...]) -> None:
    compiled = ways[-1]
    segment, hop = compiled.streaming_layer, hop_of(compiled)
    assert segment is not None
    (tensor,) = compiled.model.main.operators[compiled.layers[-1].operator].outputs
    moved = [(hop.buffers[move.buffer], move.to + move.by) for move in hop.moves]
    places = [compiled.spot(segment, buffer.tensor, buffer.spot) + at for buffer, at in moved]
    for place in (compiled.kept, *places):
        with pytest.raises(PlanError):
            prove(replace(compiled, offsets={**compiled.offsets, tensor: place // 16 * 16}), PLAIN)


def test_pixels_are_rows_of_a_signal_one_row_high() -> None:
    compiled = Search(parse_model(flat_convolutions()), PLAIN).best(options(1))
    costs = Costs((Prices("cortex-m3", "cmsis_nn", PLAIN[0].commit),))
    work = hop_work(compiled, costs)
    assert compiled.stream is not None
    assert compiled.stream.rows == 64
    assert work.cycles < 0.5 * work.whole_cycles
    assert all(layer.computed < layer.rows for layer in work.layers if layer.rows)
    assert compiled_work(compiled, costs).cycles == pytest.approx(work.cycles, rel=1e-3)
    assert sum(layer.whole_cycles for layer in work.layers) == pytest.approx(work.whole_cycles, abs=1)


@pytest.mark.parametrize(
    ("model", "hop", "why"),
    [
        (mobilenet(64, 0.25), 3, r"a row for every 2 rows of the input.*Take a multiple of 2 rows, 60 at most"),
        (mobilenet(64, 0.25), 62, r"layer 0 .* keeps no row.*Take a multiple of 2 rows, 60 at most"),
        (mobilenet(64, 0.25), 64, r"--hop 64: a hop of 64 rows leaves none of the window's 64.*, 60 at most"),
        (flat_convolutions(), 64, r"leaves none of the window's 64.*Take at most \d+"),
        (stateful(), 1, "carries a state from one run to the next: the model is to run once a frame"),
        (dense(), 1, "no input can be streamed"),
    ],
)
def test_why_a_model_has_no_hop(model: bytes, hop: int, why: str) -> None:
    with pytest.raises(ModelError, match=why):
        Search(parse_model(model), PLAIN).best(options(hop))

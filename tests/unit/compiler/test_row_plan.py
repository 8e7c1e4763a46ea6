# SPDX-License-Identifier: Apache-2.0
"""Plans with segments that run row by row: smaller, proven on their steps, each planted fault caught."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from tests.helpers.architectures import mobilenet
from tflm_zephyr.compiler import CompiledModel, CompilerOptions, Layer, Search, compile_model
from tflm_zephyr.compiler.plan_proof import prove
from tflm_zephyr.compiler.row_program import RowSegment
from tflm_zephyr.errors import PlanError
from tflm_zephyr.kernels import kernel_library
from tflm_zephyr.model import parse_model
from tflm_zephyr.row_planner import Loop

PLAIN = (kernel_library("cmsis_nn"),)
MODEL = parse_model(mobilenet(32, 0.5, colours=1))


@pytest.fixture(scope="module")
def compiled() -> CompiledModel:
    """A small MobileNet whose work may grow by half."""
    return compile_model(MODEL, PLAIN, CompilerOptions(rows=True, slower=0.5))


def segment_of(layer: Layer) -> RowSegment:
    return layer.segment


def changed(compiled: CompiledModel, old: Layer, segment: RowSegment) -> CompiledModel:
    """The model with another segment in the place of that of `old`."""
    new = replace(old, segment=segment)
    return replace(compiled, layers=tuple(new if layer is old else layer for layer in compiled.layers))


def test_rows_make_it_smaller(compiled: CompiledModel) -> None:
    assert compiled.segments
    assert compiled.arena_bytes < 0.7 * compile_model(MODEL, PLAIN).arena_bytes
    held = {
        buffer.tensor for layer in compiled.segments for buffer in segment_of(layer).buffers if buffer.at is not None
    }
    assert held.isdisjoint(compiled.offsets), "a tensor in a row buffer has a place of its own"


def test_without_a_budget_no_layer_runs_by_rows() -> None:
    assert not compile_model(MODEL, PLAIN, CompilerOptions(rows=True, slower=0.0)).segments


@pytest.mark.parametrize("dsp", [False, True])
def test_rows_are_never_larger(dsp: bool) -> None:
    libraries = (kernel_library("cmsis_nn", dsp=dsp),)
    sizes = [
        compile_model(MODEL, libraries, CompilerOptions(rows=True, slower=slower)).arena_bytes
        for slower in (0.0, 0.03, 0.5)
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] <= compile_model(MODEL, libraries, CompilerOptions(slower=0.0)).arena_bytes


def test_a_row_buffer_one_row_too_small_is_caught(compiled: CompiledModel) -> None:
    tried = 0
    for layer in compiled.segments:
        segment = segment_of(layer)
        for k, buffer in enumerate(segment.buffers):
            if buffer.at is None:
                continue
            tried += 1
            small = replace(buffer, capacity=buffer.capacity - 1)
            wrong = replace(segment, buffers=(*segment.buffers[:k], small, *segment.buffers[k + 1 :]))
            with pytest.raises(PlanError, match="layer"):
                prove(changed(compiled, layer, wrong), PLAIN)
    assert tried > 1


def test_row_buffers_over_each_other_are_caught(compiled: CompiledModel) -> None:
    layer = max(compiled.segments, key=lambda layer: len(segment_of(layer).buffers))
    segment = segment_of(layer)
    places = [k for k, buffer in enumerate(segment.buffers) if buffer.at is not None]
    over = replace(segment.buffers[places[1]], at=segment.buffers[places[0]].at)
    buffers = tuple(over if k == places[1] else buffer for k, buffer in enumerate(segment.buffers))
    with pytest.raises(PlanError, match="row"):
        prove(changed(compiled, layer, replace(segment, buffers=buffers)), PLAIN)


def test_a_step_left_out_is_caught(compiled: CompiledModel) -> None:
    for layer in compiled.segments:
        segment = segment_of(layer)
        for k, loop in enumerate(segment.loops):
            for step in range(len(loop.steps)):
                fewer = Loop((*loop.steps[:step], *loop.steps[step + 1 :]), loop.times)
                wrong = replace(segment, loops=(*segment.loops[:k], fewer, *segment.loops[k + 1 :]))
                with pytest.raises(PlanError):
                    prove(changed(compiled, layer, wrong), PLAIN)


def test_an_output_moved_over_unread_rows_is_caught(compiled: CompiledModel) -> None:
    caught = 0
    for layer in compiled.segments:
        for (source, result), _ in segment_of(layer).distances.items():
            for distance in (-64, -256):
                moved = {**compiled.offsets, result: compiled.offsets[source] - distance}
                try:
                    prove(replace(compiled, offsets=moved), PLAIN)
                except PlanError:
                    caught += 1
    assert caught


def test_layers_on_whole_tensors_have_a_reason(compiled: CompiledModel) -> None:
    reasons = compiled.why_no_rows
    inside = {member.operator for layer in compiled.segments for member in layer.members}
    assert reasons.keys().isdisjoint(inside)
    softmax = len(MODEL.main.operators) - 1
    assert reasons[softmax] == "is of a kind that does not run row by row"
    assert "would not make the model smaller" in reasons.values()


def test_the_front_trades_memory_for_work() -> None:
    points = Search(MODEL, PLAIN).front(CompilerOptions())
    sizes = [point.compiled.arena_bytes for point in points]
    costs = [point.slower for point in points]
    assert len(points) >= 4
    assert sizes == sorted(set(sizes))
    assert costs == sorted(set(costs), reverse=True)
    assert costs[-1] == 0.0


def test_the_smallest_way_within_the_work_is_taken() -> None:
    """The cut with the fewest estimated bytes is not it: packed, its plan is 11 % larger."""
    smallest = min(
        point.compiled.arena_bytes for point in Search(MODEL, PLAIN).front(CompilerOptions()) if point.slower <= 0.2
    )
    assert compile_model(MODEL, PLAIN, CompilerOptions(rows=True, slower=0.2)).arena_bytes == smallest


@pytest.mark.slow
def test_the_cheapest_way_that_fits_is_taken() -> None:
    points = Search(MODEL, PLAIN).front(CompilerOptions())
    for point, cheaper in itertools.pairwise(points):
        for ram in (point.compiled.arena_bytes, cheaper.compiled.arena_bytes - 1):
            assert compile_model(MODEL, PLAIN, CompilerOptions(ram=ram)).arena_bytes == point.compiled.arena_bytes


@pytest.mark.slow
def test_too_little_memory_says_how_much_is_missing() -> None:
    least = Search(MODEL, PLAIN).front(CompilerOptions())[0].compiled.arena_bytes
    with pytest.raises(PlanError, match=rf"at least {least:,} bytes of RAM, 100 more than there are"):
        compile_model(MODEL, PLAIN, CompilerOptions(ram=least - 100))


@pytest.mark.slow
@pytest.mark.parametrize("dsp", [False, True])
def test_a_budget_of_ram_takes_no_more_work_than_one_of_work(dsp: bool) -> None:
    libraries = (kernel_library("cmsis_nn", dsp=dsp),)
    for slower in (0.02, 0.05, 0.3):
        one = compile_model(MODEL, libraries, CompilerOptions(rows=True, slower=slower))
        other = compile_model(MODEL, libraries, CompilerOptions(ram=one.arena_bytes))
        assert other.arena_bytes <= one.arena_bytes
        assert other.slower <= one.slower

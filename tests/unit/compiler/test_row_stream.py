# SPDX-License-Identifier: Apache-2.0
"""Models whose input comes row by row: proven on their steps, each planted fault caught, refusals with reasons."""

from __future__ import annotations

from dataclasses import replace

import numpy
import pytest

from tests.helpers.architectures import mobilenet
from tests.helpers.model_builder import ModelBuilder, SubgraphBuilder
from tests.helpers.small_models import dense, unary
from tflm_zephyr.compiler import CompiledModel, CompilerOptions, Layer, Search, compile_model
from tflm_zephyr.compiler.plan_proof import prove
from tflm_zephyr.compiler.row_program import RowSegment, StreamedInput
from tflm_zephyr.errors import ModelError, PlanError
from tflm_zephyr.kernels import kernel_library
from tflm_zephyr.model import parse_model
from tflm_zephyr.row_planner import Loop

PLAIN = (kernel_library("cmsis_nn"),)
MODEL = parse_model(mobilenet(32, 0.5))


@pytest.fixture(scope="module")
def compiled() -> CompiledModel:
    """A small MobileNet whose work may grow by half."""
    return compile_model(MODEL, PLAIN, CompilerOptions(stream=True, slower=0.5))


def streamed(compiled: CompiledModel) -> tuple[Layer, RowSegment, StreamedInput]:
    layer = compiled.streaming_layer
    assert layer is not None
    assert layer.segment.stream is not None
    return layer, layer.segment, layer.segment.stream


def changed(compiled: CompiledModel, segment: RowSegment) -> CompiledModel:
    """The model with another segment in the place of the one that takes rows in."""
    old, _, _ = streamed(compiled)
    new = replace(old, segment=segment)
    return replace(compiled, layers=tuple(new if layer is old else layer for layer in compiled.layers))


def image(main: SubgraphBuilder, shape: tuple[int, ...], name: str = "") -> int:
    return main.tensor(shape, "int8", name, scale=0.05)


def conv(
    main: SubgraphBuilder, source: int, shape: tuple[int, ...], taken: tuple[int, ...], sides: tuple[int, int]
) -> int:
    """One CONV_2D with VALID padding."""
    weights = main.tensor((taken[3], *sides, shape[3]), "int8", scale=[0.004] * taken[3], data="random")
    bias = main.tensor((taken[3],), "int32", scale=[0.0002] * taken[3], data=bytes(4 * taken[3]))
    result = image(main, taken)
    main.op("CONV_2D", [source, weights, bias], [result], options={"padding": 1, "stride_h": 1, "stride_w": 1})
    return result


def test_the_input_is_nowhere_as_a_whole(compiled: CompiledModel) -> None:
    _, segment, stream = streamed(compiled)
    assert (stream.rows, stream.row_bytes, stream.read) == (32, 96, 32)
    (buffer,) = [buffer for buffer in segment.buffers if buffer.tensor == stream.tensor]
    assert buffer.at is not None
    assert buffer.capacity < 5
    assert MODEL.main.inputs[0] not in compiled.offsets
    assert compiled.arena_bytes < compile_model(MODEL, PLAIN, CompilerOptions(rows=True, slower=0.5)).arena_bytes


def test_a_buffer_one_row_too_small_is_caught(compiled: CompiledModel) -> None:
    _, segment, _ = streamed(compiled)
    for k, buffer in enumerate(segment.buffers):
        if buffer.at is not None:
            small = replace(buffer, capacity=buffer.capacity - 1)
            with pytest.raises(PlanError, match="layer"):
                prove(
                    changed(
                        compiled, replace(segment, buffers=(*segment.buffers[:k], small, *segment.buffers[k + 1 :]))
                    ),
                    PLAIN,
                )


def test_each_step_that_takes_rows_in_is_needed(compiled: CompiledModel) -> None:
    _, segment, _ = streamed(compiled)
    tried = 0
    for k, loop in enumerate(segment.loops):
        for step, (number, _) in enumerate(loop.steps):
            if number == len(segment.forms):
                tried += 1
                fewer = Loop((*loop.steps[:step], *loop.steps[step + 1 :]), loop.times)
                with pytest.raises(PlanError):
                    prove(
                        changed(compiled, replace(segment, loops=(*segment.loops[:k], fewer, *segment.loops[k + 1 :]))),
                        PLAIN,
                    )
    assert tried


def test_rows_that_come_too_late_are_caught(compiled: CompiledModel) -> None:
    _, segment, _ = streamed(compiled)
    steps = list(segment.steps())
    at = next(k for k, (number, _) in enumerate(steps) if number < len(segment.forms))
    steps[at - 1], steps[at] = steps[at], steps[at - 1]
    with pytest.raises(PlanError, match="which its buffer does not hold"):
        prove(changed(compiled, replace(segment, loops=(Loop(tuple(steps), 1),))), PLAIN)


def test_a_state_over_rows_is_caught(compiled: CompiledModel) -> None:
    _, segment, stream = streamed(compiled)
    for buffer in segment.buffers:
        if buffer.at is not None:
            with pytest.raises(PlanError, match="overwrites its state"):
                prove(changed(compiled, replace(segment, stream=replace(stream, state=buffer.at))), PLAIN)


@pytest.mark.slow
def test_the_front_has_streamed_ways_alone() -> None:
    points = Search(MODEL, PLAIN).front(CompilerOptions(stream=True))
    assert len(points) > 1
    assert all(point.compiled.stream is not None for point in points)
    sizes = [point.compiled.arena_bytes for point in points]
    assert sizes == sorted(sizes)
    assert compile_model(MODEL, PLAIN, CompilerOptions(stream=True, ram=sizes[1])).arena_bytes == sizes[1]


def test_too_little_work_allowed_says_how_much_there_is() -> None:
    with pytest.raises(PlanError, match=r"streamed input makes \d+\.\d % more work at least, and 0 % is allowed"):
        compile_model(MODEL, PLAIN, CompilerOptions(stream=True, slower=0.0))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_reshapes_come_first(count: int) -> None:
    model = ModelBuilder(seed=1)
    main = model.subgraph()
    source = image(main, (1, 200), "x")
    given = [source]
    for shape in ((20, 10), (1, 20, 10), (1, 20, 10, 1))[-count:]:
        sizes = numpy.array(shape, "int32")
        given.append(image(main, shape))
        main.op("RESHAPE", [given[-2], main.tensor((len(shape),), "int32", data=sizes)], [given[-1]], options={})
    main.inputs, main.outputs = [source], [conv(main, given[-1], (1, 20, 10, 1), (1, 18, 8, 2), (3, 3))]
    compiled = compile_model(parse_model(model.finish()), PLAIN, CompilerOptions(stream=True, slower=1.0))
    _, segment, stream = streamed(compiled)
    assert (stream.input, stream.tensor, stream.rows, stream.row_bytes) == (0, given[-1], 20, 10)
    assert compiled.offsets.keys().isdisjoint(given)
    assert segment.operators == (count,)


@pytest.mark.parametrize("shape", [(1, 40, 1, 3), (1, 1, 40, 3)])
def test_signals_stream_along_their_length(shape: tuple[int, int, int, int]) -> None:
    model = ModelBuilder(seed=1)
    main = model.subgraph()
    source = image(main, shape, "x")
    wide = shape[2] > 1
    taken = (1, 1, 36, 4) if wide else (1, 36, 1, 4)
    main.inputs, main.outputs = [source], [conv(main, source, shape, taken, (1, 5) if wide else (5, 1))]
    _, segment, stream = streamed(
        compile_model(parse_model(model.finish()), PLAIN, CompilerOptions(stream=True, slower=5.0))
    )
    assert (stream.rows, stream.row_bytes) == (40, 3)
    (buffer,) = [buffer for buffer in segment.buffers if buffer.tensor == source]
    assert buffer.capacity == 5


def test_rows_that_nobody_reads_are_not_kept() -> None:
    model = ModelBuilder(seed=1)
    main = model.subgraph()
    source = image(main, (1, 10, 6, 1), "x")
    weights = main.tensor((2, 3, 3, 1), "int8", scale=[0.004] * 2, data="random")
    bias = main.tensor((2,), "int32", scale=[0.0002] * 2, data=bytes(8))
    result = image(main, (1, 2, 1, 2))
    main.op("CONV_2D", [source, weights, bias], [result], options={"padding": 1, "stride_h": 5, "stride_w": 5})
    main.inputs, main.outputs = [source], [result]
    _, _, stream = streamed(
        compile_model(parse_model(model.finish()), PLAIN, CompilerOptions(stream=True, slower=50.0))
    )
    assert (stream.rows, stream.read) == (10, 8)


def with_second_input() -> bytes:
    """An image by a convolution, and a vector that is joined to its output."""
    model = ModelBuilder(seed=1)
    main = model.subgraph()
    source, other = image(main, (1, 12, 6, 1), "x"), image(main, (1, 10, 4, 3), "other")
    joined = image(main, (1, 10, 4, 5))
    first = conv(main, source, (1, 12, 6, 1), (1, 10, 4, 2), (3, 3))
    main.op("CONCATENATION", [first, other], [joined], options={"axis": 3})
    main.inputs, main.outputs = [other, source], [joined]
    return model.finish()


def test_another_input_stays_until_the_last_row() -> None:
    compiled = compile_model(parse_model(with_second_input()), PLAIN, CompilerOptions(stream=True, slower=2.0))
    layer, _, stream = streamed(compiled)
    other = compiled.model.main.inputs[0]
    assert stream.input == 1
    first = compiled.scratch[layer.operator]
    with pytest.raises(PlanError, match="other"):
        prove(replace(compiled, offsets={**compiled.offsets, other: first}), PLAIN)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (dense(), r"layer 0 \(FULLY_CONNECTED\) has tensors that are no single image"),
        (unary("RELU"), r"layer 0 \(RELU\) has tensors that are no single image"),
        (unary("RELU", shape=(1, 1, 1, 8)), r"layer 0 \(RELU\) reads it as a single row"),
    ],
)
def test_refusals_name_layer_and_reason(data: bytes, why: str) -> None:
    with pytest.raises(ModelError, match=f"no input can be streamed; input tensor .*: {why}"):
        compile_model(parse_model(data), PLAIN, CompilerOptions(stream=True))


def test_two_inputs_of_one_layer_are_refused() -> None:
    model = ModelBuilder(seed=1)
    main = model.subgraph()
    one, other, result = image(main, (1, 8, 4, 1), "one"), image(main, (1, 8, 4, 1), "other"), image(main, (1, 8, 4, 1))
    main.op("MAXIMUM", [one, other], [result], options={})
    main.inputs, main.outputs = [one, other], [result]
    with pytest.raises(ModelError, match=r"layer 0 \(MAXIMUM\) reads input .*'other' as well"):
        compile_model(parse_model(model.finish()), PLAIN, CompilerOptions(stream=True))


def test_a_late_reader_on_whole_tensors_is_refused() -> None:
    model = ModelBuilder(seed=1)
    main = model.subgraph()
    source = image(main, (1, 8, 4, 1), "x")
    bent, joined = image(main, (1, 8, 4, 1)), image(main, (1, 8, 4, 2))
    main.op("RELU", [source], [bent])
    main.op("CONCATENATION", [bent, source], [joined], options={"axis": 3})
    main.inputs, main.outputs = [source], [joined]
    with pytest.raises(ModelError, match=r"layer 1 \(CONCATENATION\) is of a kind"):
        compile_model(parse_model(model.finish()), PLAIN, CompilerOptions(stream=True))


def test_readers_of_another_input_stay_out_of_segments() -> None:
    """The input may be written until the last row has come, so no row buffer may lie over it."""
    builder = ModelBuilder()
    main = builder.subgraph()
    x, mask = image(main, (1, 24, 24, 2), "x"), image(main, (1, 20, 20, 8), "mask")
    middle = conv(main, conv(main, x, (1, 24, 24, 2), (1, 22, 22, 8), (3, 3)), (1, 22, 22, 8), (1, 20, 20, 8), (3, 3))
    added = image(main, (1, 20, 20, 8))
    main.op("ADD", [middle, mask], [added])
    last = conv(main, conv(main, added, (1, 20, 20, 8), (1, 18, 18, 8), (3, 3)), (1, 18, 18, 8), (1, 16, 16, 2), (3, 3))
    main.inputs, main.outputs = [x, mask], [last]
    model = parse_model(builder.finish())
    for point in Search(model, PLAIN).front(CompilerOptions(stream=True)):
        layer = point.compiled.streaming_layer
        assert layer is not None
        assert "ADD" not in [member.key for member in layer.members]

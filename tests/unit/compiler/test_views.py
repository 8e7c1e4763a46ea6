# SPDX-License-Identifier: Apache-2.0
"""Joins, splits and slices without code: where their tensors lie, what keeps its copy, and faults that are caught."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.helpers.model_builder import ModelBuilder, SubgraphBuilder
from tflm_zephyr.compiler import CompiledModel, KernelLayer, compile_model
from tflm_zephyr.compiler.ir.calls import View
from tflm_zephyr.compiler.plan_proof import prove
from tflm_zephyr.errors import PlanError
from tflm_zephyr.kernels import kernel_library
from tflm_zephyr.model import parse_model

PLAIN = (kernel_library("cmsis_nn"),)


def compiled(draw: Callable[[SubgraphBuilder], None]) -> CompiledModel:
    builder = ModelBuilder()
    draw(builder.subgraph())
    return compile_model(parse_model(builder.finish()), PLAIN)


def tensor(main: SubgraphBuilder, *shape: int, kind: str = "int8") -> int:
    return main.tensor(shape, kind, scale=0.1)


def relu(main: SubgraphBuilder, source: int, *shape: int) -> int:
    result = tensor(main, *shape)
    main.op("RELU", [source], [result])
    return result


def joined(main: SubgraphBuilder, *, axis: int = 1, rows: int = 4) -> None:
    """An input's RELU and RELU6, one behind the other, and one more RELU."""
    source = tensor(main, 1, rows, 8)
    parts = [relu(main, source, 1, rows, 8), tensor(main, 1, rows, 8)]
    main.op("RELU6", [source], [parts[1]])
    whole = tensor(main, *((1, 2 * rows, 8) if axis == 1 else (1, rows, 16)))
    main.op("CONCATENATION", parts, [whole], options={"axis": axis})
    main.inputs, main.outputs = [source], [relu(main, whole, *((1, 2 * rows, 8) if axis == 1 else (1, rows, 16)))]


def taken_apart(main: SubgraphBuilder) -> None:
    """A RELU whose halves are added, and whose first row goes on."""
    source = tensor(main, 4, 8)
    whole = relu(main, source, 4, 8)
    halves = [tensor(main, 2, 8) for _ in range(2)]
    main.op("SPLIT", [main.tensor((), "int32", data=bytes(4)), whole], halves, options={"num_splits": 2})
    row = tensor(main, 1, 8)
    begin, size = (main.tensor((2,), "int32", data=data) for data in (bytes(8), b"\1\0\0\0\x08\0\0\0"))
    main.op("SLICE", [whole, begin, size], [row])
    main.inputs = [source]
    total = tensor(main, 2, 8)
    main.op("ADD", halves, [total], options={})
    main.outputs = [total, relu(main, row, 1, 8)]


def views_of(program: CompiledModel, key: str) -> tuple[View, ...]:
    return tuple(view for layer in program.layers if layer.key == key for view in layer.views)


def test_parts_are_written_where_they_are_joined() -> None:
    program = compiled(joined)
    one, other = views_of(program, "CONCATENATION")
    assert (one.first, other.first) == (0, 32)
    for view in (one, other):
        assert program.offsets[view.part] == program.offsets[view.whole] + view.first
    (layer,) = [layer for layer in program.layers if layer.key == "CONCATENATION"]
    assert isinstance(layer, KernelLayer)
    assert layer.calls == layer.pointers == ()
    assert program.arena_bytes == 32 + 64  # the last RELU is in place


def test_halves_and_rows_lie_in_their_whole() -> None:
    program = compiled(taken_apart)
    assert [view.first for view in views_of(program, "SPLIT")] == [0, 16]
    assert [view.first for view in views_of(program, "SLICE")] == [0]
    assert all(not layer.calls for layer in program.layers if layer.key in ("SPLIT", "SLICE"))


def test_joins_of_columns_are_copies() -> None:
    program = compiled(lambda main: joined(main, axis=2))
    assert views_of(program, "CONCATENATION") == ()
    (layer,) = [layer for layer in program.layers if layer.key == "CONCATENATION"]
    assert [kernel.name for kernel in layer.kernels] == ["CopyRows"] * 2


def test_parts_off_a_word_are_copies() -> None:
    def odd(main: SubgraphBuilder) -> None:
        source = tensor(main, 6)
        halves = [tensor(main, 3) for _ in range(2)]
        axis = main.tensor((), "int32", data=bytes(4))
        main.op("SPLIT", [axis, relu(main, source, 6)], halves, options={"num_splits": 2})
        main.inputs, main.outputs = [source], [relu(main, half, 3) for half in halves]

    program = compiled(odd)
    assert [view.first for view in views_of(program, "SPLIT")] == [0]
    (layer,) = [layer for layer in program.layers if layer.key == "SPLIT"]
    assert len(layer.calls) == 1


def test_an_input_is_no_part_of_an_output() -> None:
    def straight(main: SubgraphBuilder) -> None:
        sources, whole = [tensor(main, 16), tensor(main, 16)], tensor(main, 2, 16)
        main.op("PACK", sources, [whole], options={"axis": 0, "values_count": 2})
        main.inputs, main.outputs = sources, [whole]

    assert views_of(compiled(straight), "PACK") == ()


def test_a_tensor_that_is_joined_twice_is_copied_once() -> None:
    def twice(main: SubgraphBuilder) -> None:
        source = tensor(main, 16)
        part, whole = relu(main, source, 16), tensor(main, 2, 16)
        main.op("PACK", [part, part], [whole], options={"axis": 0, "values_count": 2})
        main.inputs, main.outputs = [source], [relu(main, whole, 2, 16)]

    program = compiled(twice)
    assert len(views_of(program, "PACK")) == 1
    (layer,) = [layer for layer in program.layers if layer.key == "PACK"]
    assert len(layer.calls) == 1


@pytest.mark.parametrize("draw", [joined, taken_apart])
def test_wrong_views_are_caught(draw: Callable[[SubgraphBuilder], None]) -> None:
    program = compiled(draw)
    caught = 0
    for number, layer in enumerate(program.layers):
        for place, view in enumerate(layer.views):
            for wrong in ((replace(view, first=view.first + 4),), ()):
                views = (*layer.views[:place], *wrong, *layer.views[place + 1 :])
                layers = list(program.layers)
                layers[number] = replace(layer, views=views)
                with pytest.raises(PlanError, match=r"layer|end of the run"):
                    prove(replace(program, layers=tuple(layers)), PLAIN)
                caught += 1
    assert caught >= 4


def test_tensors_of_views_moved_alone_are_caught() -> None:
    for draw in (joined, taken_apart):
        program = compiled(draw)
        for view in (view for layer in program.layers for view in layer.views):
            moved = replace(program, offsets={**program.offsets, view.part: program.offsets[view.part] + 4})
            with pytest.raises(PlanError):
                prove(moved, PLAIN)

# SPDX-License-Identifier: Apache-2.0
"""Which tensors may overlap, and the checker's own word on it: what is needed again stays."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.helpers.heads import plan_head
from tests.helpers.model_builder import ModelBuilder, SubgraphBuilder
from tflm_zephyr.arena.given_offsets import given_plan
from tflm_zephyr.arena.in_place_check import InPlaceCheck
from tflm_zephyr.errors import PlanError
from tflm_zephyr.kernels.libraries import kernel_library
from tflm_zephyr.model.reader import parse_model
from tflm_zephyr.model.types import Model
from tflm_zephyr.model.writer import with_offline_plan

KERNELS = kernel_library("reference")


def model_of(build: Callable[[SubgraphBuilder], None]) -> Model:
    """Float tensors of 64 elements: 0 is the input; `build` adds operators."""
    builder = ModelBuilder()
    main = builder.subgraph()
    main.inputs = [main.tensor((1, 64), "float32", "input")]
    build(main)
    return parse_model(builder.finish())


def relu(main: SubgraphBuilder, source: int) -> int:
    output = main.tensor((1, 64), "float32")
    main.op("RELU", [source], [output])
    return output


def add(main: SubgraphBuilder, one: int, other: int) -> int:
    output = main.tensor((1, 64), "float32")
    main.op("ADD", [one, other], [output], options={"fused_activation_function": 0})
    return output


def plain(main: SubgraphBuilder) -> None:
    main.outputs = [relu(main, relu(main, 0))]


def branch(main: SubgraphBuilder) -> None:
    main.outputs = [add(main, 0, relu(main, 0))]  # the input is read again


def output_in_the_middle(main: SubgraphBuilder) -> None:
    first = relu(main, 0)
    main.outputs = [first, relu(main, first)]


def last_reads_an_output(main: SubgraphBuilder) -> None:
    first = relu(main, 0)
    second = relu(main, first)
    main.outputs = [second, first]


def variable(main: SubgraphBuilder) -> None:
    state = main.tensor((1, 64), "float32", "state", variable=True)
    main.outputs = [add(main, state, 0)]


def pairs(model: Model, **options: object) -> set[tuple[int, int]]:
    head = plan_head(model, KERNELS, in_place=[KERNELS], **options)  # type: ignore[arg-type]
    tensors = head.graph.tensors
    return {(tensors[o.input].tensor, tensors[o.output].tensor) for o in head.problem.pairs}


@pytest.mark.parametrize(
    ("build", "wanted"),
    [
        (plain, {(0, 1), (1, 2)}),
        (branch, {(0, 2), (1, 2)}),
        (output_in_the_middle, {(0, 1)}),
        (last_reads_an_output, {(0, 1)}),
        (variable, {(0, 2)}),
    ],
)
def test_what_is_offered(build: Callable[[SubgraphBuilder], None], wanted: set[tuple[int, int]]) -> None:
    assert pairs(model_of(build)) == wanted


def test_what_is_to_be_kept_is_not_offered() -> None:
    assert pairs(model_of(plain), preserve_inputs=True) == {(1, 2)}
    assert pairs(model_of(plain), preserve_intermediates=True) == set()
    one = model_of(lambda main: main.outputs.append(relu(main, 0)))
    assert pairs(one) == {(0, 1)}
    assert pairs(one, preserve_inputs=True) == set()  # the last operator is no end of the input's life
    assert pairs(model_of(plain), preallocated=(1,)) == set()


def test_a_preserved_input_is_not_overwritten_by_a_plan() -> None:
    one = model_of(lambda main: main.outputs.append(relu(main, 0)))
    head = plan_head(one, KERNELS, in_place=[KERNELS], preserve_inputs=True, offline="always")
    assert head.head_bytes == 512 and head.in_place_count == 0


@pytest.mark.parametrize(
    ("build", "source", "result", "says"),
    [
        (branch, 0, 1, "tensor 0 'input' is used by other operators later on"),
        (output_in_the_middle, 1, 2, "tensor 1 't1' is needed after the run"),
        (last_reads_an_output, 1, 2, "tensor 1 't1' is needed after the run"),
    ],
)
def test_the_checker_says_why(build: Callable[[SubgraphBuilder], None], source: int, result: int, says: str) -> None:
    model = model_of(build)
    safety = InPlaceCheck(model, [KERNELS], [(0, i) for i in range(len(model.main.tensors))])
    assert safety(source, result, 0) == says
    assert safety(0, 0, 0) is not None


def test_the_checker_wants_kernels_and_tensors() -> None:
    model = model_of(plain)
    assert InPlaceCheck(model, [], [(0, 0), (0, 1)])(0, 1, 0) == "overlap is off, or allowed for other kernels only"
    keys = [(0, 0), (0, 1), None]
    safe = InPlaceCheck(model, [KERNELS], keys)
    assert safe(0, 1, 0) is None
    assert safe(0, 2, 0) == "only tensors of one subgraph can overlap"
    assert "is needed after the run" in str(InPlaceCheck(model, [KERNELS], keys, kept=[0])(0, 1, 0))
    reason = InPlaceCheck(model, [KERNELS, kernel_library("cmsis_nn").without(["RELU"])], keys)(0, 1, 0)
    assert reason is not None and reason.endswith("with the cmsis_nn kernels")


def test_plans_by_hand_that_run_over_what_is_needed() -> None:
    for build, offsets in ((branch, [0, 0, 256]), (output_in_the_middle, [256, 0, 0])):
        model = model_of(build)
        with pytest.raises(PlanError, match="overlap"):
            given_plan(parse_model(with_offline_plan(model, offsets)), KERNELS)
    assert given_plan(parse_model(with_offline_plan(model_of(plain), [0, 0, 0])), KERNELS) is not None


def called_twice() -> Model:
    """The main subgraph calls one with two RELUs in both branches of an IF."""
    builder = ModelBuilder()
    main, called = builder.subgraph("main"), builder.subgraph("called")
    condition = main.tensor((1,), "bool", "condition")
    x, y = (main.tensor((1, 64), "float32", name) for name in "xy")
    main.op("IF", [condition, x], [y], options={"then_subgraph_index": 1, "else_subgraph_index": 1})
    main.inputs, main.outputs = [condition, x], [y]
    called.inputs = [called.tensor((1, 64), "float32", "in")]
    called.outputs = [relu(called, relu(called, 0))]
    return parse_model(builder.finish())


def test_operators_that_run_in_several_scopes_are_left_out() -> None:
    head = plan_head(called_twice(), KERNELS, in_place=[KERNELS])
    assert head.problem.pairs == ()

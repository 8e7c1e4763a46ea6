# SPDX-License-Identifier: Apache-2.0
"""Planned heads against TFLM itself on this machine: the same bytes reserved, the same outputs under every plan."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

pytest.importorskip("tflite_micro")

from tests.helpers.heads import better_order, plan_head
from tests.helpers.host_runs import run_host
from tests.helpers.marks import rest_slow
from tests.helpers.model_builder import ModelBuilder, chain
from tflm_zephyr.arena.given_offsets import given_plan
from tflm_zephyr.arena.head import HeadPlan
from tflm_zephyr.errors import ToolError
from tflm_zephyr.host.golden_outputs import seeded_inputs
from tflm_zephyr.host.run import HostRun
from tflm_zephyr.kernels.libraries import host, kernel_library
from tflm_zephyr.memory_planner.checker import check_plan
from tflm_zephyr.model.reader import load_model, parse_model
from tflm_zephyr.model.types import Model
from tflm_zephyr.model.writer import in_operator_order, with_offline_plan, without_offline_plan
from tflm_zephyr.model.writer import planned as planned_with

KERNELS = kernel_library("reference", pointer_bytes=8)
ARENA_BYTES = 8 << 20


def on_tflm(data: bytes, model: Model) -> HostRun:
    return run_host(data, seeded_inputs(model), ARENA_BYTES)


def prove(model: Model) -> HeadPlan:
    """Greedy's head, the plan's head, and the outputs are TFLM's; the plan is given even where it saves nothing."""
    online = on_tflm(without_offline_plan(model), model)
    head = plan_head(model, KERNELS, offline="always")
    assert head.greedy_bytes == online.head_bytes
    assert plan_head(model, KERNELS).head_bytes <= online.head_bytes
    check_plan(head.plan)
    assert head.offsets is not None
    data = with_offline_plan(model, head.offsets)
    planned = on_tflm(data, model)
    assert planned.head_bytes == head.head_bytes
    assert planned.outputs == online.outputs
    given = given_plan(parse_model(data), KERNELS)
    assert given is not None and given.offsets == head.plan.offsets
    return head


@pytest.mark.slow
def test_stock_models(shared_model: Path) -> None:
    model = load_model(shared_model)
    head = prove(model)
    assert head.head_bytes == head.packed_bytes == head.lower_bound_bytes


@pytest.mark.parametrize("operators", rest_slow([7, 1, 2]))
def test_chains(operators: int) -> None:
    assert prove(parse_model(chain(operators, 100))).head_bytes == 224


def branching(seed: int) -> Model:
    """A random float graph of RELU, ADD_N (which asks for scratch) and FULLY_CONNECTED."""
    rng = random.Random(seed)
    builder = ModelBuilder(seed=seed)
    main = builder.subgraph()
    widths = {}
    main.inputs = [main.tensor((1, 8 * rng.randrange(1, 40)), "float32", "input")]
    widths[0] = main.tensors[0].shape
    for _ in range(rng.randrange(3, 14)):
        source = rng.choice(list(widths)[-4:])
        same = [t for t, shape in widths.items() if shape == widths[source]]
        if len(same) > 1 and rng.random() < 0.5:
            inputs = rng.sample(same, min(len(same), rng.randrange(2, 4)))
            output = main.tensor(widths[source], "float32")
            main.op("ADD_N", inputs, [output])
        elif rng.random() < 0.5:
            output = main.tensor(widths[source], "float32")
            main.op("RELU", [source], [output])
        else:
            shape, depth = (1, 8 * rng.randrange(1, 40)), widths[source][1]
            weights = main.tensor((shape[1], depth), "float32", data=bytes(4 * shape[1] * depth))
            output = main.tensor(shape, "float32")
            main.op("FULLY_CONNECTED", [source, weights, -1], [output], options={"fused_activation_function": 0})
        widths[output] = main.tensors[output].shape
    unread = [t for t in widths if t and not any(t in op.inputs for op in main.operators)]
    main.outputs = unread or [output]
    return parse_model(builder.finish())


@pytest.mark.slow
@pytest.mark.parametrize("seed", rest_slow(range(12), 2))
def test_branching_graphs_with_scratch(seed: int) -> None:
    prove(branching(seed))


def test_offsets_beat_tflms_own_placing() -> None:
    """A graph on which TFLM's rule wastes memory: the smaller head is real, and the outputs are the same."""
    for seed in range(300):
        model = branching(seed)
        head = plan_head(model, KERNELS)
        if head.offsets is not None:
            break
    assert head.head_bytes < head.greedy_bytes
    assert prove(model).head_bytes == head.head_bytes
    assert on_tflm(with_offline_plan(model, head.offsets or ()), model).head_bytes == head.head_bytes


def with_called_subgraphs() -> Model:
    builder = ModelBuilder()
    main, then, other = (builder.subgraph(name) for name in ("main", "then", "else"))
    condition = main.tensor((1,), "bool", "condition")
    x, y, z = (main.tensor((1, 48), "float32", name) for name in "xyz")
    main.op("RELU", [x], [y])
    main.op("IF", [condition, y], [z], options={"then_subgraph_index": 1, "else_subgraph_index": 2})
    main.inputs, main.outputs = [condition, x], [z]
    for subgraph, count in ((then, 3), (other, 1)):
        last = subgraph.tensor((1, 48), "float32", "in")
        subgraph.inputs = [last]
        for _ in range(count):
            following = subgraph.tensor((1, 48), "float32")
            subgraph.op("RELU", [last], [following])
            last = following
        subgraph.outputs = [last]
    return parse_model(builder.finish())


@pytest.mark.slow
def test_called_subgraphs() -> None:
    prove(with_called_subgraphs())


def test_variables_in_head_and_tail(shared: Path) -> None:
    for name in ("keyword_scrambled_8bit", "mnist_lstm_int8"):
        model = load_model(shared / "models" / f"{name}.tflite")
        online = on_tflm(without_offline_plan(model), model)
        head = plan_head(model, KERNELS, plan_variables=True)
        assert head.offsets is not None
        planned = on_tflm(with_offline_plan(model, head.offsets), model)
        assert planned.head_bytes == head.head_bytes > online.head_bytes
        moved = sum(-(-v.size_bytes // 16) * 16 for v in head.graph.variables)
        assert online.tail_bytes - planned.tail_bytes == moved
        assert planned.outputs == online.outputs


@pytest.mark.slow
@pytest.mark.parametrize("option", ["preserve_inputs", "preserve_intermediates"])
def test_preserving_plans(shared: Path, option: str) -> None:
    for name in ("hello_world_int8", "kws_ref_model", "mnist_lstm_int8"):
        model = load_model(shared / "models" / f"{name}.tflite")
        head = plan_head(model, KERNELS, preserve_inputs=option == "preserve_inputs",
                         preserve_intermediates=option == "preserve_intermediates")  # fmt: skip
        if head.offsets is None:
            continue
        planned = on_tflm(with_offline_plan(model, head.offsets), model)
        assert planned.head_bytes == head.head_bytes
        assert planned.outputs == on_tflm(without_offline_plan(model), model).outputs


HOST = host()


def overlapping(model: Model) -> HeadPlan:
    return plan_head(model, HOST, in_place=[HOST])


@pytest.mark.slow
def test_overlapped_plans_of_stock_models(shared_model: Path) -> None:
    """The same bytes, for several inputs, from a head that is as small as the plan says."""
    model = load_model(shared_model)
    head = overlapping(model)
    assert head.lower_bound_bytes <= head.head_bytes == head.in_place_bytes <= head.packed_bytes
    if head.offsets is None:
        assert head.in_place_count == 0
        return
    data = with_offline_plan(model, head.offsets)
    for seed in range(4):
        inputs = seeded_inputs(model, seed)
        planned = run_host(data, inputs, ARENA_BYTES)
        assert planned.head_bytes == head.head_bytes
        assert planned.outputs == run_host(without_offline_plan(model), inputs, ARENA_BYTES).outputs
    given = given_plan(parse_model(data), HOST)
    assert given is not None and given.offsets == head.plan.offsets


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("kws_ref_model", 10_048),
        ("person_detect", 36_896),
        ("pretrainedResnet_quant", 33_312),
        ("micro_speech_quantized", 4_176),
    ],
)
def test_what_overlap_saves(shared: Path, name: str, most: int) -> None:
    head = overlapping(load_model(shared / "models" / f"{name}.tflite"))
    assert head.in_place_count > 0 and head.head_bytes <= most < head.packed_bytes


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kws_ref_model", "person_detect", "pretrainedResnet_quant", "micro_speech_quantized"])
def test_a_plan_a_little_too_tight_is_caught(shared: Path, name: str) -> None:
    """The negative control: an output 16 bytes nearer to its input. The checker says which, and the outputs differ for
    one such output at least."""
    model = load_model(shared / "models" / f"{name}.tflite")
    head = overlapping(model)
    assert head.offsets is not None
    inputs = seeded_inputs(model)
    wanted = run_host(without_offline_plan(model), inputs, ARENA_BYTES).outputs
    differ = tried = 0
    for overlap in head.problem.pairs:
        if not overlap.distance or head.problem.leads.get((overlap.input, overlap.output), 0) == 0:
            continue
        tight = -(-overlap.distance // 16) * 16 - 16
        ends = [head.graph.tensors[i].tensor for i in (overlap.input, overlap.output)]
        # These two alone, all else placed by TFLM: nothing but the distance is wrong.
        for distance, right in ((tight + 16, True), (tight, False)):
            offsets = [-1] * model.tensor_count
            offsets[ends[0]], offsets[ends[1]] = distance, 0
            data = with_offline_plan(model, offsets)
            outputs = run_host(data, inputs, ARENA_BYTES, any_plan=True).outputs
            if right:
                assert outputs == wanted
                given_plan(parse_model(data), HOST)
                continue
            tried += 1
            differ += outputs != wanted
            with pytest.raises(ToolError, match=r"overlap: .* writes over byte") as caught:
                given_plan(parse_model(data), HOST)
            assert all(model.main.tensors[i].label in str(caught.value) for i in ends)
    assert tried >= 1
    assert differ >= 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", rest_slow(range(12), 2))
def test_branching_graphs_with_overlaps(seed: int) -> None:
    model = branching(seed)
    head = overlapping(model)
    assert head.head_bytes <= plan_head(model, HOST).head_bytes
    if head.offsets is not None:
        planned = on_tflm(with_offline_plan(model, head.offsets), model)
        assert planned.head_bytes == head.head_bytes
        assert planned.outputs == on_tflm(without_offline_plan(model), model).outputs


@pytest.mark.slow
def test_overlaps_in_called_subgraphs() -> None:
    model = with_called_subgraphs()
    head = overlapping(model)
    assert head.offsets is not None and head.in_place_count > 0
    assert head.head_bytes < plan_head(model, HOST).head_bytes
    for seed in range(6):
        inputs = seeded_inputs(model, seed)
        online = run_host(without_offline_plan(model), inputs, ARENA_BYTES)
        assert run_host(with_offline_plan(model, head.offsets), inputs, ARENA_BYTES).outputs == online.outputs


def test_a_plan_that_overlaps_is_caught_where_tflm_runs_it() -> None:
    """The negative control: TFLM runs the corrupt plan without a word, the checker names it."""
    model = branching(1)
    good = plan_head(model, KERNELS, offline="always").offsets
    assert good is not None
    corrupt = with_offline_plan(model, [0 if offset >= 0 else -1 for offset in good])
    assert run_host(corrupt, seeded_inputs(model), ARENA_BYTES, any_plan=True).outputs
    assert on_tflm(corrupt, model).head_bytes == plan_head(model, KERNELS, offline="never").head_bytes, "left out"
    with pytest.raises(ToolError, match="overlap"):
        given_plan(parse_model(corrupt), KERNELS)


@pytest.mark.slow
@pytest.mark.parametrize("seed", rest_slow(range(16), 2))
def test_another_order_of_operators(seed: int) -> None:
    """Where the graph branches: the same outputs from the operators in another order, with and without a plan."""
    model = branching(seed)
    better = better_order(model, HOST, in_place=True)
    if better is None:
        order = list(range(len(model.main.operators)))
        assert in_operator_order(model, order).main == model.main
        return
    online = on_tflm(without_offline_plan(model), model)
    assert on_tflm(without_offline_plan(better[0]), model).outputs == online.outputs
    head = overlapping(better[0])
    assert head.lower_bound_bytes < overlapping(model).lower_bound_bytes
    planned = on_tflm(planned_with(better[0], head.offsets), model)
    assert planned.outputs == online.outputs and planned.head_bytes == head.head_bytes


def test_some_orders_are_better() -> None:
    assert sum(better_order(branching(seed), HOST, in_place=True) is not None for seed in range(16)) >= 2

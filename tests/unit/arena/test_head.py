# SPDX-License-Identifier: Apache-2.0
"""Heads: what TFLM will reserve for a model with and without offsets, scratch buffers reckoned with."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.helpers.graph_models import fits_not_greedy, graph_model, library
from tests.helpers.heads import arena_size, plan_head
from tests.helpers.model_builder import ModelBuilder, chain
from tflm_zephyr.arena.given_offsets import given_plan
from tflm_zephyr.errors import ModelError, PlanError
from tflm_zephyr.kernels.libraries import kernel_library
from tflm_zephyr.memory_planner.checker import check_plan
from tflm_zephyr.memory_planner.greedy_planner import greedy
from tflm_zephyr.memory_planner.problem import Buffer, Problem
from tflm_zephyr.model.lifetimes import Lifespan
from tflm_zephyr.model.reader import load_model, parse_model
from tflm_zephyr.model.writer import with_offline_plan

REFERENCE = kernel_library("reference")


def test_online_placing_needs_no_offsets_where_it_is_optimal() -> None:
    head = plan_head(parse_model(chain(3, 64)), library())
    assert (head.linear_bytes, head.greedy_bytes, head.packed_bytes) == (256, 128, 128)
    assert (head.head_bytes, head.lower_bound_bytes, head.optimal) == (128, 128, True)
    assert head.offsets is None


def test_offsets_are_given_where_they_make_the_head_smaller() -> None:
    model = fits_not_greedy()
    head = plan_head(model, library())
    assert head.offsets is not None and len(head.offsets) == model.tensor_count
    assert head.head_bytes == head.lower_bound_bytes < head.greedy_bytes
    planned = given_plan(parse_model(with_offline_plan(model, head.offsets)), library())
    assert planned is not None and planned.size_bytes == head.head_bytes


def test_a_plan_in_the_model_is_left_out_of_account() -> None:
    model = fits_not_greedy()
    stale = parse_model(with_offline_plan(model, [4096] * model.tensor_count))
    assert plan_head(stale, library()).offsets == plan_head(model, library()).offsets


def test_leaving_all_to_tflm_gives_its_own_head() -> None:
    head = plan_head(fits_not_greedy(), library(), offline="never")
    assert head.offsets is None and head.head_bytes == head.greedy_bytes


def test_offsets_may_be_asked_for_where_they_change_nothing() -> None:
    model = parse_model(chain(3, 64))
    head = plan_head(model, library(), offline="always")
    assert head.offsets is not None and -1 not in head.offsets
    assert head.head_bytes == 128


@pytest.mark.parametrize("seed", range(60))
def test_no_plan_is_worse_than_tflms_own_and_scratch_is_in_it(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randrange(3, 12)
    sizes = [rng.randrange(1, 400) for _ in range(count + 1)]
    links = [(sorted({i, rng.randrange(max(0, i - 4), i + 1)}), i + 1) for i in range(count)]
    asked = {i: tuple(rng.randrange(0, 300) for _ in range(rng.randrange(3))) for i in range(count)}
    model = graph_model(sizes, links)
    kernels = library(lambda node: asked[node.operator.index])
    head = plan_head(model, kernels)
    online = plan_head(model, kernels, offline="never")
    assert online.head_bytes == online.greedy_bytes
    assert head.lower_bound_bytes <= head.head_bytes <= online.head_bytes
    assert len(head.graph.scratch) == sum(len(a) for i, a in asked.items() if len(links[i][0]) == 1)
    check_plan(head.plan, arena_bytes=head.head_bytes)
    always = plan_head(model, kernels, offline="always")
    assert always.offsets is not None
    played = given_plan(parse_model(with_offline_plan(model, always.offsets)), kernels)
    assert played is not None and played.size_bytes == always.head_bytes
    check_plan(played)


def test_unknown_scratch_is_reported_and_no_offsets_risked() -> None:
    head = plan_head(fits_not_greedy(), library(keys="ADD"))
    assert head.unknown == ("RELU",)
    assert head.offsets is None


def test_preserved_inputs_are_never_overwritten() -> None:
    model = parse_model(chain(5, 64))
    head = plan_head(model, library(lambda node: (48,)), preserve_inputs=True)
    assert head.offsets is not None
    spans = dict(zip((b.id for b in head.problem.buffers), head.plan.offsets, strict=True))
    for buffer, size in zip(head.problem.buffers, head.problem.sizes, strict=True):
        if buffer.id != "tensor 0 'input'":
            assert not spans[buffer.id] < spans["tensor 0 'input'"] + 64 <= spans[buffer.id] + size + 63
    assert head.head_bytes == 64 + 64 + 64 + 48


def test_preserved_intermediates_all_have_their_own_memory() -> None:
    head = plan_head(parse_model(chain(5, 64)), library(lambda node: (48,)), preserve_intermediates=True)
    assert head.head_bytes == 6 * 64 + 48
    assert head.offsets is not None


def test_preserving_cannot_be_left_to_tflm() -> None:
    with pytest.raises(PlanError, match=r"m\.tflite|model: TFLM's own planner cannot meet"):
        plan_head(parse_model(chain(5, 64)), library(), preserve_inputs=True, offline="never")


def test_offsets_keep_wider_alignment_and_the_head_is_tflms() -> None:
    model = graph_model([16, 80, 48, 16], [([0], 1), ([1], 2), ([2], 3)])
    head = plan_head(model, library(lambda node: (20,)), alignment=64)
    assert head.offsets is not None and all(offset % 64 == 0 for offset in head.offsets)
    played = given_plan(parse_model(with_offline_plan(model, head.offsets)), library(lambda node: (20,)))
    assert played is not None and played.size_bytes == head.head_bytes
    for wrong in (8, 24, 0):
        with pytest.raises(PlanError, match=f"alignment {wrong}"):
            plan_head(model, library(), alignment=wrong)


def test_variables_stay_in_the_tail_unless_asked_for() -> None:
    model = graph_model([16, 16, 16, 100], [([0], 1), ([1, 3], 2)], variables=(3,))
    head = plan_head(model, library(), offline="always")
    assert head.offsets is not None and head.offsets[3] == -1
    planned = plan_head(model, library(), plan_variables=True)
    assert planned.offsets is not None and planned.offsets[3] >= 0
    assert planned.head_bytes == head.head_bytes + 112
    assert arena_size(head, library()).tail_bytes == arena_size(planned, library()).tail_bytes + 112


def test_a_planned_variable_is_safe_after_its_last_use() -> None:
    # TFLM thinks the variable dead after the first operator and would put the last one's scratch over it.
    model = graph_model([16, 16, 16, 16, 16], [([0, 4], 1), ([1], 2), ([2], 3)], variables=(4,))
    head = plan_head(model, library(lambda node: (160,)), plan_variables=True)
    variable = next(b for b in head.problem.buffers if b.id == "tensor 4 't4'")
    assert (variable.lower, variable.upper) == (0, 4)
    check_plan(head.plan)
    assert head.head_bytes == 16 + 16 + 16 + 160


def test_the_row_at_a_variables_index_is_left_alone() -> None:
    builder = ModelBuilder()
    main, called = builder.subgraph("main"), builder.subgraph("called")
    x = main.tensor((1,), "bool", "condition")
    y = main.tensor((1, 64), "int8", "y", scale=0.5)
    z = main.tensor((1, 64), "int8", "z", scale=0.5)
    main.op("IF", [x, y], [z], options={"then_subgraph_index": 1, "else_subgraph_index": 1})
    main.inputs, main.outputs = [x, y], [z]
    a = called.tensor((1, 64), "int8", "a", scale=0.5)
    b = called.tensor((1, 64), "int8", "b", scale=0.5)
    state = called.tensor((1, 64), "int8", "state", scale=0.5, variable=True)
    called.op("ADD", [a, state], [b])
    called.inputs, called.outputs = [a], [b]
    model = parse_model(builder.finish())
    head = plan_head(model, library(keys="IF ADD"), offline="always")
    assert head.offsets is not None
    assert head.offsets[2] == -1, "z has the index that the variable has in its own subgraph"
    assert head.offsets[5] == -1, "the variable itself"
    assert min(head.offsets[i] for i in (0, 1, 3, 4)) >= 0
    with pytest.raises(PlanError, match="several subgraphs"):
        plan_head(model, library(keys="IF ADD"), plan_variables=True)


def test_an_overlapping_plan_in_a_model_is_named() -> None:
    model = parse_model(with_offline_plan(parse_model(chain(2, 64)), [0, 48, 128]))
    with pytest.raises(PlanError, match=r"tensor 0 'input' .* and buffer tensor 1 'relu0' .* overlap"):
        given_plan(model, library())


def test_other_bad_plans_in_a_model_are_refused() -> None:
    plain = parse_model(chain(2, 64))
    assert given_plan(plain, library()) is None
    with pytest.raises(PlanError, match="offset 72 is not aligned"):
        given_plan(parse_model(with_offline_plan(plain, [0, 72, 0])), library())
    builder = ModelBuilder()
    main = builder.subgraph()
    main.inputs = main.outputs = [main.tensor((4,), "int8", "x")]
    builder.metadata("OfflineMemoryAllocation", bytes([1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]) + bytes(8))
    with pytest.raises(ModelError, match="for 2 tensors but the model has 1"):
        given_plan(parse_model(builder.finish()), library())


def test_the_arena_says_where_its_size_comes_from() -> None:
    head = plan_head(parse_model(chain(3, 64)), library())
    estimated = arena_size(head, library())
    assert estimated.source == "estimated" and estimated.bytes % 16 == 0
    assert estimated.bytes >= estimated.head_bytes + estimated.tail_bytes
    assert arena_size(head, library(), given=4000).bytes == 4000
    assert arena_size(head, library(), given=4000).source == "given"
    with pytest.raises(PlanError, match="an arena of 100 bytes cannot hold the head of 128"):
        arena_size(head, library(), given=100)
    unknown = plan_head(parse_model(chain(3, 64)), library(keys=""))
    assert "RELU" in arena_size(unknown, library(keys="")).note


def test_a_model_without_tensors_to_place() -> None:
    builder = ModelBuilder()
    main = builder.subgraph()
    main.outputs = [main.tensor((4,), "int8", "x", data=b"abcd")]
    head = plan_head(parse_model(builder.finish()), library())
    assert (head.head_bytes, head.linear_bytes, head.optimal) == (0, 0, True)


def test_tensors_that_nothing_reaches_are_placed_as_tflm_does() -> None:
    model = graph_model([16, 16, 160], [([0], 1)])
    head = plan_head(model, library())
    unused = head.graph.tensors[2]
    assert unused.lifespan == Lifespan(-1, -1)
    assert head.head_bytes == 160 == greedy(Problem((Buffer("unused", -1, 0, 160),))).size_bytes


def test_stock_models_are_planned_to_the_lower_bound(shared_model: Path) -> None:
    head = plan_head(load_model(shared_model), REFERENCE)
    assert head.optimal and not head.unknown

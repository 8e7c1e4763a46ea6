# SPDX-License-Identifier: Apache-2.0
"""Orders of operators: against trying all of them, what must stay as it is, and in files."""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.command_line import Tool
from tests.helpers.heads import best_order, better_order, plan_head
from tests.helpers.model_builder import ModelBuilder, SubgraphBuilder, chain
from tflm_zephyr.arena import scheduling
from tflm_zephyr.errors import PlanError
from tflm_zephyr.kernels.libraries import kernel_library
from tflm_zephyr.memory_planner.problem import lower_bound
from tflm_zephyr.model.reader import parse_model
from tflm_zephyr.model.types import Model
from tflm_zephyr.model.writer import in_operator_order

KERNELS = kernel_library("reference")


def joined(graph: SubgraphBuilder, inputs: list[int], size: int) -> int:
    output = graph.tensor((1, size), "int8", scale=0.5)
    graph.op("CONCATENATION", inputs, [output], options={"axis": 1})
    return output


def random_graph(seed: int, count: int) -> Model:
    rng = random.Random(seed)
    builder = ModelBuilder()
    graph = builder.subgraph()
    tensors = [graph.tensor((1, rng.randrange(16, 400)), "int8", "input", scale=0.5)]
    graph.inputs = tensors[:]
    for _ in range(count):
        recent = tensors[-5:]
        inputs = rng.sample(recent, min(len(recent), rng.randrange(1, 4)))
        tensors.append(joined(graph, inputs, rng.randrange(16, 400)))
    read = {i for operator in graph.operators for i in operator.inputs}
    graph.outputs = [i for i in tensors if i not in read][-2:]
    return parse_model(builder.finish())


def peak(model: Model, *, overlap: bool) -> int:
    """The most bytes alive at once, as the planner's problem has them."""
    head = plan_head(model, KERNELS, in_place=[KERNELS] if overlap else ())
    return lower_bound(head.problem)


def allowed(model: Model, order: tuple[int, ...]) -> bool:
    """Whether everything is made before it is read."""
    made = set(model.main.inputs)
    for operator in (model.main.operators[k] for k in order):
        if any(i not in made for i in operator.inputs):
            return False
        made.update(operator.outputs)
    return True


def test_against_all_orders() -> None:
    better = 0
    for seed in range(8):
        model = random_graph(seed, 6)
        orders = [order for order in permutations(range(6)) if allowed(model, order)]
        for overlap in (False, True):
            found = best_order(model, KERNELS, in_place=overlap)
            peaks = [peak(in_operator_order(model, order), overlap=overlap) for order in orders]
            assert found.peak_bytes == min(peaks) <= found.model_bytes == peak(model, overlap=overlap)
            assert allowed(model, found.operators)
            assert found.differs == (found.peak_bytes < found.model_bytes)
            better += found.differs
    assert better > 2


def two_branches(wide_first: bool) -> Model:
    """A small tensor widened and narrowed again in each of two branches."""
    builder = ModelBuilder()
    graph = builder.subgraph()
    graph.inputs = [graph.tensor((1, 64), "int8", "input", scale=0.5)]
    wide = [joined(graph, [0], 1024), joined(graph, [0], 1024)] if wide_first else []
    narrow = []
    for branch in range(2):
        source = wide[branch] if wide_first else joined(graph, [0], 1024)
        narrow.append(joined(graph, [source], 64))
    graph.outputs = [joined(graph, narrow, 128)]
    return parse_model(builder.finish())


def test_one_branch_after_the_other() -> None:
    order = best_order(two_branches(True), KERNELS)
    assert (order.model_bytes, order.peak_bytes) == (64 + 2048, 64 + 64 + 1024)
    assert not best_order(two_branches(False), KERNELS).differs
    found = better_order(two_branches(True), KERNELS)
    assert found is not None and plan_head(found[0], KERNELS).head_bytes == 64 + 64 + 1024


def test_a_chain_and_a_model_without_operators_stay() -> None:
    assert not best_order(parse_model(chain(5)), KERNELS).differs
    builder = ModelBuilder()
    main = builder.subgraph()
    main.inputs = main.outputs = [main.tensor((4,), "int8", "x")]
    assert best_order(parse_model(builder.finish()), KERNELS).operators == ()


def test_control_edges_in_the_file_are_left_as_they_are() -> None:
    builder = ModelBuilder()
    graph = builder.subgraph()
    graph.inputs = [graph.tensor((1, 64), "int8", "input", scale=0.5)]
    wide = [joined(graph, [0], 1024), joined(graph, [0], 1024)]
    graph.outputs = [joined(graph, [joined(graph, [w], 64) for w in wide], 128)]
    assert best_order(parse_model(builder.finish()), KERNELS).differs
    builder.metadata("model_control_dependencies", b"x")
    assert not best_order(parse_model(builder.finish()), KERNELS).differs


def test_effects_keep_their_order() -> None:
    """Reading and writing of resource variables, and a variable tensor's users."""
    builder = ModelBuilder()
    graph = builder.subgraph()
    x = graph.tensor((1, 16), "float32", "x")
    graph.inputs = [x]
    handle = graph.tensor((), "resource", "handle")
    graph.op("VAR_HANDLE", [], [handle], options={"container": "", "shared_name": "v"})
    wide = [graph.tensor((1, 512), "float32") for _ in range(3)]
    for tensor in wide:
        graph.op("CONCATENATION", [x] * 32, [tensor], options={"axis": 1})
    graph.op("ASSIGN_VARIABLE", [handle, wide[0]], [])
    read = graph.tensor((1, 512), "float32")
    graph.op("READ_VARIABLE", [handle], [read])
    graph.op("ASSIGN_VARIABLE", [handle, wide[1]], [])
    last = graph.tensor((1, 512), "float32")
    graph.op("READ_VARIABLE", [handle], [last])
    out = graph.tensor((1, 16), "float32", "out")
    graph.op("CONCATENATION", [last, wide[2]], [out], options={"axis": 1})
    graph.outputs = [out]
    model = parse_model(builder.finish())
    order = best_order(model, KERNELS)
    assert order.differs and order.peak_bytes < order.model_bytes
    effects = [k for k in order.operators if model.main.operators[k].key.endswith("VARIABLE")]
    assert effects == [4, 5, 6, 7]


@pytest.mark.parametrize("known", [True, False])
def test_operators_that_nobody_knows_may_have_effects(known: bool) -> None:
    model = two_branches(True)
    library = KERNELS if known else KERNELS.without(["CONCATENATION"])
    assert best_order(model, library).differs == known


def test_an_order_that_is_none_is_refused() -> None:
    for wrong in ((0, 1), (0, 1, 2, 3, 3), (0, 1, 2, 3, 5)):
        with pytest.raises(PlanError, match="not an order of the model's operators"):
            in_operator_order(two_branches(True), wrong)


@pytest.mark.slow
def test_thousands_of_operators_take_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    model, steps = random_graph(3, 5_000), Counter[str]()
    run = scheduling._Section._run

    def counted(section: Any, state: Any, operator: int) -> Any:
        steps["run"] += 1
        return run(section, state, operator)

    monkeypatch.setattr(scheduling._Section, "_run", counted)
    order = best_order(model, KERNELS)
    assert 0 < steps["run"] < 20 * 5_000
    assert order.peak_bytes <= order.model_bytes and allowed(model, order.operators)


def test_the_command_line(tool: Tool, tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(two_branches(True).data)
    found = tool("plan", path, "--json", "--no-in-place", "-o", "out.tflite").json
    assert found["head_bytes"] == 1152 and sorted(found["order"]) == [0, 1, 2, 3, 4]
    written = parse_model(Path("out.tflite").read_bytes())
    assert [op.outputs for op in written.main.operators] == [
        two_branches(True).main.operators[k].outputs for k in found["order"]
    ]
    assert "in another order than the model's" in tool("plan", path, "--no-in-place").out
    own = tool("plan", path, "--json", "--no-in-place", "--order", "model").json
    assert own["head_bytes"] == 2112 and own["order"] is None
    mine = Path("mine.json")
    mine.write_text(json.dumps(found))
    again = tool("plan", path, "--plan-file", mine, "--no-in-place", "--json").json
    assert (again["head_bytes"], again["order"]) == (1152, found["order"])
    mine.write_text(json.dumps({**found, "order": found["order"][::-1]}))
    said = tool("plan", path, "--plan-file", mine).one_line()
    assert "operator 4 (CONCATENATION) would run before operator 2 (CONCATENATION), which it depends on" in said
    mine.write_text(json.dumps({**found, "order": [0, "x"]}))
    assert "order[1] wants a whole number, not 'x'" in tool("plan", path, "--plan-file", mine).one_line()
    mine.write_text(json.dumps({**found, "order": [0, 1]}))
    assert "not an order of the model's operators" in tool("plan", path, "--plan-file", mine).one_line()

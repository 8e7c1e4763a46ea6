# SPDX-License-Identifier: Apache-2.0
"""Lifespans by hand from TFLM's rules, and against TFLM itself through the head that it plans."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

from tests.helpers.model_builder import ModelBuilder, SubgraphBuilder, chain
from tflm_zephyr.errors import ModelError
from tflm_zephyr.model.lifetimes import NEVER, Graph, Lifespan, Scratch, analyse
from tflm_zephyr.model.reader import load_model, parse_model
from tflm_zephyr.model.types import Model, Operator, Subgraph


def spans(graph: Graph) -> dict[tuple[int, str], tuple[int, int]]:
    return {(t.subgraph, t.name): (t.lifespan.first, t.lifespan.last) for t in graph.tensors}


def relus(main: SubgraphBuilder, count: int, size: int = 16) -> None:
    """`count` RELUs in a row named t0 (the input), t1..."""
    tensors = [main.tensor((1, size), "int8", f"t{i}", scale=0.5) for i in range(count + 1)]
    for a, b in itertools.pairwise(tensors):
        main.op("RELU", [a], [b])
    main.inputs, main.outputs = tensors[:1], tensors[-1:]


def test_chain() -> None:
    graph = analyse(parse_model(chain(3, 20)))
    assert spans(graph) == {
        (0, "input"): (0, 1),
        (0, "relu0"): (1, 2),
        (0, "relu1"): (2, 3),
        (0, "relu2"): (3, 3),
    }
    assert [t.size_bytes for t in graph.tensors] == [20] * 4
    assert graph.operators == ("RELU",)
    assert graph.operator_order == ((0, 0), (0, 1), (0, 2))
    assert graph.scopes == (None, (0, 0), (0, 1), (0, 2))


def control_flow() -> ModelBuilder:
    """RELU, IF (two RELUs | one RELU), WHILE (LESS | the same RELU as IF's else), RELU."""
    model = ModelBuilder()
    main = model.subgraph("main")
    then, other, cond = model.subgraph("then"), model.subgraph("else"), model.subgraph("cond")
    relus(then, 2)
    relus(other, 1)
    x = cond.tensor((1, 16), "int8", "x")
    flag = cond.tensor((1,), "bool", "flag")
    cond.op("LESS", [x, x], [flag], options={})
    cond.inputs, cond.outputs = [x], [flag]
    c = main.tensor((1,), "bool", "c")
    t = [main.tensor((1, 16), "int8", f"m{i}") for i in range(5)]
    main.op("RELU", [t[0]], [t[1]])
    main.op("IF", [c, t[1]], [t[2]], options={"then_subgraph_index": 1, "else_subgraph_index": 2})
    main.op("WHILE", [t[2]], [t[3]], options={"cond_subgraph_index": 3, "body_subgraph_index": 2})
    main.op("ADD", [t[3], t[0]], [t[4]], options={})
    main.inputs, main.outputs = [c, t[0]], [t[4]]
    return model


def test_control_flow_recurses_in_scopes_of_its_own() -> None:
    graph = analyse(parse_model(control_flow().finish()))
    # Scopes: 0 inputs; 1 RELU; 2 IF; 3 enter then; 4, 5 its RELUs; 6 enter else; 7 its RELU; 8 WHILE;
    # 9 enter cond; 10 LESS; 11 enter the body (else again); 12 its RELU; 13 ADD.
    assert graph.scopes == (
        None, (0, 0), (0, 1), None, (1, 0), (1, 1), None, (2, 0), (0, 2), None, (3, 0), None, (2, 0), (0, 3),
    )  # fmt: skip
    assert spans(graph) == {
        (0, "c"): (0, 7),
        (0, "m0"): (0, 13),
        (0, "m1"): (1, 7),
        (0, "m2"): (2, 12),
        (0, "m3"): (8, 13),
        (0, "m4"): (13, 13),
        (1, "t0"): (3, 4),
        (1, "t1"): (4, 5),
        (1, "t2"): (5, 5),
        # Called twice: from the first call to the end of the second.
        (2, "t0"): (6, 12),
        (2, "t1"): (7, 12),
        (3, "x"): (9, 10),
        (3, "flag"): (10, 10),
    }
    assert graph.operators == ("RELU", "IF", "WHILE", "LESS", "ADD")
    assert graph.operator_order == ((0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (0, 2), (3, 0), (0, 3))


def test_call_once() -> None:
    model = ModelBuilder()
    main, init = model.subgraph(), model.subgraph("init")
    relus(init, 1)
    relus(main, 1)
    main.op("CALL_ONCE", [], [], options={"init_subgraph_index": 1})
    graph = analyse(parse_model(model.finish()))
    assert spans(graph)[1, "t0"] == (3, 4)
    assert len(graph.scopes) == 5


def scratch_of(sizes: dict[tuple[int, int], tuple[int, ...]]) -> Scratch:
    def scratch(model: Model, subgraph: Subgraph, operator: Operator) -> tuple[int, ...]:
        return sizes.get((subgraph.index, operator.index), ())

    return scratch


def test_scratch_lives_as_long_as_its_operator_and_its_calls() -> None:
    model = parse_model(control_flow().finish())
    graph = analyse(model, scratch_of({(2, 0): (5, 0), (0, 1): (7,), (0, 3): (9,)}))
    assert [(s.subgraph, s.operator, s.size_bytes, s.lifespan) for s in graph.scratch] == [
        (0, 1, 7, Lifespan(2, 7)),
        (0, 3, 9, Lifespan(13, 13)),
        (2, 0, 5, Lifespan(7, 12)),
        (2, 0, 0, Lifespan(7, 12)),
    ]


@pytest.mark.parametrize("size", [-1, 2**31])
def test_scratch_of_an_impossible_size_is_refused(size: int) -> None:
    with pytest.raises(ModelError, match=r"operator 1 \(RELU\) of subgraph 0 needs -?\d+ bytes"):
        analyse(parse_model(chain()), scratch_of({(0, 1): (size,)}))


def test_subgraph_that_nobody_calls() -> None:
    model = ModelBuilder()
    main, lost = model.subgraph(), model.subgraph("lost")
    relus(main, 1)
    relus(lost, 1)
    lost.op("TANH", [1], [1])
    parsed = parse_model(model.finish())
    graph = analyse(parsed)
    # TFLM gives its planner these tensors too, with lifespans that were never set.
    assert spans(graph)[1, "t0"] == (NEVER, NEVER)
    # The resolver needs its operators all the same.
    assert graph.operators == ("RELU", "TANH")
    assert graph.operator_order[-1] == (1, 1)
    with pytest.raises(ModelError, match=r"nothing calls its subgraph 1"):
        analyse(parsed, scratch_of({(1, 1): (4,)}))


def test_what_is_not_planned() -> None:
    model = ModelBuilder()
    main = model.subgraph()
    x = main.tensor((1, 4), "int8", "x")
    w = main.tensor((4, 4), "int8", "w", data="random")
    empty_buffer = main.tensor((1, 4), "int8", "empty-buffer", data=b"")
    state = main.tensor((1, 40), "int8", "state", variable=True)
    nothing = main.tensor((0, 4), "int8", "nothing")
    y = main.tensor((1, 4), "int8", "y")
    handle = main.tensor((), "resource", "handle")
    unread = main.tensor((2, 2), "int16", "unread")
    main.op("FULLY_CONNECTED", [x, w, -1], [empty_buffer], options={})
    main.op("SVDF", [empty_buffer, state], [y], options={}, intermediates=[nothing])
    main.op("VAR_HANDLE", [], [handle], options={"shared_name": "v"})
    main.inputs, main.outputs = [x], [y]
    graph = analyse(parse_model(model.finish()))
    assert spans(graph) == {
        (0, "x"): (0, 1),
        (0, "empty-buffer"): (1, 2),
        (0, "y"): (2, 3),
        (0, "unread"): (NEVER, NEVER),
    }
    assert graph.tensors[-1].tensor == unread
    assert graph.tensors[-1].size_bytes == 8
    assert [(v.name, v.size_bytes, v.lifespan) for v in graph.variables] == [("state", 40, Lifespan(0, 3))]


def test_tensor_that_is_read_but_never_written() -> None:
    model = ModelBuilder()
    main = model.subgraph()
    x, y = main.tensor((4,), "int8", "x"), main.tensor((4,), "int8", "y")
    main.op("RELU", [x], [y])
    main.outputs = [y]
    assert spans(analyse(parse_model(model.finish()))) == {(0, "x"): (NEVER, 1), (0, "y"): (1, 1)}


def test_subgraph_without_operators() -> None:
    model = ModelBuilder()
    main = model.subgraph()
    x = main.tensor((4,), "int8", "x")
    y = main.tensor((4,), "int8", "y")
    main.inputs, main.outputs = [x], [x, y]
    graph = analyse(parse_model(model.finish()))
    assert spans(graph) == {(0, "x"): (0, 0), (0, "y"): (0, 0)}
    assert graph.operators == ()


def test_preserved_inputs_live_to_the_end() -> None:
    model = parse_model(control_flow().finish())
    plain, kept = spans(analyse(model)), spans(analyse(model, preserve_inputs=True))
    assert kept == {**plain, (0, "c"): (0, 13), (0, "m0"): (0, 13)}


def test_preserved_intermediates_live_to_the_end() -> None:
    model = parse_model(control_flow().finish())
    plain, kept = spans(analyse(model)), spans(analyse(model, preserve_intermediates=True))
    assert kept == {key: (first, 13) for key, (first, _) in plain.items()}


def test_intermediate_tensor_with_data_is_refused() -> None:
    model = ModelBuilder()
    main = model.subgraph()
    x, y, z = (main.tensor((4,), "int8", name) for name in "xyz")
    main.op("SVDF", [x], [y], intermediates=[z])
    with pytest.raises(ModelError, match=r"operator 0 \(SVDF\) of subgraph 0 has data in intermediate tensor 2 'z'"):
        analyse(parse_model(model.finish()))


def test_type_without_a_size_is_refused_by_name() -> None:
    model = ModelBuilder()
    main = model.subgraph()
    main.tensor((4,), "int8", "fine")
    main.tensor((4,), "string", "words", data=b"abc")
    with pytest.raises(ModelError, match=r"here: tensor 1 'words' is of type string"):
        analyse(parse_model(model.finish(), where="here"))


def calling(edges: dict[int, tuple[int, int]], count: int) -> bytes:
    """Subgraphs whose only operators are IFs that call the two of `edges`."""
    model = ModelBuilder()
    for index in range(count):
        graph = model.subgraph(f"s{index}")
        c = graph.tensor((1,), "bool", "c")
        graph.inputs = [c]
        if index in edges:
            then, other = edges[index]
            graph.op("IF", [c], [], options={"then_subgraph_index": then, "else_subgraph_index": other})
    return model.finish()


@pytest.mark.parametrize("edges", [{0: (0, 0)}, {0: (1, 1), 1: (0, 1)}, {0: (1, 2), 2: (1, 2)}])
def test_recursion_is_refused(edges: dict[int, tuple[int, int]]) -> None:
    with pytest.raises(ModelError, match=r"calls itself through"):
        analyse(parse_model(calling(edges, 3)))


def test_calls_that_double_at_every_link_end_soon() -> None:
    data = calling({i: (i + 1, i + 1) for i in range(50)}, 51)
    with pytest.raises(ModelError, match=r"call each other too many times"):
        analyse(parse_model(data))


def test_deep_calls_are_refused() -> None:
    # IF calls an empty subgraph (the last) and the next one.
    data = calling({i: (i + 1, 500) for i in range(499)}, 501)
    with pytest.raises(ModelError, match=r"more than 64 deep"):
        analyse(parse_model(data))


def test_shared_models_analyse(shared_model: Path) -> None:
    model = load_model(shared_model)
    graph = analyse(model)
    assert set(graph.operators) == {o.key for s in model.subgraphs for o in s.operators}
    assert len(graph.tensors) + len(graph.variables) <= model.tensor_count
    assert all(0 <= t.lifespan.first <= t.lifespan.last < len(graph.scopes) for t in graph.tensors)


def random_model(seed: int) -> bytes:
    """RELU, ADD, CONCATENATION, IF and WHILE over int8 rows of different lengths; runs and ends in TFLM."""
    rng = random.Random(seed)
    model = ModelBuilder(seed=seed)
    main = model.subgraph("main")
    bodies: dict[tuple[str, int], int] = {}

    def row(graph: SubgraphBuilder, size: int) -> int:
        return graph.tensor((1, size), "int8", scale=0.5)

    def body(kind: str, size: int) -> int:
        """The subgraph of a kind for rows of `size`; shared by all its callers."""
        if (kind, size) not in bodies:
            bodies[kind, size] = len(model.subgraphs)
            graph = model.subgraph(f"{kind}{size}")
            state = [graph.tensor((1,), "float32")] if kind in ("cond", "loop") else []
            last = row(graph, size)
            graph.inputs = [*state, last]
            if kind == "cond":
                graph.outputs = [graph.tensor((1,), "bool")]
                graph.op("LESS", [state[0], state[0]], graph.outputs, options={})
                return bodies[kind, size]
            for _ in range(rng.randint(1, 3)):
                following = row(graph, size)
                graph.op("RELU", [last], [following])
                last = following
            graph.outputs = [*state, last]
        return bodies[kind, size]

    flag, counter = main.tensor((1,), "bool"), main.tensor((1,), "float32")
    rows = [(row(main, size), size) for size in (rng.randint(1, 90), rng.randint(1, 90))]
    main.inputs = [flag, counter, *(r for r, _ in rows)]
    for _ in range(rng.randint(4, 14)):
        x, size = rng.choice(rows[-4:])
        kind = rng.choice(("RELU", "ADD", "CONCATENATION", "CONCATENATION", "IF", "WHILE"))
        other, other_size = rng.choice(rows)
        if kind == "CONCATENATION":
            y, size = row(main, size + other_size), size + other_size
            main.op(kind, [x, other], [y], options={"axis": 1})
            rows.append((y, size))
            continue
        y = row(main, size)
        rows.append((y, size))
        if kind == "RELU":
            main.op(kind, [x], [y])
        elif kind == "ADD":
            main.op(kind, [x, x], [y], options={})
        elif kind == "IF":
            options = {"then_subgraph_index": body("then", size), "else_subgraph_index": body("else", size)}
            main.op(kind, [flag, x], [y], options=options)
        else:
            left = main.tensor((1,), "float32")
            options = {"cond_subgraph_index": body("cond", size), "body_subgraph_index": body("loop", size)}
            main.op(kind, [counter, x], [left, y], options=options)
    main.outputs = [rows[-1][0], rng.choice(rows)[0]]
    return model.finish()


def assert_tflm_plans_the_same_head(data: bytes) -> None:
    pytest.importorskip("tflite_micro")
    from tests.helpers.host_runs import run_host
    from tflm_zephyr.memory_planner.greedy_planner import greedy
    from tflm_zephyr.memory_planner.problem import Buffer, Problem

    graph = analyse(parse_model(data))
    buffers = tuple(
        Buffer(str(i), t.lifespan.first, t.lifespan.last + 1, t.size_bytes) for i, t in enumerate(graph.tensors)
    )
    inputs = [bytes(graph.model.main.tensors[i].size_bytes) for i in graph.model.main.inputs]
    assert greedy(Problem(buffers)).size_bytes == run_host(data, inputs, 1 << 20).head_bytes


@pytest.mark.parametrize("seed", range(8))
def test_tflm_plans_the_head_that_these_lifespans_give(seed: int) -> None:
    assert_tflm_plans_the_same_head(random_model(seed))


def test_tflm_plans_resource_variables_the_same() -> None:
    model = ModelBuilder()
    main, init = model.subgraph(), model.subgraph("init")
    names = {"container": "c", "shared_name": "v"}
    zero = init.tensor((1, 24), "int8", scale=0.5, data=bytes(24))
    handle = init.tensor((1,), "resource")
    init.op("VAR_HANDLE", [], [handle], options=names)
    init.op("ASSIGN_VARIABLE", [handle, zero], [], options={})
    x, y, z = (main.tensor((1, 24), "int8", scale=0.5) for _ in "xyz")
    handle = main.tensor((1,), "resource")
    main.op("CALL_ONCE", [], [], options={"init_subgraph_index": 1})
    main.op("VAR_HANDLE", [], [handle], options=names)
    main.op("READ_VARIABLE", [handle], [y], options={})
    main.op("ADD", [x, y], [z], options={})
    main.op("ASSIGN_VARIABLE", [handle, z], [], options={})
    main.inputs, main.outputs = [x], [z]
    data = model.finish()
    assert [t.size_bytes for t in analyse(parse_model(data)).tensors] == [24, 24, 24]
    assert_tflm_plans_the_same_head(data)

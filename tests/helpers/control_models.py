# SPDX-License-Identifier: Apache-2.0
"""Models with subgraphs and resource variables."""

from __future__ import annotations

import numpy

from tests.helpers.model_builder import ModelBuilder


def branching() -> bytes:
    """IF with a flag: |x| or x + x, each through two operators, and what comes before and after."""
    model = ModelBuilder()
    main, then, other = model.subgraph("main"), model.subgraph("then"), model.subgraph("else")
    flag, x = main.tensor((1,), "bool", "flag"), main.tensor((1, 20), "float32", "x")
    before, chosen, after = (main.tensor((1, 20), "float32", name) for name in ("before", "chosen", "after"))
    main.op("NEG", [x], [before])
    main.op("IF", [flag, before], [chosen], options={"then_subgraph_index": 1, "else_subgraph_index": 2})
    main.op("ADD", [chosen, x], [after], options={})
    main.inputs, main.outputs = [flag, x], [after]
    for subgraph, key in ((then, "ABS"), (other, "ADD")):
        given, inner, taken = (subgraph.tensor((1, 20), "float32", name) for name in ("given", "inner", "taken"))
        subgraph.op(key, [given] if key == "ABS" else [given, given], [inner], options=None if key == "ABS" else {})
        subgraph.op("FLOOR", [inner], [taken])
        subgraph.inputs, subgraph.outputs = [given], [taken]
    return model.finish()


def looping(times: int = 5) -> bytes:
    """WHILE: a counter up to `times`, and a sum that grows by its start and is halved each time."""
    model = ModelBuilder()
    main, test, body = model.subgraph("main"), model.subgraph("test"), model.subgraph("body")
    x, doubled = main.tensor((1, 12), "float32", "x"), main.tensor((1, 12), "float32", "doubled")
    zero = main.tensor((1,), "int32", "zero", data=bytes(4))
    count, total = main.tensor((1,), "int32", "count"), main.tensor((1, 12), "float32", "sum")
    main.op("ADD", [x, x], [doubled], options={})
    main.op("WHILE", [zero, doubled], [count, total], options={"cond_subgraph_index": 1, "body_subgraph_index": 2})
    last = main.tensor((1, 12), "float32", "last")
    main.op("ADD", [total, x], [last], options={})
    main.inputs, main.outputs = [x], [last, count]
    for subgraph in (test, body):
        given = [subgraph.tensor((1,), "int32", "i"), subgraph.tensor((1, 12), "float32", "y")]
        subgraph.inputs = given
        if subgraph is test:
            most = test.tensor((1,), "int32", "most", data=numpy.array([times], "<i4").tobytes())
            less = test.tensor((1,), "bool", "less")
            test.op("LESS", [given[0], most], [less], options={})
            test.outputs = [less]
            continue
        one = body.tensor((1,), "int32", "one", data=numpy.array([1], "<i4").tobytes())
        half = body.tensor((1, 12), "float32", "half", data=numpy.full(12, 0.5, "<f4").tobytes())
        following, grown = body.tensor((1,), "int32", "next"), body.tensor((1, 12), "float32", "grown")
        halved = body.tensor((1, 12), "float32", "halved")
        body.op("ADD", [given[0], one], [following], options={})
        body.op("ADD", [given[1], given[1]], [grown], options={})
        body.op("MUL", [grown, half], [halved], options={})
        body.outputs = [following, halved]
    return model.finish()


def counting() -> bytes:
    """CALL_ONCE sets a variable; each run adds its input to it."""
    model = ModelBuilder()
    main, start = model.subgraph("main"), model.subgraph("start")
    x = main.tensor((1, 6), "float32", "x")
    handle, before = main.tensor((1,), "resource", "handle"), main.tensor((1, 6), "float32", "before")
    after = main.tensor((1, 6), "float32", "after")
    named = {"container": "", "shared_name": "total"}
    main.op("CALL_ONCE", [], [], options={"init_subgraph_index": 1})
    main.op("VAR_HANDLE", [], [handle], options=named)
    main.op("READ_VARIABLE", [handle], [before])
    main.op("ADD", [before, x], [after], options={})
    main.op("ASSIGN_VARIABLE", [handle, after], [])
    main.inputs, main.outputs = [x], [after]
    own = start.tensor((1,), "resource", "handle")
    value = start.tensor((1, 6), "float32", "value", data=numpy.arange(6, dtype="<f4").tobytes())
    start.op("VAR_HANDLE", [], [own], options=named)
    start.op("ASSIGN_VARIABLE", [own, value], [])
    return model.finish()

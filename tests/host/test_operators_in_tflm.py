# SPDX-License-Identifier: Apache-2.0
"""Types, scratch and persistent requests of single operators, as TFLM itself takes and reports them.

TFLM here is the tflite-micro package, newer than the pinned revision, so the rules of later revisions count.
Every model runs in a forked process, as TFLM ends the process on some bad models.
"""

from __future__ import annotations

import os
import re
import signal
from dataclasses import replace
from typing import Any

import pytest

from tests.helpers.operator_models import CASES, Case, weighted
from tflm_zephyr.errors import ToolError
from tflm_zephyr.kernels import libraries as kernels
from tflm_zephyr.kernels.type_rules import check_types
from tflm_zephyr.memory_planner.greedy_planner import greedy
from tflm_zephyr.memory_planner.problem import Buffer, Problem
from tflm_zephyr.model.lifetimes import analyse
from tflm_zephyr.model.reader import parse_model
from tflm_zephyr.model.types import Model

runtime: Any = pytest.importorskip("tflite_micro").runtime
numpy: Any = pytest.importorskip("numpy")

TYPES = ("float32", "int8", "int16", "int32", "int64", "uint8", "float16", "bool", "uint32")


def run_in_tflm(data: bytes) -> str | None:
    """TFLM's record of allocations after one run on zeros; None when it refuses the model or crashes."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(30)
            os.dup2(writing, 2)
            interpreter = runtime.Interpreter.from_bytes(data, arena_size=1 << 20)
            for index in range(len(parse_model(data).main.inputs)):
                details = interpreter.get_input_details(index)
                interpreter.set_input(numpy.zeros(details["shape"], details["dtype"]), index)
            interpreter.invoke()
            interpreter.print_allocations()
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, errors="replace") as stream:
        text = stream.read()
    _, status = os.waitpid(child, 0)
    return text if status == 0 else None


def refusal(model: Model) -> str | None:
    try:
        check_types(model, revision="host")
    except ToolError as error:
        return str(error)
    return None


def head_bytes(model: Model) -> int:
    graph = analyse(model, kernels.host().scratch)
    buffers = tuple(
        Buffer(str(k), item.lifespan.first, item.lifespan.last + 1, item.size_bytes)
        for k, item in enumerate((*graph.tensors, *graph.scratch))
    )
    return greedy(Problem(buffers)).size_bytes


def agree(case: Case, misread: bool = False) -> None:
    """TFLM takes what is taken; its head and count of persistent requests are those foretold."""
    data = case.build()
    model = parse_model(data)
    said, text = refusal(model), run_in_tflm(data)
    kinds = [spec and spec.type for spec in (*case.inputs, *case.outputs)]
    if said is not None:
        assert text is None or misread, f"{case.key} {kinds}: refused in vain: {said}"
        return
    assert text is not None, f"{case.key} {kinds}: TFLM refuses it"
    head = re.search(r"Arena allocation head (\d+) bytes", text)
    persistent = re.search(r"'Persistent buffer data' used .* for (\d+) allocations", text)
    assert head and persistent, text
    assert head_bytes(model) == int(head[1]), f"{case.key} {kinds}"
    sizes = kernels.host().persistent(model, model.main, model.main.operators[0])
    # The interpreter itself asks twice, for its arrays of inputs and outputs.
    assert len(sizes) + 2 == int(persistent[1]), f"{case.key} {kinds}"


@pytest.mark.slow
@pytest.mark.parametrize("kind", TYPES)
def test_every_operator_in_every_type(kind: str) -> None:
    for case in CASES:
        agree(case.typed(kind))


@pytest.mark.slow
def test_mixtures_of_types_in_layers_with_weights() -> None:
    cases = list(weighted())
    taken = 0
    for case in cases:
        agree(case, misread=_misread(case))
        taken += refusal(parse_model(case.build())) is None
    assert taken > 30
    assert len(cases) - taken > 150


def _misread(case: Case) -> bool:
    """TFLM does not look at the type of a bias, nor TRANSPOSE_CONV at int16 weights: it reads what it expects."""
    transposed = case.key == "TRANSPOSE_CONV"
    source, weights = case.inputs[2 if transposed else 0], case.inputs[1]
    bias = case.inputs[-1] if len(case.inputs) > (3 if transposed else 2) else None
    assert source and weights
    expected = {"float32": ("float32",), "int8": ("int32",), "int16": ("int64",)}.get(source.type, ())
    return (bias is not None and bias.type not in expected) or (transposed and weights.type == "int16")


def test_the_checks_can_fail() -> None:
    case = next(case for case in CASES if case.key == "MEAN").typed("int8")
    data = case.build()
    text = run_in_tflm(data)
    assert text is not None
    assert run_in_tflm(replace(case, key="REDUCE_PROD", options=None).build()) is None
    assert f"head {head_bytes(parse_model(data))} bytes" in text

# SPDX-License-Identifier: Apache-2.0
"""Subgraphs and resource variables in compiled models: their layers, plan and proof."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.helpers.compiled_models import REFERENCE, compiled_model
from tests.helpers.control_models import branching, counting, looping
from tests.helpers.generated_models import variables
from tests.helpers.model_builder import ModelBuilder
from tflm_zephyr.compiler import ControlLayer
from tflm_zephyr.compiler.plan_proof import prove
from tflm_zephyr.errors import ModelError, PlanError


def test_each_subgraph_is_a_function_of_layers() -> None:
    program = compiled_model(branching())
    assert program.called == (1, 2)
    assert [layer.key for layer in program.main_layers] == ["NEG", "IF", "ADD"]
    assert [layer.key for layer in program.body(2)] == ["ADD", "FLOOR"]


def test_a_loop_tests_before_it_runs() -> None:
    layer = compiled_model(looping()).main_layers[1]
    assert isinstance(layer, ControlLayer)
    loop = layer.control
    assert [branch.subgraph for branch in loop.branches] == [1, 2]
    assert len(loop.start) == 4  # inputs to the test's inputs, and to the outputs


def test_variables_hold_to_the_end_of_all_runs() -> None:
    program = compiled_model(counting())
    assert program.flat is not None
    (variable,) = set(program.flat.variables.values())
    tensor = program.model.main.tensors[variable]
    assert tensor.is_variable
    assert tensor.size_bytes == 24
    first = program.offsets[variable]
    for other, offset in program.offsets.items():
        end = offset + program.model.main.tensors[other].size_bytes
        assert other == variable or end <= first or first + 24 <= offset
    assert len(program.flags) == 1


def test_one_name_is_one_variable() -> None:
    program = compiled_model(variables(["a", "b", "a"]))
    assert program.flat is not None
    handles = program.flat.variables
    assert len(handles) == 3
    assert len(set(handles.values())) == 2


@pytest.mark.parametrize("data", [branching(), looping(), counting()])
def test_each_tensor_laid_over_another_is_caught(data: bytes) -> None:
    program = compiled_model(data)
    places = sorted(set(program.offsets.values()))
    caught = tried = 0
    for tensor, offset in program.offsets.items():
        for other in places:
            if other == offset:
                continue
            tried += 1
            try:
                prove(replace(program, offsets={**program.offsets, tensor: other}), (REFERENCE,))
            except PlanError:
                caught += 1
    assert caught > tried // 3


def test_a_copy_over_itself_is_caught() -> None:
    """A copy's source and target apart from each other are all that the generated code's copies rely on."""
    program = compiled_model(looping())
    loop = program.main_layers[1].control
    assert loop is not None
    caught = 0
    for copy in (copy for copy in loop.start if not copy.constant):
        over = {**program.offsets, copy.target: program.offsets[copy.source]}
        with pytest.raises(
            PlanError, match=r"layer 1 \(WHILE\) (copies tensor \d+ .* over itself|reads tensor)"
        ) as said:
            prove(replace(program, offsets=over), (REFERENCE,))
        caught += "over itself" in str(said.value)
    assert caught


def test_a_loops_output_over_its_bodys_is_caught() -> None:
    program = compiled_model(looping())
    layer = program.main_layers[1]
    assert isinstance(layer, ControlLayer)
    loop = layer.control
    target, source = loop.branches[1].after[1].target, loop.branches[1].after[1].source
    wrong = replace(program, offsets={**program.offsets, target: program.offsets[source]})
    with pytest.raises(PlanError, match="layer"):
        prove(wrong, (REFERENCE,))


def test_a_variable_handed_to_a_subgraph_is_refused() -> None:
    model = ModelBuilder()
    main, then = model.subgraph("main"), model.subgraph("then")
    flag, handle = main.tensor((1,), "bool", "flag"), main.tensor((1,), "resource", "handle")
    x = main.tensor((1, 4), "float32", "x")
    y = main.tensor((1, 4), "float32", "y")
    main.op("VAR_HANDLE", [], [handle], options={"container": "", "shared_name": "v"})
    main.op("ASSIGN_VARIABLE", [handle, x], [])
    main.op("IF", [flag, handle], [y], options={"then_subgraph_index": 1, "else_subgraph_index": 1})
    main.inputs, main.outputs = [flag, x], [y]
    given, taken = then.tensor((1,), "resource", "given"), then.tensor((1, 4), "float32", "taken")
    then.op("READ_VARIABLE", [given], [taken])
    then.inputs, then.outputs = [given], [taken]
    with pytest.raises(ModelError, match="variable"):
        compiled_model(model.finish())

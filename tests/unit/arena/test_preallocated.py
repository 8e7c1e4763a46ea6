# SPDX-License-Identifier: Apache-2.0
"""Preallocated tensors: found, refused, and out of the head."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.heads import plan_head
from tests.helpers.model_builder import ModelBuilder, chain
from tflm_zephyr.arena.preallocated import preallocated_tensors
from tflm_zephyr.codegen.preallocated_buffers import buffer_specs
from tflm_zephyr.errors import AppError, PlanError
from tflm_zephyr.kernels.libraries import kernel_library
from tflm_zephyr.model.reader import parse_model
from tflm_zephyr.model.types import Model
from tflm_zephyr.model.writer import with_offline_plan
from tflm_zephyr.options import ModelConfig, PreallocatedConfig

CHAIN = parse_model(chain(3, 64), where="net.tflite")


def odd_model() -> Model:
    builder = ModelBuilder()
    main = builder.subgraph()
    for name in ("twice", "twice"):
        main.tensor((4,), "int8", name)
    main.tensor((4,), "int8", "constant", data=b"abcd")
    main.tensor((4,), "int8", "state", variable=True)
    main.tensor((0,), "int8", "empty")
    main.tensor((4,), "int8", "3")
    main.inputs, main.outputs = [0], [1]
    return parse_model(builder.finish(), where="odd.tflite")


def test_by_name_and_index() -> None:
    assert preallocated_tensors(CHAIN, ["input", 3, "1"]) == (0, 3, 1)
    assert preallocated_tensors(odd_model(), ["3"]) == (5,)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("camera", "no tensor named 'camera'. Its inputs and outputs are tensor 0 'twice', tensor 1 'twice'"),
        ("a\nb", r"no tensor named 'a\\nb'"),
        (9, "no tensor 9; it has 6"),
        (-1, "no tensor -1"),
        ("twice", "tensors 0, 1 are all named 'twice'"),
        ("constant", "tensor 2 'constant' is a constant"),
        ("state", "tensor 3 'state' is a variable"),
        ("empty", "tensor 4 'empty' needs no memory"),
    ],
)
def test_what_cannot_be_is_named(name: str | int, says: str) -> None:
    with pytest.raises(AppError, match=says) as caught:
        preallocated_tensors(odd_model(), [name])
    assert str(caught.value).startswith("odd.tflite: preallocated: ") and "\n" not in str(caught.value)


def test_handles_of_resource_variables_are_the_kernels() -> None:
    builder = ModelBuilder()
    main = builder.subgraph()
    taken = [main.tensor((1,), kind, f"handle{kind}") for kind in ("resource", "int32")]
    main.inputs = [main.tensor((4,), "int8", "input")]
    for handle in taken:
        main.op("VAR_HANDLE", [], [handle], options={"container": "", "shared_name": "state"})
    main.outputs = [*main.inputs]
    model = parse_model(builder.finish(), where="state.tflite")
    for handle in taken:
        with pytest.raises(AppError, match=f"tensor {handle} 'handle.*' is a handle of a resource variable"):
            preallocated_tensors(model, [handle])
    assert preallocated_tensors(model, ["input"]) == (2,)


def test_twice_is_once_too_often() -> None:
    with pytest.raises(AppError, match="tensor 0 'input' is preallocated twice"):
        preallocated_tensors(CHAIN, ["input", 0])


def test_a_tensor_that_the_models_plan_places_is_refused() -> None:
    planned = parse_model(with_offline_plan(CHAIN, [0, -1, 0, -1]), where="p.tflite")
    with pytest.raises(PlanError, match=r"p\.tflite: tensor 0 'input' is preallocated, but .* places it at offset 0"):
        preallocated_tensors(planned, ["input"])
    assert preallocated_tensors(planned, [1]) == (1,)


def test_they_take_no_arena() -> None:
    head = plan_head(CHAIN, kernel_library("reference"), offline="always", preallocated=(0, 1))
    assert head.offsets is not None and head.offsets[:2] == (-1, -1) and min(head.offsets[2:]) >= 0
    assert plan_head(CHAIN, kernel_library("reference"), preallocated=(0, 1, 2)).head_bytes == 64
    assert plan_head(CHAIN, kernel_library("reference"), preallocated=range(4)).head_bytes == 0
    assert plan_head(CHAIN, kernel_library("reference"), preallocated=(0,)).head_bytes == 128


def specs(*items: PreallocatedConfig) -> list[tuple[object, ...]]:
    config = ModelConfig(Path("net.tflite"), preallocated=items)
    return [(s.tensor, s.name, s.symbol, s.bytes, s.section, s.alignment) for s in buffer_specs(CHAIN, config)]


def test_specs_for_the_app() -> None:
    assert specs(PreallocatedConfig("input"), PreallocatedConfig(3, "out", ".dma", 32)) == [
        (0, "input", "net_input", 64, "", 16),
        (3, "relu2", "out", 64, ".dma", 32),
    ]
    with pytest.raises(AppError, match="int cannot be a C"):
        specs(PreallocatedConfig("input", "int"))

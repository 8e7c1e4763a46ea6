# SPDX-License-Identifier: Apache-2.0
"""The estimated tail: step by step on a small model, and against what TFLM on Zephyr 4.1 reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.heads import plan_head
from tests.helpers.model_builder import ModelBuilder, chain
from tflm_zephyr.arena.tail import estimate_tail
from tflm_zephyr.kernels.libraries import kernel_library
from tflm_zephyr.model.lifetimes import analyse
from tflm_zephyr.model.reader import load_model, parse_model
from tflm_zephyr.tflm.struct_sizes import cortex_m_sizes

CORTEX_M, CORTEX_M_STATIC = cortex_m_sizes(), cortex_m_sizes(static_memory=True)

REFERENCE = kernel_library("reference")


def test_every_section_of_a_chain() -> None:
    tail = estimate_tail(analyse(parse_model(chain(3, 64)), REFERENCE.scratch), REFERENCE)
    assert dict(tail.sections) == {
        "allocator and planner": 36 + 44 + 36 + 8,
        "subgraphs": 8,
        "eval tensors": 4 * 12,
        "nodes and registrations": 3 * 44,
        "builtin data": 0,
        "operator data": 8 + 3 * 32,  # 28 bytes each, and what aligns the first to 16
        "scratch handles": 0,
        "variables": 0,
        "input and output tensors": 16 + (64 + 12 + 8) + 12 + (64 + 12 + 8),  # 4 bytes of pointers, aligned
    }
    assert tail.tail_bytes == sum(size for _, size in tail.sections)
    assert not tail.unknown


def test_static_memory_makes_structs_smaller() -> None:
    graph = analyse(parse_model(chain(3, 64)), REFERENCE.scratch)
    tails = {sizes: dict(estimate_tail(graph, REFERENCE, sizes).sections) for sizes in (CORTEX_M, CORTEX_M_STATIC)}
    assert tails[CORTEX_M]["nodes and registrations"] == 3 * 44
    assert tails[CORTEX_M_STATIC]["nodes and registrations"] == 3 * 32


def test_resource_variables_and_called_subgraphs_are_counted() -> None:
    builder = ModelBuilder()
    main, once = builder.subgraph("main"), builder.subgraph("once")
    handle = main.tensor((1,), "resource", "handle")
    value = main.tensor((1, 32), "float32", "value")
    main.op("CALL_ONCE", [], [], options={"init_subgraph_index": 1})
    main.op("VAR_HANDLE", [], [handle], options={"container": "", "shared_name": "v"})
    main.op("READ_VARIABLE", [handle], [value])
    main.outputs = [value]
    inner = once.tensor((1,), "resource", "handle")
    zeros = once.tensor((1, 32), "float32", "zeros", data=bytes(128))
    once.op("VAR_HANDLE", [], [inner], options={"container": "", "shared_name": "v"})
    once.op("ASSIGN_VARIABLE", [inner, zeros], [])
    model = parse_model(builder.finish())
    sections = dict(estimate_tail(analyse(model, REFERENCE.scratch), REFERENCE).sections)
    assert sections["allocator and planner"] == (36 + 44 + 36 + 12) + (20 + 12) + 8  # one variable, named twice
    assert sections["eval tensors"] == 4 * 12
    assert sections["builtin data"] == 4 + 8 + 8


def test_an_unknown_kernel_is_named_and_gets_an_allowance() -> None:
    builder = ModelBuilder()
    main = builder.subgraph()
    x, y = main.tensor((4,), "int8", "x"), main.tensor((4,), "int8", "y")
    main.op("CUSTOM", [x], [y], custom_code="MyOp")
    main.inputs, main.outputs = [x], [y]
    tail = estimate_tail(analyse(parse_model(builder.finish()), REFERENCE.scratch), REFERENCE)
    assert tail.unknown == ("MyOp",)
    assert dict(tail.sections)["operator data"] >= 1024


def test_the_arena_holds_what_planning_needs() -> None:
    tail = estimate_tail(analyse(parse_model(chain(3, 64)), REFERENCE.scratch), REFERENCE)
    assert tail.planning_bytes > tail.tail_bytes + 128
    assert tail.planning_bytes + tail.slack_bytes <= tail.arena_bytes(128) < tail.planning_bytes + tail.slack_bytes + 16
    assert tail.arena_bytes(100_000) >= 100_000 + tail.tail_bytes


def test_builtin_data_names_structs_that_are_measured() -> None:
    assert all(name in CORTEX_M.layouts for name in CORTEX_M.builtin_data.values())


# Tails that TFLM reported on Zephyr 4.1 for a Cortex-M3 with the reference kernels.
@pytest.mark.parametrize(("name", "tail_bytes"), [("hello_world_int8", 740), ("person_detect", 27_428)])
def test_tails_are_those_of_the_device(shared: Path, name: str, tail_bytes: int) -> None:
    head = plan_head(load_model(shared / "models" / f"{name}.tflite"), REFERENCE)
    assert estimate_tail(head.graph, REFERENCE).tail_bytes == tail_bytes


def test_the_smallest_arena_is_not_underestimated(shared: Path) -> None:
    # Found by trying on the device: hello_world allocates in 1,104 bytes and in no less, though it uses 772.
    head = plan_head(load_model(shared / "models" / "hello_world_int8.tflite"), REFERENCE)
    tail = estimate_tail(head.graph, REFERENCE)
    assert head.head_bytes + tail.tail_bytes == 772
    assert tail.planning_bytes == 1104

# SPDX-License-Identifier: Apache-2.0
"""Models for generated apps."""

from __future__ import annotations

from tests.helpers.model_builder import ModelBuilder


def passing() -> bytes:
    model = ModelBuilder()
    main = model.subgraph()
    x = main.tensor((1, 4), "int8", "x", scale=1.0)
    main.inputs, main.outputs = [x], [x]
    return model.finish()


def variables(names: list[str]) -> bytes:
    """Assigns the input to variables and reads the last one back."""
    model = ModelBuilder()
    main = model.subgraph()
    x = main.tensor((1, 4), "int8", "x", scale=1.0)
    y = main.tensor((1, 4), "int8", "y", scale=1.0)
    for index, name in enumerate(names):
        handle = main.tensor((), "resource", f"handle{index}")
        main.op("VAR_HANDLE", [], [handle], options={"container": "", "shared_name": name})
        main.op("ASSIGN_VARIABLE", [handle, x], [], options={})
    main.op("READ_VARIABLE", [handle], [y], options={})
    main.inputs, main.outputs = [x], [y]
    return model.finish()


def with_custom(name: str = "MyOp") -> bytes:
    model = ModelBuilder()
    main = model.subgraph()
    x = main.tensor((1, 4), "int8", "x", scale=1.0)
    y = main.tensor((1, 4), "int8", "y", scale=1.0)
    main.op("CUSTOM", [x], [y], custom_code=name)
    main.inputs, main.outputs = [x], [y]
    return model.finish()

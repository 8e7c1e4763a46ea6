# SPDX-License-Identifier: Apache-2.0
"""The app's own buffers for preallocated tensors: the symbol that holds each tensor of a model."""

from __future__ import annotations

from collections.abc import Iterable

from tflm_zephyr.arena import preallocated_tensors
from tflm_zephyr.codegen.backends.interpreter_spec import InterpreterSpec, PreallocatedSpec
from tflm_zephyr.codegen.identifiers import identifier, is_reserved
from tflm_zephyr.errors import AppError
from tflm_zephyr.model import Model
from tflm_zephyr.options import ModelConfig


def buffer_specs(model: Model, config: ModelConfig) -> tuple[PreallocatedSpec, ...]:
    """A spec for each preallocated tensor of `config`; AppError for an impossible symbol or alignment."""
    found = []
    indices = preallocated_tensors(model, [item.tensor for item in config.preallocated])
    for item, index in zip(config.preallocated, indices, strict=True):
        tensor = model.main.tensors[index]
        symbol = item.symbol or f"{identifier(config.label)}_{identifier(tensor.name or f'tensor_{index}')}"
        where = f"{model.where}, {tensor.label}"
        if is_reserved(symbol):
            raise AppError(f"{symbol} cannot be a C++ variable", where=where, hint="Give another symbol")
        if item.alignment % tensor.type.size_bytes:
            what = f"an alignment of {item.alignment} does not suit elements of {tensor.type.size_bytes} bytes"
            raise AppError(what, where=where, hint="Give a larger alignment")
        found.append(PreallocatedSpec(index, tensor.name, symbol, tensor.size_bytes, item.section, item.alignment))
    return tuple(found)


def check_symbols(runtimes: Iterable[InterpreterSpec], where: str) -> None:
    """AppError when one symbol holds two tensors, which may be alive together."""
    seen: set[str] = set()
    for spec in (spec for runtime in runtimes for spec in runtime.preallocated):
        if spec.symbol in seen:
            hint = "Give each a symbol of its own"
            raise AppError(f"two preallocated tensors are held by {spec.symbol}", where=where, hint=hint)
        seen.add(spec.symbol)

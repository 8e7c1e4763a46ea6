# SPDX-License-Identifier: Apache-2.0
"""Compiled models without an app around them: TFLM's own kernels have registrations of their operators' names."""

from __future__ import annotations

from collections.abc import Iterable

from tflm_zephyr.compiler import CompiledModel, Kernel, Library, compile_model
from tflm_zephyr.kernels import kernel_library
from tflm_zephyr.model import parse_model

REFERENCE = kernel_library("reference")


def registrations(keys: Iterable[tuple[bool, str]]) -> dict[tuple[bool, str], Kernel]:
    """Registrations of TFLM's own kernels; a key is whether it is a custom operator, and the operator's key."""
    return {key: Kernel(Library.FALLBACK, f"Register_{key[1]}", ("tflite",)) for key in keys}


def compiled_model(data: bytes) -> CompiledModel:
    """The model with the reference kernels."""
    model = parse_model(data)
    keys = {
        (operator.custom_code is not None, operator.key)
        for subgraph in model.subgraphs
        for operator in subgraph.operators
    }
    return compile_model(model, (REFERENCE,), registrations=registrations(keys))

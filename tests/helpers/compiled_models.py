# SPDX-License-Identifier: Apache-2.0
"""Compiled models without an app around them: TFLM's own kernels have registrations of their operators' names."""

from __future__ import annotations

from tflm_zephyr.compiler import CompiledModel, compile_model
from tflm_zephyr.kernels import kernel_library
from tflm_zephyr.model import parse_model

REFERENCE = kernel_library("reference")


def compiled_model(data: bytes) -> CompiledModel:
    """The model with the reference kernels."""
    model = parse_model(data)
    keys = {
        (operator.custom_code is not None, operator.key)
        for subgraph in model.subgraphs
        for operator in subgraph.operators
    }
    return compile_model(model, (REFERENCE,), registrations={key: f"tflite::Register_{key[1]}()" for key in keys})

# SPDX-License-Identifier: Apache-2.0
"""Single operators as compiled layers, without a compiler of C."""

from __future__ import annotations

from tests.helpers.operator_models import Case
from tflm_zephyr.compiler import CompiledModel, KernelLayer, compile_model
from tflm_zephyr.compiler.ir.structs import FieldValue, Struct
from tflm_zephyr.kernels import Node, kernel_library
from tflm_zephyr.model import parse_model


def node_of(case: Case) -> Node:
    """The case's operator."""
    model = parse_model(case.build())
    return Node(model, model.main, model.main.operators[0])


def compiled(case: Case, library: str = "reference") -> CompiledModel:
    """The case for a Cortex-M3."""
    return compile_model(parse_model(case.build()), (kernel_library(library),))


def layer_of(case: Case, library: str = "reference") -> KernelLayer:
    """Its one layer."""
    (layer,) = compiled(case, library).layers
    assert isinstance(layer, KernelLayer)
    return layer


def fields(layer: KernelLayer, name: str) -> dict[str, FieldValue]:
    """The fields of one of a layer's structs."""
    (value,) = [value for value in layer.parameters if isinstance(value, Struct) and value.name == name]
    return dict(value.fields)

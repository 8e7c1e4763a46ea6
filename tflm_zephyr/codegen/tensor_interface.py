# SPDX-License-Identifier: Apache-2.0
"""A model's inputs and outputs as the generated interface passes them."""

from __future__ import annotations

from math import prod

from tflm_zephyr.codegen.spec import TensorSpec
from tflm_zephyr.errors import ModelError
from tflm_zephyr.model import Model, Tensor, TensorType

_PASSED = frozenset(kind for kind in TensorType if kind.struct_code and kind.value not in ("float16", "int4"))


def check_interface(model: Model) -> None:
    """ModelError for inputs or outputs that the generated interface cannot pass."""
    if not model.main.outputs:
        raise ModelError("it has no outputs", where=model.where, hint="Export the model again")
    for tensor in (model.main.tensors[index] for index in (*model.main.inputs, *model.main.outputs)):
        if tensor.type not in _PASSED:
            raise ModelError(
                f"input or output {tensor.label} is of type {tensor.type.value}, which the generated interface "
                "cannot pass",
                where=model.where,
                hint="Convert the model with int8, int16, int32, bool or float32 inputs and outputs",
            )
        zero_points = tensor.quantization.zero_points if tensor.quantization is not None else ()
        if not all(-(2**31) <= zero < 2**31 for zero in zero_points):
            raise ModelError(f"{tensor.label} has a zero point beyond 32 bits", where=model.where)


def tensor_spec(tensor: Tensor) -> TensorSpec:
    """The facts of an input or output that the templates use."""
    quantised = tensor.quantization if tensor.type.value not in ("float32", "float64", "bool") else None
    single = quantised is not None and len(quantised.scales) == 1
    return TensorSpec(
        name=tensor.name,
        type=tensor.type.value,
        c_type=tensor.type.c_type,
        tflite_type=tensor.type.tflite_name,
        shape=tensor.shape,
        elements=prod(tensor.shape),
        bytes=tensor.size_bytes,
        scale=quantised.scales[0] if quantised is not None and single else None,
        zero_point=quantised.zero_points[0] if quantised is not None and single and quantised.zero_points else 0,
    )

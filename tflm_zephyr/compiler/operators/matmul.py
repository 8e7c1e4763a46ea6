# SPDX-License-Identifier: Apache-2.0
"""BATCH_MATMUL of equal batches, in int8, int16 and float.

Sources: batch_matmul.cc and cmsis_nn/batch_matmul.cc (tensorflow/lite/micro/kernels), reference/batch_matmul.h. The
functions take the rows of the left operand and those of the transposed right one. What has to be transposed is so at
generation where it is constant, and else in the layer's scratch buffer, where TFLM keeps a persistent one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tflm_zephyr.compiler.copies import gather
from tflm_zephyr.compiler.fixed_point import LIMITS, Multiplier
from tflm_zephyr.compiler.ir.kernels import cmsis_kernel, reference_kernel
from tflm_zephyr.compiler.ir.operands import Null, Operand
from tflm_zephyr.compiler.ir.structs import Scratch, limits, members
from tflm_zephyr.compiler.layer_builder import LayerBuilder, kernel_scratch_bytes
from tflm_zephyr.compiler.lowering import Lowering
from tflm_zephyr.compiler.operators.weights import (
    arm_context,
    arm_quantisation,
    arm_struct,
    check_symmetric,
    dense_multiplier,
    reference_params,
)
from tflm_zephyr.kernels import zero_point_of
from tflm_zephyr.memory_planner import align_up
from tflm_zephyr.model import Tensor, TensorType
from tflm_zephyr.tflm import ALIGNMENT

_KINDS = {TensorType.INT8: "s8", TensorType.INT16: "s16", TensorType.FLOAT32: ""}


@dataclass(frozen=True)
class Matrices:
    """Batches of `rows` by `columns` elements as they lie in memory; `turned`: the function wants the transpose."""

    batches: int
    rows: int
    columns: int
    turned: bool

    @property
    def wanted(self) -> tuple[int, int]:
        """Rows and columns as the function takes them."""
        return (self.columns, self.rows) if self.turned else (self.rows, self.columns)


def batch_matmul(b: LayerBuilder) -> None:
    """BATCH_MATMUL."""
    node = b.node
    left, right, output = node.input(0), node.input(1), node.output()
    if not left.type is right.type is output.type or left.type not in _KINDS:
        raise b.refuse(f"has no direct code for {node.types}")
    if len(left.shape) < 2 or left.shape[:-2] != right.shape[:-2]:
        raise b.refuse("has batches that it broadcasts")
    batches = math.prod(left.shape[:-2])
    matrices = (
        Matrices(batches, left.shape[-2], left.shape[-1], bool(node.option("adj_x"))),
        Matrices(batches, right.shape[-2], right.shape[-1], not node.option("adj_y")),
    )
    (rows, depth), (columns, other_depth) = (one.wanted for one in matrices)
    if depth != other_depth or output.elements != batches * rows * columns:
        raise b.refuse("has shapes that do not fit each other")
    if left.type is TensorType.INT16:
        check_symmetric(b)
        if zero_point_of(right):
            raise b.refuse("has int16 tensors with a zero point")
    one, other = _operands(b, matrices)
    sizes = batches, rows, columns, depth
    if left.type is TensorType.FLOAT32:
        _reference(b, (), one, other, sizes)
    elif b.cmsis_nn:
        _arm(b, one, other, sizes)
    else:
        types = left.type, TensorType.INT32 if left.type is TensorType.INT8 else TensorType.INT64
        _reference(b, types, one, other, sizes)


def turned_constant(tensor: Tensor, matrices: Matrices) -> bytes:
    """The data of a constant with its rows and columns swapped."""
    size, data = tensor.type.size_bytes, tensor.data or b""
    found = bytearray()
    for batch in range(matrices.batches):
        for column in range(matrices.columns):
            for row in range(matrices.rows):
                at = ((batch * matrices.rows + row) * matrices.columns + column) * size
                found += data[at : at + size]
    return bytes(found)


def _operands(b: LayerBuilder, matrices: tuple[Matrices, Matrices]) -> list[Operand]:
    """The expressions of both operands, with the copies that turn those that are computed."""
    tensors = [b.node.input(place) for place in (0, 1)]
    at = align_up(kernel_scratch_bytes(b), ALIGNMENT) if b.cmsis_nn else 0
    places: dict[int, int] = {}
    for place, (tensor, one) in enumerate(zip(tensors, matrices, strict=True)):
        if one.turned and tensor.data is None:
            places[place] = at
            at += align_up(tensor.size_bytes, ALIGNMENT)
    b.scratch(at)
    found: list[Operand] = []
    for place, (tensor, one) in enumerate(zip(tensors, matrices, strict=True)):
        name = f"input{place}"
        if not one.turned:
            found.append(b.source(place, name))
        elif tensor.data is not None:
            data = turned_constant(tensor, one)
            found.append(b.array(name, tensor.type, data, f"{tensor.label}, transposed"))
        else:
            target, step = Scratch(places[place], tensor.type), one.rows * one.columns
            gather(b, place, name, target, ((one.batches, step), (one.columns, 1), (one.rows, one.columns)))
            found.append(target)
    return found


def _fields(b: LayerBuilder, scaling: Multiplier) -> dict[str, int]:
    """FullyConnectedParams with the right operand as its input, as TFLM passes them."""
    node = b.node
    low, high = LIMITS[node.output().type]
    return {
        "input_offset": -zero_point_of(node.input(0)),
        "weights_offset": -zero_point_of(node.input(1)),
        "output_offset": zero_point_of(node.output()),
        "output_multiplier": scaling.value,
        "output_shift": scaling.shift,
        "quantized_activation_min": low,
        "quantized_activation_max": high,
    }


def _reference(
    b: LayerBuilder, types: tuple[TensorType, ...], one: Operand, other: Operand, sizes: tuple[int, int, int, int]
) -> None:
    batches, rows, columns, depth = sizes
    fields = _fields(b, dense_multiplier(b.node)) if types else {}
    parameters = (reference_params(b, "FullyConnectedParams", **fields),) if types else ()
    b.call(
        reference_kernel("batch_matmul.h", "BatchMatMul", *types),
        *parameters,
        b.shape((batches, columns, depth)),
        other,
        b.shape((batches, depth, rows)),
        one,
        b.shape((batches, rows, columns)),
        b.result(),
    )


def _arm(b: LayerBuilder, one: Operand, other: Operand, sizes: tuple[int, int, int, int]) -> None:
    node = b.node
    batches, rows, columns, depth = sizes
    params = members(
        input_offset=-zero_point_of(node.input(0)),
        filter_offset=-zero_point_of(node.input(1)),
        output_offset=zero_point_of(node.output()),
        activation=limits(LIMITS[node.output().type]),
    )
    parameters = arm_struct(b, "kParams", "cmsis_nn_bmm_params", adj_x=False, adj_y=False, fc_params=params)
    quantisation = arm_quantisation(b, dense_multiplier(node))
    b.call(
        cmsis_kernel(f"arm_batch_matmul_{_KINDS[node.output().type]}"),
        arm_context(b, Scratch() if kernel_scratch_bytes(b) else Null()),
        parameters,
        quantisation,
        b.dims(1, batches, rows, depth),
        one,
        b.dims(1, batches, columns, depth),
        other,
        b.dims(1, batches, rows, columns),
        b.result(),
    )


OPERATORS: Mapping[str, Lowering] = {"BATCH_MATMUL": Lowering(batch_matmul)}

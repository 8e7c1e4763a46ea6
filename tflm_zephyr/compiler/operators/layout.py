# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements: the RESHAPE family and PAD.

Sources: reshape_common.cc, squeeze.cc, expand_dims.cc, pad.cc (tensorflow/lite/micro/kernels).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from tflm_zephyr.compiler.copies import copy_input
from tflm_zephyr.compiler.ir.kernels import reference_kernel
from tflm_zephyr.compiler.ir.layers import KernelLayer
from tflm_zephyr.compiler.ir.operands import AddressOf, FirstOf
from tflm_zephyr.compiler.ir.rows import RowForm
from tflm_zephyr.compiler.ir.structs import ConstantAt, Elements, Scalar
from tflm_zephyr.compiler.layer_builder import LayerBuilder, integers
from tflm_zephyr.compiler.lowering import Lowering
from tflm_zephyr.compiler.operators.weights import reference_params
from tflm_zephyr.compiler.row_forms import NotByRowsError, padded
from tflm_zephyr.compiler.shapes import as_many, shown
from tflm_zephyr.kernels import Node, zero_point_of
from tflm_zephyr.model import TensorType


def view(b: LayerBuilder) -> None:
    """RESHAPE and its like: a copy where the plan could make no view of it."""
    node = b.node
    source, output = node.input(0), node.output()
    if source.type is not output.type or source.size_bytes != output.size_bytes:
        raise b.refuse("has an output of another size than its input")
    copy_input(b)


def pad(b: LayerBuilder) -> None:
    """PAD and PADV2 with a constant value, in all types of TFLM's kernel."""
    node = b.node
    source, output, paddings = node.input(0), node.output(), node.input(1)
    value = node.optional_input(2)
    if source.type is not output.type or source.type.value not in ("float32", "int8", "int16", "int32", "uint8"):
        raise b.refuse(f"has no direct code for {node.types}")
    if paddings.data is None or (value is not None and value.data is None):
        raise b.refuse("has paddings or a value that are computed")
    rank = len(source.shape)
    if paddings.type is not TensorType.INT32 or paddings.elements != 2 * rank or rank > 5:
        raise b.refuse("has paddings of another form")
    numbers = struct.unpack(f"<{2 * rank}i", paddings.data)
    before, after = numbers[::2], numbers[1::2]
    parameters = reference_params(
        b,
        "PadParams",
        left_padding_count=rank,
        left_padding=Elements(before),
        right_padding_count=rank,
        right_padding=Elements(after),
    )
    filler: FirstOf | AddressOf
    if value is not None:
        array = b.source(2, "value")
        assert isinstance(array, ConstantAt)
        filler = FirstOf(array)
    else:
        zero = zero_point_of(output) if source.type in (TensorType.INT8, TensorType.UINT8) else 0
        filler = AddressOf(b.parameter(Scalar("kValue", source.type, zero)))
    image = rank == 4 and before[0] == after[0] == before[3] == after[3] == 0
    image = image and source.type.value in ("float32", "int8")
    b.call(
        reference_kernel("pad.h", "PadImageStyle" if image else "Pad"),
        parameters,
        b.shape(source.shape),
        b.source(0, "input"),
        filler,
        b.shape(output.shape),
        b.result(),
    )


def pad_rows(b: LayerBuilder, layer: KernelLayer) -> RowForm:
    """PAD by rows, where no image is added."""
    before_and_after = integers(b, 1)
    if len(before_and_after) != 8 or before_and_after[0] or before_and_after[1]:
        raise NotByRowsError("has tensors that are no single image")
    return padded(b, layer, before_and_after[2])


def _padded(node: Node) -> str:
    source, pads, output = node.input(0), node.input(1), node.output()
    if pads.data is None or pads.type not in (TensorType.INT32, TensorType.INT64):
        return ""
    count = pads.elements
    sizes = struct.unpack(f"<{count}{'i' if pads.type is TensorType.INT32 else 'q'}", pads.data)
    if count != 2 * len(source.shape) or min(sizes, default=0) < 0:
        return f"has paddings that do not fit its input: {shown(source, pads)}"
    wanted = tuple(
        before + size + after for before, size, after in zip(sizes[::2], source.shape, sizes[1::2], strict=True)
    )
    return "" if wanted == output.shape else f"pads to {list(wanted)}, not to {shown(output)}"


OPERATORS: Mapping[str, Lowering] = {
    **dict.fromkeys(("PAD", "PADV2"), Lowering(pad, pad_rows, _padded, legacy=True)),
    **dict.fromkeys(("EXPAND_DIMS", "RESHAPE", "SQUEEZE"), Lowering(view, misfit=as_many, legacy=True)),
}

# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements: the RESHAPE family and PAD.

Sources: reshape_common.cc, squeeze.cc, expand_dims.cc, pad.cc (tensorflow/lite/micro/kernels).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from tflm_zephyr.compiler.layer_builder import LayerBuilder
from tflm_zephyr.compiler.program import Layer
from tflm_zephyr.compiler.row_forms import NotByRowsError, RowRule, padded
from tflm_zephyr.compiler.row_program import RowForm
from tflm_zephyr.kernels import zero_point_of
from tflm_zephyr.model import TensorType


def view(b: LayerBuilder) -> None:
    """RESHAPE and its like: a copy where the plan could make no view of it."""
    node = b.node
    source, output = node.input(0), node.output()
    if source.type is not output.type or source.size_bytes != output.size_bytes:
        raise b.refuse("has an output of another size than its input")
    b.copy()


def pad(b: LayerBuilder) -> None:
    """PAD and PADV2 with a constant value, in all types of TFLM's kernel."""
    node = b.node
    source, output, paddings = node.input(0), node.output(), node.input(1)
    value = node.optional_input(2)
    if source.type is not output.type or source.type.value not in ("float32", "int8", "int16", "int32"):
        raise b.refuse(f"has no direct code for {node.types}")
    if paddings.data is None or (value is not None and value.data is None):
        raise b.refuse("has paddings or a value that are computed")
    rank = len(source.shape)
    if paddings.type is not TensorType.INT32 or paddings.elements != 2 * rank or rank > 5:
        raise b.refuse("has paddings of another form")
    numbers = struct.unpack(f"<{2 * rank}i", paddings.data)
    before, after = numbers[::2], numbers[1::2]
    parameters = b.assigned(
        "kParams",
        "tflite::PadParams",
        left_padding_count=rank,
        **{f"left_padding[{i}]": size for i, size in enumerate(before)},
        right_padding_count=rank,
        **{f"right_padding[{i}]": size for i, size in enumerate(after)},
    )
    if value is not None:
        filler = "&" + b.constant("value", value) + "[0]"
    else:
        zero = zero_point_of(output) if source.type is TensorType.INT8 else 0
        b.scalar("kValue", source.type.c_type, str(zero))
        filler = "&kValue"
    image = rank == 4 and before[0] == after[0] == before[3] == after[3] == 0
    image = image and source.type.value in ("float32", "int8")
    b.reference(
        "reference/pad.h",
        f"tflite::reference_ops::{'PadImageStyle' if image else 'Pad'}",
        parameters,
        b.shape(source.shape),
        b.source(0, "input"),
        filler,
        b.shape(output.shape),
        b.result(),
    )


def pad_rows(b: LayerBuilder, layer: Layer) -> RowForm:
    """PAD by rows, where no image is added."""
    before_and_after = b.integers(1)
    if len(before_and_after) != 8 or before_and_after[0] or before_and_after[1]:
        raise NotByRowsError("has tensors that are no single image")
    return padded(b, layer, before_and_after[2])


ROWS: Mapping[str, RowRule] = {"PAD": pad_rows, "PADV2": pad_rows}
EMITTERS: Mapping[str, Callable[[LayerBuilder], None]] = {
    "PAD": pad,
    "PADV2": pad,
    **dict.fromkeys(("EXPAND_DIMS", "RESHAPE", "SQUEEZE"), view),
}

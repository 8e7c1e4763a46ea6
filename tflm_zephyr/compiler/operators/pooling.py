# SPDX-License-Identifier: Apache-2.0
"""AVERAGE_POOL_2D and MAX_POOL_2D.

Sources: pooling_common.cc and cmsis_nn/pooling.cc (tensorflow/lite/micro/kernels).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tflm_zephyr.compiler.fixed_point import float_range
from tflm_zephyr.compiler.layer_builder import LayerBuilder
from tflm_zephyr.compiler.operators.texts import float_text, limits, tile
from tflm_zephyr.compiler.operators.weights import arm_context
from tflm_zephyr.compiler.program import Layer
from tflm_zephyr.compiler.row_forms import (
    RowRule,
    arm_windowed,
    gathered,
    lies_flat,
    reference_windowed,
)
from tflm_zephyr.compiler.row_program import RowForm
from tflm_zephyr.kernels import Node
from tflm_zephyr.model import TensorType
from tflm_zephyr.row_planner import Window

_QUANTISED = {TensorType.INT8: "s8", TensorType.INT16: "s16"}


def _pool(b: LayerBuilder, arm_function: str, reference: str) -> None:
    node = b.node
    source, output = node.input(0), node.output()
    if source.type is not output.type or len(source.shape) != 4 or len(output.shape) != 4:
        raise b.refuse(f"has no direct code for {node.types}")
    if source.type is TensorType.FLOAT32:
        low, high = (float_text(end) for end in float_range(node.option("fused_activation_function")))
        _reference(
            b, "pooling.h", f"tflite::reference_ops::{reference}", float_activation_min=low, float_activation_max=high
        )
    elif source.type not in _QUANTISED:
        raise b.refuse(f"has no direct code for {node.types}")
    elif b.cmsis_nn and source.shape[0] == 1:
        _arm(b, f"{arm_function}_{_QUANTISED[source.type]}")
    else:
        least, most = b.clamp()
        _reference(
            b,
            "integer_ops/pooling.h",
            f"tflite::reference_integer_ops::{reference}",
            quantized_activation_min=least,
            quantized_activation_max=most,
        )


def _window(node: Node) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    """Stride, padding and window, each of height and width."""
    window = node.option("filter_height"), node.option("filter_width")
    stride = node.option("stride_h"), node.option("stride_w")
    height, width = (
        node.padding(size, taps, step, 1)
        for size, taps, step in zip(node.input(0).shape[1:3], window, stride, strict=True)
    )
    return stride, (height, width), window


def _arm(b: LayerBuilder, function: str) -> None:
    node = b.node
    stride, padding, window = _window(node)
    low, high = b.clamp()
    parameters = b.value(
        "kParams",
        "cmsis_nn_pool_params",
        stride=tile(stride),
        padding=tile(padding),
        activation=limits((low, high)),
    )
    given = b.source(0, "input")
    b.cmsis(
        function,
        arm_context(b, b.kernel_scratch()),
        f"&{parameters}",
        b.dims(*node.input(0).shape),
        given,
        b.dims(1, *window, 1),
        b.dims(*node.output().shape),
        b.result(),
    )


def _reference(b: LayerBuilder, header: str, function: str, **clamp: object) -> None:
    node = b.node
    stride, padding, window = _window(node)
    parameters = b.assigned(
        "kParams",
        "tflite::PoolParams",
        padding_values__width=padding[1],
        padding_values__height=padding[0],
        stride_height=stride[0],
        stride_width=stride[1],
        filter_height=window[0],
        filter_width=window[1],
        **clamp,
    )
    b.reference(
        f"reference/{header}",
        function,
        parameters,
        b.shape(node.input(0).shape),
        b.source(0, "input"),
        b.shape(node.output().shape),
        b.result(),
    )


def average_pool_2d(b: LayerBuilder) -> None:
    """AVERAGE_POOL_2D in int8, int16 and float."""
    _pool(b, "arm_avgpool", "AveragePool")


def max_pool_2d(b: LayerBuilder) -> None:
    """MAX_POOL_2D in int8, int16 and float."""
    _pool(b, "arm_max_pool", "MaxPool")


def pool_rows(b: LayerBuilder, layer: Layer) -> RowForm:
    """Both pools by rows; an average over the whole image takes in one row after the other."""
    node = b.node
    source = node.input(0)
    is_float = source.type is TensorType.FLOAT32
    stride, padding, window = _window(node)
    if node.operator.key == "AVERAGE_POOL_2D" and window == source.shape[1:3] and padding == (0, 0):
        pixels, channels = source.shape[1] * source.shape[2], source.shape[3]
        if is_float:
            low, high = map(float_text, float_range(node.option("fused_activation_function")))
            return gathered(b, f"Average(sums, {channels}, {pixels}.0f, {low}, {high}, output);")
        least, most = b.clamp()
        return gathered(b, f"Average(sums, {channels}, {pixels}, {least}, {most}, output);")
    axis = int(lies_flat(b))
    rows = Window(source.index, window[axis], stride[axis], padding[axis])
    if b.cmsis_nn and not is_float:
        return arm_windowed(b, layer, rows, "cmsis_nn_pool_params", places=(1, 2, 4, -2))
    return reference_windowed(b, layer, rows, places=(0, 1, None, -2))


ROWS: Mapping[str, RowRule] = {
    "AVERAGE_POOL_2D": pool_rows,
    "MAX_POOL_2D": pool_rows,
}
EMITTERS: Mapping[str, Callable[[LayerBuilder], None]] = {
    "AVERAGE_POOL_2D": average_pool_2d,
    "MAX_POOL_2D": max_pool_2d,
}

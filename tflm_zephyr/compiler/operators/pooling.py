# SPDX-License-Identifier: Apache-2.0
"""AVERAGE_POOL_2D and MAX_POOL_2D.

Sources: pooling_common.cc and cmsis_nn/pooling.cc (tensorflow/lite/micro/kernels).
"""

from __future__ import annotations

from collections.abc import Mapping

from tflm_zephyr.compiler.fixed_point import finite, float_range
from tflm_zephyr.compiler.ir.calls import KernelCall
from tflm_zephyr.compiler.ir.kernels import Kernel, cmsis_kernel, helper_kernel, reference_kernel
from tflm_zephyr.compiler.ir.layers import KernelLayer
from tflm_zephyr.compiler.ir.row_operands import Sums
from tflm_zephyr.compiler.ir.rows import RowForm
from tflm_zephyr.compiler.ir.structs import FieldValue, limits, members, tile
from tflm_zephyr.compiler.layer_builder import LayerBuilder, kernel_scratch
from tflm_zephyr.compiler.lowering import Lowering
from tflm_zephyr.compiler.operators.weights import arm_context, arm_struct, clamp_of, reference_params, unary_operands
from tflm_zephyr.compiler.row_forms import (
    arm_windowed,
    gathered,
    lies_flat,
    output_of,
    reference_windowed,
)
from tflm_zephyr.compiler.shapes import shown
from tflm_zephyr.kernels import Node
from tflm_zephyr.model import TensorType
from tflm_zephyr.row_planner import Window

AVERAGE = helper_kernel("Average")
_QUANTISED = {TensorType.INT8: "s8", TensorType.INT16: "s16"}


def _pool(b: LayerBuilder, arm_function: str, reference: str) -> None:
    node = b.node
    source, output = node.input(0), node.output()
    if source.type is not output.type or len(source.shape) != 4 or len(output.shape) != 4:
        raise b.refuse(f"has no direct code for {node.types}")
    if source.type is TensorType.FLOAT32:
        low, high = map(finite, float_range(node.option("fused_activation_function")))
        kernel = reference_kernel("pooling.h", reference)
        _reference(b, kernel, float_activation_min=low, float_activation_max=high)
    elif source.type is TensorType.UINT8:
        least, most = clamp_of(node)
        kernel = reference_kernel("pooling.h", reference)
        _reference(b, kernel, quantized_activation_min=least, quantized_activation_max=most)
    elif source.type not in _QUANTISED:
        raise b.refuse(f"has no direct code for {node.types}")
    elif b.cmsis_nn and source.shape[0] == 1:
        _arm(b, f"{arm_function}_{_QUANTISED[source.type]}")
    else:
        least, most = clamp_of(node)
        kernel = reference_kernel("integer_ops/pooling.h", reference, integer=True)
        _reference(b, kernel, quantized_activation_min=least, quantized_activation_max=most)


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
    activation = limits(clamp_of(node))
    parameters = arm_struct(
        b, "kParams", "cmsis_nn_pool_params", stride=tile(stride), padding=tile(padding), activation=activation
    )
    given = b.source(0, "input")
    b.call(
        cmsis_kernel(function),
        arm_context(b, kernel_scratch(b)),
        parameters,
        b.dims(*node.input(0).shape),
        given,
        b.dims(1, *window, 1),
        b.dims(*node.output().shape),
        b.result(),
    )


def _reference(b: LayerBuilder, kernel: Kernel, **clamp: FieldValue) -> None:
    stride, padding, window = _window(b.node)
    parameters = reference_params(
        b,
        "PoolParams",
        padding_values=members(width=padding[1], height=padding[0]),
        stride_height=stride[0],
        stride_width=stride[1],
        filter_height=window[0],
        filter_width=window[1],
        **clamp,
    )
    b.call(kernel, parameters, *unary_operands(b))


def average_pool_2d(b: LayerBuilder) -> None:
    """AVERAGE_POOL_2D in int8, int16 and float."""
    _pool(b, "arm_avgpool", "AveragePool")


def max_pool_2d(b: LayerBuilder) -> None:
    """MAX_POOL_2D in int8, int16 and float."""
    _pool(b, "arm_max_pool", "MaxPool")


def pool_rows(b: LayerBuilder, layer: KernelLayer) -> RowForm:
    """Both pools by rows; an average over the whole image takes in one row after the other."""
    node = b.node
    source = node.input(0)
    is_float, legacy = source.type is TensorType.FLOAT32, source.type is TensorType.UINT8
    stride, padding, window = _window(node)
    whole = window == source.shape[1:3] and padding == (0, 0)
    if node.operator.key == "AVERAGE_POOL_2D" and whole and not legacy:  # uint8 rounds halves up
        pixels, channels = source.shape[1] * source.shape[2], source.shape[3]
        if is_float:
            operands = float(pixels), *map(finite, float_range(node.option("fused_activation_function")))
        else:
            operands = pixels, *clamp_of(node)
        return gathered(b, KernelCall(AVERAGE, (Sums(), channels, *operands, output_of(b))))
    axis = int(lies_flat(b))
    rows = Window(source.index, window[axis], stride[axis], padding[axis])
    if b.cmsis_nn and not is_float and not legacy:
        return arm_windowed(b, layer, rows, places=(1, 2, 4, -2))
    return reference_windowed(b, layer, rows, places=(0, 1, None, -2))


def _pooled(node: Node) -> str:
    source, output = node.input(0), node.output()
    same = len(source.shape) == len(output.shape) == 4 and source.shape[::3] == output.shape[::3]
    return "" if same else f"has batches or channels that do not fit each other: {shown(source, output)}"


OPERATORS: Mapping[str, Lowering] = {
    "AVERAGE_POOL_2D": Lowering(average_pool_2d, pool_rows, _pooled, legacy=True),
    "MAX_POOL_2D": Lowering(max_pool_2d, pool_rows, _pooled, legacy=True),
}

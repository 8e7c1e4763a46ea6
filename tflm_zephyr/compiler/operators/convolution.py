# SPDX-License-Identifier: Apache-2.0
"""CONV_2D, DEPTHWISE_CONV_2D and TRANSPOSE_CONV.

Sources: conv_common.cc, depthwise_conv_common.cc, transpose_conv.cc and cmsis_nn/conv.cc, depthwise_conv.cc
(tensorflow/lite/micro/kernels); the choices of arm_convolve_wrapper_s8 and arm_depthwise_conv_wrapper_s8 in CMSIS-NN
e9328d61.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from tflm_zephyr.compiler.fast_layers import own_convolution
from tflm_zephyr.compiler.fixed_point import LIMITS, finite, float_range
from tflm_zephyr.compiler.ir.calls import PixelRuns
from tflm_zephyr.compiler.ir.kernels import Kernel, cmsis_kernel, reference_kernel
from tflm_zephyr.compiler.ir.layers import KernelLayer
from tflm_zephyr.compiler.ir.operands import AddressOf, Dims, Null, Operand, RunDims, Shape
from tflm_zephyr.compiler.ir.rows import RowForm
from tflm_zephyr.compiler.ir.structs import ConstantAt, FieldValue, TensorAt, limits, members, tile
from tflm_zephyr.compiler.layer_builder import LayerBuilder, int32s, kernel_scratch
from tflm_zephyr.compiler.lowering import Lowering
from tflm_zephyr.compiler.operators.weights import (
    arm_channel_quantisation,
    arm_context,
    arm_struct,
    channel_multipliers,
    check_bias,
    check_symmetric,
    clamp_of,
    dense_params,
    is_legacy,
    reference_params,
    weighted_operands,
    window_of,
)
from tflm_zephyr.compiler.row_forms import (
    NotByRowsError,
    arm_windowed,
    lies_flat,
    one_call,
    reference_windowed,
)
from tflm_zephyr.compiler.shapes import biased, shown
from tflm_zephyr.kernels import Node, zero_point_of
from tflm_zephyr.model import TensorType
from tflm_zephyr.row_planner import Window

_INT8 = "i0 int8 i1 int8 o0 int8"
_INT16 = "i0 int16 i1 int8 o0 int16"
_FLOAT = "i0 float32 i1 float32 o0 float32"
_TRANSPOSED = (("float32", "float32", "float32"), ("int8", "int8", "int8"), ("int16", "int8", "int16"))
_CONV = reference_kernel("integer_ops/conv.h", "ConvPerChannel", integer=True)
_DEPTHWISE_CONV = reference_kernel("integer_ops/depthwise_conv.h", "DepthwiseConvPerChannel", integer=True)
_WRAPPER = "arm_depthwise_conv_wrapper_s8"


def _check(b: LayerBuilder, channel_dimension: int) -> int:
    """The number of output channels; NotDirectError for what is left to TFLM's kernel."""
    node = b.node
    source, weights, output = node.input(0), node.input(1), node.output()
    if not len(source.shape) == len(weights.shape) == len(output.shape) == 4:
        raise b.refuse("has tensors that are not of four dimensions")
    if not weights.is_constant:
        raise b.refuse("has weights that are computed")
    channels = weights.shape[channel_dimension]
    if channels != output.shape[3]:
        raise b.refuse("has other channels than its weights")
    return channels


def conv_2d(b: LayerBuilder) -> None:
    """CONV_2D in int8, int16 and float."""
    channels = _check(b, 0)
    if b.node.fits(_INT16):
        check_symmetric(b)
        if b.cmsis_nn:
            _arm_convolve_s16(b, channels)
        else:
            _reference(b, channels, _CONV, depthwise=False)
    elif b.node.fits(_INT8):
        if b.cmsis_nn:
            _arm_convolve(b, channels)
        else:
            _reference(b, channels, _CONV, depthwise=False)
    elif b.node.fits(_FLOAT):
        _float(b, reference_kernel("conv.h", "Conv"), Shape(()), Null(), depthwise=False)
    elif is_legacy(b):
        parameters = dense_params(b, "ConvParams", **_window_fields(b.node, depthwise=False))
        kernel = reference_kernel("conv.h", "Conv")
        b.call(kernel, parameters, *weighted_operands(b), Shape(()), Null(), Null())
    else:
        raise b.refuse(f"has no direct code for {b.node.types}")


def depthwise_conv_2d(b: LayerBuilder) -> None:
    """DEPTHWISE_CONV_2D in int8, int16 and float."""
    channels = _check(b, 3)
    if channels != b.node.input(0).shape[3] * b.node.option("depth_multiplier"):
        raise b.refuse("has another depth multiplier than its weights")
    if b.node.fits(_INT16):
        check_symmetric(b)
        check_bias(b, TensorType.INT64)
        if b.cmsis_nn:
            _arm_depthwise(b, channels, "arm_depthwise_conv_s16")
        else:
            _reference(b, channels, _DEPTHWISE_CONV, depthwise=True)
    elif b.node.fits(_INT8):
        if b.cmsis_nn:
            _arm_depthwise(b, channels, _arm_depthwise_function(b))
        else:
            _reference(b, channels, _DEPTHWISE_CONV, depthwise=True)
    elif b.node.fits(_FLOAT):
        _float(b, reference_kernel("depthwiseconv_float.h", "DepthwiseConv"), depthwise=True)
    elif is_legacy(b):
        parameters = dense_params(b, "DepthwiseParams", **_window_fields(b.node, depthwise=True))
        b.call(reference_kernel("depthwiseconv_uint8.h", "DepthwiseConv"), parameters, *weighted_operands(b))
    else:
        raise b.refuse(f"has no direct code for {b.node.types}")


def _arm_parameters(b: LayerBuilder, type_name: str, **more: int) -> AddressOf:
    """The parameters' struct."""
    node = b.node
    stride, padding, dilation = window_of(node)
    return arm_struct(
        b,
        "kParams",
        type_name,
        input_offset=-zero_point_of(node.input(0)),
        output_offset=zero_point_of(node.output()),
        **more,
        stride=tile(stride),
        padding=tile(padding),
        dilation=tile(dilation),
        activation=limits(clamp_of(node)),
    )


def _arm_convolve(b: LayerBuilder, channels: int) -> None:
    node = b.node
    source, weights, output = node.input(0), node.input(1), node.output()
    function = arm_convolve_function(b)
    quantisation = arm_channel_quantisation(b, channel_multipliers(node, channels))
    parameters = _arm_parameters(b, "cmsis_nn_conv_params")
    given = b.source(0, "input")
    scratch = kernel_scratch(b)
    pixels = source.shape[0] * source.shape[1] * source.shape[2]
    runs = None
    rows: Dims | RunDims = b.dims(*source.shape)
    if function == "arm_convolve_1x1_s8_fast" and not any(mve for _, mve in b.cores):
        rows, runs = RunDims(), PixelRuns((pixels,), "input", source.shape[3], "output", channels, source.shape[3])
    b.call(
        cmsis_kernel(function),
        arm_context(b, scratch),
        parameters,
        quantisation,
        rows,
        given,
        b.dims(1, *weights.shape[1:]),
        b.source(1, "weights"),
        b.dims(1, 1, 1, channels),
        b.optional_source(2, "bias"),
        *((Null(),) if function == "arm_convolve_s8" else ()),
        b.dims(*output.shape),
        b.result(),
        runs=runs,
    )


def _arm_convolve_s16(b: LayerBuilder, channels: int) -> None:
    """arm_convolve_s16, with an int64 or int32 bias behind a struct."""
    node = b.node
    source, weights, output, bias = node.input(0), node.input(1), node.output(), node.optional_input(2)
    if source.shape[3] != weights.shape[3] or (bias is not None and not bias.is_constant):
        raise b.refuse("has groups of channels, or a bias that is computed")
    check_bias(b, TensorType.INT32, TensorType.INT64)
    quantisation = arm_channel_quantisation(b, channel_multipliers(node, channels))
    parameters = _arm_parameters(b, "cmsis_nn_conv_params")
    short = bias is not None and bias.type is TensorType.INT32
    array = b.optional_source(2, "bias")
    data = array if isinstance(array, ConstantAt) else None
    biases = arm_struct(b, "kBias", "cmsis_nn_bias_data", data=data, is_int32_bias=short)
    given = b.source(0, "input")
    b.call(
        cmsis_kernel("arm_convolve_s16"),
        arm_context(b, kernel_scratch(b)),
        parameters,
        quantisation,
        b.dims(*source.shape),
        given,
        b.dims(1, *weights.shape[1:]),
        b.source(1, "weights"),
        b.dims(1, 1, 1, channels),
        biases,
        b.dims(*output.shape),
        b.result(),
    )


def arm_convolve_function(b: LayerBuilder) -> str:
    """The function that arm_convolve_wrapper_s8 calls; the wrapper itself where cores differ."""
    node = b.node
    stride, padding, dilation = window_of(node)
    height, _, depth = node.input(0).shape[1:]
    window, weights_depth = node.input(1).shape[1:3], node.input(1).shape[3]
    if padding == (0, 0) and window == (1, 1) and dilation == (1, 1) and depth == weights_depth:
        return "arm_convolve_1x1_s8_fast" if stride == (1, 1) else "arm_convolve_1x1_s8"
    flat = height == window[0] == dilation[1] == 1 and stride[1] * depth % 4 == 0 and depth == weights_depth
    helium = {mve for _, mve in b.cores}
    if flat and True in helium:  # elsewhere arm_convolve_1_x_n_s8 calls arm_convolve_s8
        return "arm_convolve_1_x_n_s8"
    return "arm_convolve_s8"


def _arm_depthwise(b: LayerBuilder, channels: int, function: str) -> None:
    node = b.node
    source, weights, output = node.input(0), node.input(1), node.output()
    quantisation = arm_channel_quantisation(b, channel_multipliers(node, channels))
    parameters = _arm_parameters(b, "cmsis_nn_dw_conv_params", ch_mult=node.option("depth_multiplier"))
    given = b.source(0, "input")
    b.call(
        cmsis_kernel(function),
        arm_context(b, kernel_scratch(b)),
        parameters,
        quantisation,
        b.dims(*source.shape),
        given,
        b.dims(*weights.shape),
        b.source(1, "weights"),
        b.dims(1, 1, 1, channels),
        b.optional_source(2, "bias"),
        b.dims(*output.shape),
        b.result(),
    )


def _arm_depthwise_function(b: LayerBuilder) -> str:
    """The function that arm_depthwise_conv_wrapper_s8 calls; the wrapper itself where cores differ."""
    node = b.node
    _, padding, dilation = window_of(node)
    found = set()
    for _, mve in b.cores:
        if mve and node.input(0).shape[3] == 1 and node.output().shape[3] > 1:
            found.add(_WRAPPER)
        elif node.option("depth_multiplier") == 1 and node.input(0).shape[0] == 1 and dilation == (1, 1):
            small = node.input(1).shape[1:3] == (3, 3) and max(padding) <= 1
            found.add("arm_depthwise_conv_3x3_s8" if small and not mve else "arm_depthwise_conv_s8_opt")
        else:
            found.add("arm_depthwise_conv_s8")
    return found.pop() if len(found) == 1 else _WRAPPER


def _reference(b: LayerBuilder, channels: int, kernel: Kernel, *, depthwise: bool) -> None:
    """TFLM's loops with a multiplier for each channel."""
    node = b.node
    low, high = clamp_of(node)
    parameters = reference_params(
        b,
        "DepthwiseParams" if depthwise else "ConvParams",
        **_window_fields(node, depthwise=depthwise),
        input_offset=-zero_point_of(node.input(0)),
        output_offset=zero_point_of(node.output()),
        quantized_activation_min=low,
        quantized_activation_max=high,
    )
    multipliers = channel_multipliers(node, channels)
    wide = node.input(0).type is TensorType.INT16
    check_bias(b, *((TensorType.INT32, TensorType.INT64) if wide else (TensorType.INT32,)))
    # A bare nullptr would be deduced as no pointer type.
    absent = Null(TensorType.INT64 if wide and depthwise else TensorType.INT32)
    b.call(
        kernel,
        parameters,
        int32s(b, "multipliers", (one.value for one in multipliers)),
        int32s(b, "shifts", (one.shift for one in multipliers)),
        b.shape(node.input(0).shape),
        b.source(0, "input"),
        b.shape(node.input(1).shape),
        b.source(1, "weights"),
        b.shape((channels,)),
        b.optional_source(2, "bias", absent=absent),
        b.shape(node.output().shape),
        b.result(),
    )


def _window_fields(node: Node, *, depthwise: bool) -> dict[str, FieldValue]:
    """The fields of TFLM's parameters that are about the window."""
    stride, padding, dilation = window_of(node)
    return {
        "padding_values": members(width=padding[1], height=padding[0]),
        "stride_width": stride[1],
        "stride_height": stride[0],
        "dilation_width_factor": dilation[1],
        "dilation_height_factor": dilation[0],
        **({"depth_multiplier": node.option("depth_multiplier")} if depthwise else {}),
    }


def _float(b: LayerBuilder, kernel: Kernel, *tail: Operand, depthwise: bool) -> None:
    """TFLM's loops in float; `tail` are operands behind the output."""
    node = b.node
    low, high = float_range(node.option("fused_activation_function"))
    parameters = reference_params(
        b,
        "DepthwiseParams" if depthwise else "ConvParams",
        **_window_fields(node, depthwise=depthwise),
        float_activation_min=finite(low),
        float_activation_max=finite(high),
    )
    b.call(kernel, parameters, *weighted_operands(b), *tail)


def transpose_conv(b: LayerBuilder) -> None:
    """TRANSPOSE_CONV in int8, int16 and float: TFLM's loops, in integers with a sum for each output in scratch.

    CMSIS-NN's function needs two scratch buffers, and Zephyr's module does not build TFLM's kernel around it.
    """
    node = b.node
    weights, source, output = node.input(1), node.input(2), node.output()
    kinds = source.type.value, weights.type.value, output.type.value
    if not len(source.shape) == len(weights.shape) == len(output.shape) == 4 or not weights.is_constant:
        raise b.refuse("has weights that are computed, or tensors that are not of four dimensions")
    if kinds not in _TRANSPOSED or node.option("fused_activation_function"):
        raise b.refuse(f"has no direct code for {node.types}, or for its activation")
    stride = node.option("stride_h"), node.option("stride_w")
    height, width = (node.padding(*axis, 1) for axis in zip(output.shape[1:3], weights.shape[1:3], stride, strict=True))
    low, high = float_range(0)
    header = "transpose_conv.h"
    arrays: tuple[Operand, ...] = ()
    scratch: tuple[Operand, ...] = ()
    fields: dict[str, FieldValue] = {
        "padding_values": members(width=width, height=height),
        "stride_width": stride[1],
        "stride_height": stride[0],
    }
    if source.type is TensorType.FLOAT32:
        fields |= {"float_activation_min": finite(low), "float_activation_max": finite(high)}
    else:
        header, arrays, scratch = "integer_ops/transpose_conv.h", _transposed_scaling(b, fields), _totals(b)
    tensors = (
        b.shape(source.shape), b.source(2, "input"), b.shape(weights.shape), b.source(1, "weights"),
        b.shape((weights.shape[0],)), _transposed_bias(b), b.shape(output.shape), b.result(),
    )  # fmt: skip
    parameters = reference_params(b, "ConvParams", **fields)
    kernel = reference_kernel(header, "TransposeConv", integer=bool(scratch))
    b.call(kernel, parameters, *arrays, *tensors, Shape(()), Null(), *scratch)


def _transposed_scaling(b: LayerBuilder, fields: dict[str, FieldValue]) -> tuple[Operand, ...]:
    """Multipliers and shifts, with their parameters added to `fields`."""
    node = b.node
    weights, source, output = node.input(1), node.input(2), node.output()
    if source.type is TensorType.INT16 and (zero_point_of(source) or zero_point_of(output)):
        raise b.refuse("has int16 tensors with a zero point")
    low, high = LIMITS[output.type]
    fields |= {
        "input_offset": -zero_point_of(source),
        "output_offset": zero_point_of(output),
        "quantized_activation_min": low,
        "quantized_activation_max": high,
    }
    found = channel_multipliers(node, weights.shape[0], place=2)
    return int32s(b, "multipliers", (one.value for one in found)), int32s(b, "shifts", (one.shift for one in found))


def _totals(b: LayerBuilder) -> tuple[Operand, ...]:
    """The scratch buffer: a sum for each output."""
    wide = b.node.input(2).type is TensorType.INT16
    kind = TensorType.INT64 if wide else TensorType.INT32
    return (b.scratch(b.node.output().elements * kind.size_bytes, kind),)


def _transposed_bias(b: LayerBuilder) -> TensorAt | ConstantAt | Null:
    """The bias as the function takes it: int16 biases widened to int64."""
    kind, bias = b.node.input(2).type, b.node.optional_input(3)
    wanted = {TensorType.INT8: TensorType.INT32, TensorType.INT16: TensorType.INT64}.get(kind, TensorType.FLOAT32)
    if bias is None:
        return Null(wanted)
    if bias.type is wanted:
        return b.source(3, "bias")
    if kind is not TensorType.INT16 or bias.type is not TensorType.INT16 or bias.data is None:
        raise b.refuse(f"has a bias of {bias.type.value}")
    values = struct.unpack(f"<{bias.elements}h", bias.data)
    return b.array("bias", wanted, struct.pack(f"<{bias.elements}q", *values), bias.label)


def window_rows(b: LayerBuilder, layer: KernelLayer) -> RowForm:
    """CONV_2D and DEPTHWISE_CONV_2D by rows.

    arm_depthwise_conv_wrapper_s8 takes another function, with other scratch, for rows whose kernel is one row high.
    """
    node, call = b.node, one_call(layer)
    axis = int(lies_flat(b))
    if axis and 1 not in node.input(1).shape[1:3]:
        raise NotByRowsError("has weights higher than its input, which is one row high")
    stride, padding, dilation = (pair[axis] for pair in window_of(node))
    height = node.input(1).shape[1 + axis]
    window = Window(node.input(0).index, (height - 1) * dilation + 1, stride, padding)
    if b.node.fits(_FLOAT) or b.node.fits("i0 uint8"):
        return reference_windowed(b, layer, window, places=(0, 1, 3, 7))
    if not b.cmsis_nn:
        return reference_windowed(b, layer, window, places=(0, 3, 5, -2))
    name = call.kernel.name
    if name not in _ARM_BY_ROWS or (name == _WRAPPER and height == 1):
        raise NotByRowsError(f"is computed by {name}(), which takes no rows")
    return arm_windowed(b, layer, window, places=(1, 3, 5, -2))


_ARM_BY_ROWS = (
    "arm_convolve_1x1_s8",
    "arm_convolve_1x1_s8_fast",
    "arm_convolve_s16",
    "arm_convolve_s8",
    "arm_depthwise_conv_3x3_s8",
    "arm_depthwise_conv_s16",
    "arm_depthwise_conv_s8",
    "arm_depthwise_conv_s8_opt",
    _WRAPPER,
)


def _windows(channels_at: int) -> Callable[[Node], str]:
    """Batches of input and output, and a bias for each channel; `channels_at`: the weights' dimension of channels."""

    def rule(node: Node) -> str:
        source, weights, output = node.input(0), node.input(1), node.output()
        if not len(source.shape) == len(weights.shape) == len(output.shape) == 4:
            return ""  # refused elsewhere
        if source.shape[0] != output.shape[0]:
            return f"has different numbers of batches: {shown(source, output)}"
        return biased(node, 2, weights.shape[channels_at])

    return rule


def _transposed(node: Node) -> str:
    weights, source, output = node.input(1), node.input(2), node.output()
    if not len(source.shape) == len(weights.shape) == len(output.shape) == 4:
        return ""
    if source.shape[0] != output.shape[0] or source.shape[3] != weights.shape[3]:
        return f"has batches or channels that do not fit each other: {shown(source, weights, output)}"
    return biased(node, 3, weights.shape[0])


OPERATORS: Mapping[str, Lowering] = {
    "CONV_2D": Lowering(conv_2d, window_rows, _windows(0), own=(own_convolution,), legacy=True),
    "DEPTHWISE_CONV_2D": Lowering(depthwise_conv_2d, window_rows, _windows(3), own=(own_convolution,), legacy=True),
    "TRANSPOSE_CONV": Lowering(transpose_conv, misfit=_transposed),
}

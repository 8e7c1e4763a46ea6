# SPDX-License-Identifier: Apache-2.0
"""CONV_2D, DEPTHWISE_CONV_2D and TRANSPOSE_CONV.

Sources: conv_common.cc, depthwise_conv_common.cc, transpose_conv.cc and cmsis_nn/conv.cc, depthwise_conv.cc
(tensorflow/lite/micro/kernels); the choices of arm_convolve_wrapper_s8 and arm_depthwise_conv_wrapper_s8 in CMSIS-NN
e9328d61.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from tflm_zephyr.compiler.fixed_point import LIMITS, float_range
from tflm_zephyr.compiler.layer_builder import LayerBuilder
from tflm_zephyr.compiler.operators.texts import float_text, limits, tile
from tflm_zephyr.compiler.operators.weights import (
    arm_channel_quantisation,
    arm_context,
    channel_multipliers,
    check_bias,
    check_symmetric,
)
from tflm_zephyr.compiler.program import Layer, PixelRuns
from tflm_zephyr.compiler.row_forms import (
    NotByRowsError,
    RowRule,
    arm_windowed,
    lies_flat,
    one_call,
    reference_windowed,
)
from tflm_zephyr.compiler.row_program import RowForm
from tflm_zephyr.kernels import Node, zero_point_of
from tflm_zephyr.model import TensorType
from tflm_zephyr.row_planner import Window

_INT8 = "i0 int8 i1 int8 o0 int8"
_INT16 = "i0 int16 i1 int8 o0 int16"
_FLOAT = "i0 float32 i1 float32 o0 float32"
_TRANSPOSED = (("float32", "float32", "float32"), ("int8", "int8", "int8"), ("int16", "int8", "int16"))
_INTEGER_OPS = "tflite::reference_integer_ops"


def window_of(node: Node) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    """Stride, padding and dilation, each of height and width."""
    stride = node.option("stride_h"), node.option("stride_w")
    dilation = node.option("dilation_h_factor"), node.option("dilation_w_factor")
    sizes = zip(node.input(0).shape[1:3], node.input(1).shape[1:3], stride, dilation, strict=True)
    height, width = (node.padding(*axis) for axis in sizes)
    return stride, (height, width), dilation


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
    if b.fits(_INT16):
        check_symmetric(b)
        if b.cmsis_nn:
            _arm_convolve_s16(b, channels)
        else:
            _reference(b, channels, f"{_INTEGER_OPS}::ConvPerChannel", "conv.h")
    elif b.fits(_INT8):
        if b.cmsis_nn:
            _arm_convolve(b, channels)
        else:
            _reference(b, channels, f"{_INTEGER_OPS}::ConvPerChannel", "conv.h")
    elif b.fits(_FLOAT):
        _float(
            b, "conv.h", "tflite::reference_ops::Conv", "tflite::ConvParams", tail=("tflite::RuntimeShape()", "nullptr")
        )
    else:
        raise b.refuse(f"has no direct code for {b.node.types}")


def depthwise_conv_2d(b: LayerBuilder) -> None:
    """DEPTHWISE_CONV_2D in int8, int16 and float."""
    channels = _check(b, 3)
    if channels != b.node.input(0).shape[3] * b.node.option("depth_multiplier"):
        raise b.refuse("has another depth multiplier than its weights")
    if b.fits(_INT16):
        check_symmetric(b)
        check_bias(b, TensorType.INT64)
        if b.cmsis_nn:
            _arm_depthwise(b, channels, "arm_depthwise_conv_s16")
        else:
            _reference(b, channels, f"{_INTEGER_OPS}::DepthwiseConvPerChannel", "depthwise_conv.h")
    elif b.fits(_INT8):
        if b.cmsis_nn:
            _arm_depthwise(b, channels, _arm_depthwise_function(b))
        else:
            _reference(b, channels, f"{_INTEGER_OPS}::DepthwiseConvPerChannel", "depthwise_conv.h")
    elif b.fits(_FLOAT):
        _float(b, "depthwiseconv_float.h", "tflite::reference_ops::DepthwiseConv", "tflite::DepthwiseParams")
    else:
        raise b.refuse(f"has no direct code for {b.node.types}")


def _arm_parameters(b: LayerBuilder, c_type: str, **more: int) -> str:
    """The address of the parameters' struct."""
    node = b.node
    stride, padding, dilation = window_of(node)
    low, high = b.clamp()
    name = b.value(
        "kParams",
        c_type,
        input_offset=-zero_point_of(node.input(0)),
        output_offset=zero_point_of(node.output()),
        **more,
        stride=tile(stride),
        padding=tile(padding),
        dilation=tile(dilation),
        activation=limits((low, high)),
    )
    return f"&{name}"


def _arm_convolve(b: LayerBuilder, channels: int) -> None:
    node = b.node
    source, weights, output = node.input(0), node.input(1), node.output()
    function = arm_convolve_function(b)
    quantisation = arm_channel_quantisation(b, channel_multipliers(node, channels))
    parameters = _arm_parameters(b, "cmsis_nn_conv_params")
    given = b.source(0, "input")
    scratch = b.kernel_scratch()
    pixels = source.shape[0] * source.shape[1] * source.shape[2]
    runs = None
    rows = b.dims(*source.shape)
    if function == "arm_convolve_1x1_s8_fast" and not any(mve for _, mve in b.cores):
        rows = "&pixels"
        runs = PixelRuns((pixels,), "input", source.shape[3], "output", channels, "pixels", source.shape[3])
    b.cmsis(
        function,
        arm_context(b, scratch),
        parameters,
        quantisation,
        rows,
        given,
        b.dims(1, *weights.shape[1:]),
        b.source(1, "weights"),
        b.dims(1, 1, 1, channels),
        b.optional_source(2, "bias"),
        *(("nullptr",) if function == "arm_convolve_s8" else ()),
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
    short = str(bias is not None and bias.type is TensorType.INT32).lower()
    b.value("kBias", "cmsis_nn_bias_data", data=b.optional_source(2, "bias"), is_int32_bias=short)
    given = b.source(0, "input")
    b.cmsis(
        "arm_convolve_s16",
        arm_context(b, b.kernel_scratch()),
        parameters,
        quantisation,
        b.dims(*source.shape),
        given,
        b.dims(1, *weights.shape[1:]),
        b.source(1, "weights"),
        b.dims(1, 1, 1, channels),
        "&kBias",
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
    b.cmsis(
        function,
        arm_context(b, b.kernel_scratch()),
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
            found.add("arm_depthwise_conv_wrapper_s8")
        elif node.option("depth_multiplier") == 1 and node.input(0).shape[0] == 1 and dilation == (1, 1):
            small = node.input(1).shape[1:3] == (3, 3) and max(padding) <= 1
            found.add("arm_depthwise_conv_3x3_s8" if small and not mve else "arm_depthwise_conv_s8_opt")
        else:
            found.add("arm_depthwise_conv_s8")
    return found.pop() if len(found) == 1 else "arm_depthwise_conv_wrapper_s8"


def _reference(b: LayerBuilder, channels: int, function: str, header: str) -> None:
    """TFLM's loops with a multiplier for each channel."""
    node = b.node
    stride, padding, dilation = window_of(node)
    low, high = b.clamp()
    depthwise = "Depthwise" in function
    fields = {
        "padding_values__width": padding[1],
        "padding_values__height": padding[0],
        "stride_width": stride[1],
        "stride_height": stride[0],
        "dilation_width_factor": dilation[1],
        "dilation_height_factor": dilation[0],
        **({"depth_multiplier": node.option("depth_multiplier")} if depthwise else {}),
        "input_offset": -zero_point_of(node.input(0)),
        "output_offset": zero_point_of(node.output()),
        "quantized_activation_min": low,
        "quantized_activation_max": high,
    }
    parameters = b.assigned("kParams", "tflite::DepthwiseParams" if depthwise else "tflite::ConvParams", **fields)
    found = channel_multipliers(node, channels)
    bias = node.optional_input(2)
    wide = node.input(0).type is TensorType.INT16
    check_bias(b, *((TensorType.INT32, TensorType.INT64) if wide else (TensorType.INT32,)))
    absent = "int64_t" if wide and depthwise else "int32_t"
    b.reference(
        f"reference/integer_ops/{header}",
        function,
        parameters,
        b.int32s("multipliers", (one.value for one in found)),
        b.int32s("shifts", (one.shift for one in found)),
        b.shape(node.input(0).shape),
        b.source(0, "input"),
        b.shape(node.input(1).shape),
        b.source(1, "weights"),
        b.shape((channels,)),
        # A bare nullptr would be deduced as no pointer type.
        b.source(2, "bias") if bias is not None else f"static_cast<const {absent} *>(nullptr)",
        b.shape(node.output().shape),
        b.result(),
    )


def _float(b: LayerBuilder, header: str, function: str, c_type: str, tail: tuple[str, ...] = ()) -> None:
    node = b.node
    stride, padding, dilation = window_of(node)
    low, high = float_range(node.option("fused_activation_function"))
    multiplied = {"depth_multiplier": node.option("depth_multiplier")} if "Depthwise" in c_type else {}
    parameters = b.assigned(
        "kParams",
        c_type,
        padding_values__width=padding[1],
        padding_values__height=padding[0],
        stride_width=stride[1],
        stride_height=stride[0],
        dilation_width_factor=dilation[1],
        dilation_height_factor=dilation[0],
        **multiplied,
        float_activation_min=float_text(low),
        float_activation_max=float_text(high),
    )
    b.reference(
        f"reference/{header}",
        function,
        parameters,
        *b.weighted_arguments(),
        *tail,
    )


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
    arrays: tuple[str, ...] = ()
    scratch: tuple[str, ...] = ()
    fields: dict[str, object] = {
        "padding_values__width": width,
        "padding_values__height": height,
        "stride_width": stride[1],
        "stride_height": stride[0],
    }
    if source.type is TensorType.FLOAT32:
        fields |= {"float_activation_min": float_text(low), "float_activation_max": float_text(high)}
    else:
        header, arrays, scratch = "integer_ops/transpose_conv.h", _transposed_scaling(b, fields), _totals(b)
    tensors = (
        b.shape(source.shape), b.source(2, "input"), b.shape(weights.shape), b.source(1, "weights"),
        b.shape((weights.shape[0],)), _transposed_bias(b), b.shape(output.shape), b.result(),
    )  # fmt: skip
    parameters = b.assigned("kParams", "tflite::ConvParams", **fields)
    function = f"tflite::{'reference_ops' if not scratch else 'reference_integer_ops'}::TransposeConv"
    b.reference(
        f"reference/{header}", function, parameters, *arrays, *tensors, "tflite::RuntimeShape()", "nullptr", *scratch
    )


def _transposed_scaling(b: LayerBuilder, fields: dict[str, object]) -> tuple[str, ...]:
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
    return b.int32s("multipliers", (one.value for one in found)), b.int32s("shifts", (one.shift for one in found))


def _totals(b: LayerBuilder) -> tuple[str, ...]:
    """The scratch buffer: a sum for each output."""
    wide = b.node.input(2).type is TensorType.INT16
    return (b.scratch(b.node.output().elements * (8 if wide else 4), "int64_t" if wide else "int32_t"),)


def _transposed_bias(b: LayerBuilder) -> str:
    """The bias as the function takes it: int16 biases widened to int64."""
    kind, bias = b.node.input(2).type, b.node.optional_input(3)
    wanted = {TensorType.INT8: "int32_t", TensorType.INT16: "int64_t", TensorType.FLOAT32: "float"}[kind]
    if bias is None:
        return f"static_cast<const {wanted} *>(nullptr)"
    if bias.type.c_type == wanted:
        return b.source(3, "bias")
    if kind is not TensorType.INT16 or bias.type is not TensorType.INT16 or bias.data is None:
        raise b.refuse(f"has a bias of {bias.type.value}")
    values = struct.unpack(f"<{bias.elements}h", bias.data)
    return b.raw("bias", wanted, bias.elements, struct.pack(f"<{bias.elements}q", *values), bias.label)


def window_rows(b: LayerBuilder, layer: Layer) -> RowForm:
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
    if b.fits(_FLOAT):
        return reference_windowed(b, layer, window, places=(0, 1, 3, 7))
    if not b.cmsis_nn:
        return reference_windowed(b, layer, window, places=(0, 3, 5, -2))
    if call.function not in _ARM_BY_ROWS or (call.function.endswith("wrapper_s8") and height == 1):
        raise NotByRowsError(f"is computed by {call.function}(), which takes no rows")
    depthwise = node.operator.key == "DEPTHWISE_CONV_2D"
    c_type = "cmsis_nn_dw_conv_params" if depthwise else "cmsis_nn_conv_params"
    return arm_windowed(b, layer, window, c_type, places=(1, 3, 5, -2))


_ARM_BY_ROWS = (
    "arm_convolve_1x1_s8",
    "arm_convolve_1x1_s8_fast",
    "arm_convolve_s16",
    "arm_convolve_s8",
    "arm_depthwise_conv_3x3_s8",
    "arm_depthwise_conv_s16",
    "arm_depthwise_conv_s8",
    "arm_depthwise_conv_s8_opt",
    "arm_depthwise_conv_wrapper_s8",
)
ROWS: Mapping[str, RowRule] = {
    "CONV_2D": window_rows,
    "DEPTHWISE_CONV_2D": window_rows,
}
EMITTERS: Mapping[str, Callable[[LayerBuilder], None]] = {
    "CONV_2D": conv_2d,
    "DEPTHWISE_CONV_2D": depthwise_conv_2d,
    "TRANSPOSE_CONV": transpose_conv,
}

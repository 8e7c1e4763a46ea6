# SPDX-License-Identifier: Apache-2.0
"""FULLY_CONNECTED.

Sources: fully_connected_common.cc, fully_connected.cc and cmsis_nn/fully_connected.cc (tensorflow/lite/micro/kernels).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tflm_zephyr.compiler.fixed_point import float_range
from tflm_zephyr.compiler.layer_builder import LayerBuilder
from tflm_zephyr.compiler.operators.texts import float_text, limits
from tflm_zephyr.compiler.operators.weights import (
    arm_channel_quantisation,
    arm_context,
    channel_multipliers,
    check_bias,
    check_symmetric,
    dense_multiplier,
    weight_sums,
)
from tflm_zephyr.compiler.program import Layer, PixelRuns
from tflm_zephyr.compiler.row_forms import NotByRowsError, RowRule, gathered_products, one_call
from tflm_zephyr.compiler.row_program import RowForm
from tflm_zephyr.kernels import Node, zero_point_of
from tflm_zephyr.model import TensorType

_INT8 = "i0 int8 i1 int8 o0 int8"
_INT16 = "i0 int16 i1 int8 o0 int16"
_FLOAT = "i0 float32 i1 float32 o0 float32"


def fully_connected(b: LayerBuilder) -> None:
    """FULLY_CONNECTED in int8, with one scale or one for each output, in int16 with one scale, and in float."""
    node = b.node
    weights, output = node.input(1), node.output()
    if not weights.is_constant:
        raise b.refuse("has weights that are computed")
    if len(weights.shape) != 2 or len(output.shape) < 2 or output.shape[-1] != weights.shape[0]:
        raise b.refuse("has shapes that do not fit each other")
    if b.fits(_FLOAT):
        _float(b)
    elif b.fits(_INT16):
        _int16(b)
    elif not b.fits(_INT8):
        raise b.refuse(f"has no direct code for {node.types}")
    elif b.cmsis_nn:
        _arm(b)
    else:
        _reference(b)


def _per_channel(node: Node) -> bool:
    quantization = node.input(1).quantization
    return quantization is not None and quantization.per_channel


def _arm(b: LayerBuilder) -> None:
    node = b.node
    outputs, depth = node.input(1).shape
    batches = node.output().elements // outputs
    given = b.source(0, "input")
    offsets = {"input_offset": -zero_point_of(node.input(0)), "output_offset": zero_point_of(node.output())}
    activation = limits(b.clamp())
    single = dense_multiplier(node)
    each = channel_multipliers(node, outputs) if _per_channel(node) else (single,) * outputs
    if _as_convolution(node):
        plain = "{1, 1}"
        function, runs, rows = "arm_convolve_1x1_s8_fast", None, b.dims(batches, 1, 1, depth)
        if not any(mve for _, mve in b.cores):
            runs, rows = PixelRuns((batches,), "input", depth, "output", outputs, "pixels", depth), "&pixels"
        parameters = b.value(
            "kParams",
            "cmsis_nn_conv_params",
            **offsets,
            stride=plain,
            padding="{0, 0}",
            dilation=plain,
            activation=activation,
        )
        quantisation = arm_channel_quantisation(b, each)
    else:
        function, runs, rows = "arm_fully_connected_s8", None, b.dims(batches, 1, 1, depth)
        parameters = b.value(
            "kParams",
            "cmsis_nn_fc_params",
            input_offset=offsets["input_offset"],
            filter_offset=-zero_point_of(node.input(1)),
            output_offset=offsets["output_offset"],
            activation=activation,
        )
        if _per_channel(node):
            function = "arm_fully_connected_per_channel_s8"
            quantisation = arm_channel_quantisation(b, each)
        else:
            name = b.value(
                "kQuantisation", "cmsis_nn_per_tensor_quant_params", multiplier=single.value, shift=single.shift
            )
            quantisation = f"&{name}"
    b.cmsis(
        function,
        _sums_context(b),
        f"&{parameters}",
        quantisation,
        rows,
        given,
        b.dims(depth, 1, 1, outputs),
        b.source(1, "weights"),
        b.dims(1, 1, 1, outputs),
        b.optional_source(2, "bias"),
        b.dims(batches, 1, 1, outputs),
        b.result(),
        runs=runs,
    )


def _sums_context(b: LayerBuilder) -> str:
    """The address of a context without a buffer, on a core with Helium with the sums of the weights."""
    node = b.node
    if _as_convolution(node) or not any(mve for _, mve in b.cores):
        return arm_context(b, "nullptr")
    offset, own = -zero_point_of(node.input(0)), -zero_point_of(node.input(1))
    return weight_sums(b, 1, offset, node.optional_input(2), own)


def _int16(b: LayerBuilder) -> None:
    """int16 activations with an int64 bias, which both libraries add up in 64 bits."""
    node = b.node
    check_symmetric(b)
    check_bias(b, TensorType.INT64)
    if _per_channel(node) or node.optional_input(2) is None:
        raise b.refuse("has a scale for each output, or no bias, which TFLM's revisions compute differently")
    if not b.cmsis_nn:
        _reference(b)
        return
    outputs, depth = node.input(1).shape
    batches, single = node.output().elements // outputs, dense_multiplier(node)
    activation = limits(b.clamp())
    parameters = b.value(
        "kParams", "cmsis_nn_fc_params", input_offset=0, filter_offset=0, output_offset=0, activation=activation
    )
    scaling = b.value("kQuantisation", "cmsis_nn_per_tensor_quant_params", multiplier=single.value, shift=single.shift)
    given = b.source(0, "input")
    b.cmsis(
        "arm_fully_connected_s16",
        "&kNoContext",
        f"&{parameters}",
        f"&{scaling}",
        b.dims(batches, 1, 1, depth),
        given,
        b.dims(depth, 1, 1, outputs),
        b.source(1, "weights"),
        b.dims(1, 1, 1, outputs),
        b.source(2, "bias"),
        b.dims(batches, 1, 1, outputs),
        b.result(),
    )


def _as_convolution(node: Node) -> bool:
    """Whether TFLM's kernel calls the 1x1 convolution: for outputs of more than two dimensions."""
    return len(node.output().shape) > 2 and node.input(1).shape[1] % 4 == 0


def _reference(b: LayerBuilder) -> None:
    node = b.node
    outputs = node.input(1).shape[0]
    low, high = b.clamp()
    single = dense_multiplier(node)
    parameters = b.assigned(
        "kParams",
        "tflite::FullyConnectedParams",
        input_offset=-zero_point_of(node.input(0)),
        weights_offset=-zero_point_of(node.input(1)),
        output_offset=zero_point_of(node.output()),
        output_multiplier=single.value,
        output_shift=single.shift,
        quantized_activation_min=low,
        quantized_activation_max=high,
    )
    arrays: tuple[str, ...] = ()
    function = "tflite::reference_integer_ops::FullyConnected"
    if _per_channel(node):
        each = channel_multipliers(node, outputs)
        function += "PerChannel"
        arrays = (
            b.int32s("multipliers", (one.value for one in each)),
            f"reinterpret_cast<const int *>({b.int32s('shifts', (one.shift for one in each))})",
        )
    b.reference(
        "reference/integer_ops/fully_connected.h",
        function,
        parameters,
        *arrays,
        *b.weighted_arguments(no_bias="static_cast<const int32_t *>(nullptr)"),
    )


def _float(b: LayerBuilder) -> None:
    node = b.node
    low, high = float_range(node.option("fused_activation_function"))
    parameters = b.assigned(
        "kParams",
        "tflite::FullyConnectedParams",
        float_activation_min=float_text(low),
        float_activation_max=float_text(high),
    )
    b.reference(
        "reference/fully_connected.h",
        "tflite::reference_ops::FullyConnected",
        parameters,
        *b.weighted_arguments(),
    )


def dense_rows(b: LayerBuilder, layer: Layer) -> RowForm:
    """FULLY_CONNECTED of an image, whose rows are multiplied as they come: sums in int32 are the same in any order."""
    node, call = b.node, one_call(layer)
    weights, output = node.input(1), node.output()
    if not b.fits(_INT8):
        raise NotByRowsError("is not of int8")
    if output.elements != weights.shape[0]:
        raise NotByRowsError("has several rows of outputs")
    if zero_point_of(weights):
        raise NotByRowsError("has weights with a zero point")
    if _per_channel(node) and not b.cmsis_nn:
        shifts = call.arguments[2].partition("(")[2][:-1]
        scaling = f"{call.arguments[1]}[k], {shifts}[k]"
    elif _per_channel(node) or call.function == "arm_convolve_1x1_s8_fast":
        scaling = "kQuantisation.multiplier[k], kQuantisation.shift[k]"
    else:
        single = dense_multiplier(node)
        scaling = f"{single.value}, {single.shift}"
    low, high = b.clamp()
    number = "int32_t k" if "[k]" in scaling else "int32_t"
    bias = call.arguments[8 if b.cmsis_nn else -3]
    last = (
        f"FinishProducts(sums, {output.elements}, {bias}, [&]({number}) {{ return Scaling{{{scaling}}}; }}, "
        f"{zero_point_of(output)}, {low}, {high}, output);"
    )
    return gathered_products(b, call.arguments[6 if b.cmsis_nn else -5], -zero_point_of(node.input(0)), last)


ROWS: Mapping[str, RowRule] = {"FULLY_CONNECTED": dense_rows}
EMITTERS: Mapping[str, Callable[[LayerBuilder], None]] = {"FULLY_CONNECTED": fully_connected}

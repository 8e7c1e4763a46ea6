# SPDX-License-Identifier: Apache-2.0
"""FULLY_CONNECTED.

Sources: fully_connected_common.cc, fully_connected.cc and cmsis_nn/fully_connected.cc (tensorflow/lite/micro/kernels).
"""

from __future__ import annotations

from collections.abc import Mapping

from tflm_zephyr.compiler.fast_layers import own_dense
from tflm_zephyr.compiler.fixed_point import finite, float_range
from tflm_zephyr.compiler.ir.calls import KernelCall, PixelRuns
from tflm_zephyr.compiler.ir.kernels import cmsis_kernel, helper_kernel, reference_kernel
from tflm_zephyr.compiler.ir.layers import KernelLayer
from tflm_zephyr.compiler.ir.operands import AddressOf, AsInts, Dims, NoContext, Null, Operand, RunDims
from tflm_zephyr.compiler.ir.row_operands import EachScaling, Sums
from tflm_zephyr.compiler.ir.rows import RowForm
from tflm_zephyr.compiler.ir.structs import ConstantAt, Struct, limits, tile
from tflm_zephyr.compiler.layer_builder import LayerBuilder, int32s
from tflm_zephyr.compiler.lowering import Lowering
from tflm_zephyr.compiler.operators.weights import (
    arm_channel_quantisation,
    arm_quantisation,
    arm_struct,
    channel_multipliers,
    check_bias,
    check_symmetric,
    clamp_of,
    dense_multiplier,
    dense_params,
    is_legacy,
    reference_params,
    weight_sums,
    weighted_operands,
)
from tflm_zephyr.compiler.row_forms import NotByRowsError, gathered_products, one_call, output_of
from tflm_zephyr.compiler.shapes import biased, shown
from tflm_zephyr.kernels import Node, zero_point_of
from tflm_zephyr.model import TensorType

DENSE_LEGACY = helper_kernel("DenseLegacy", "<algorithm>", "tensorflow/lite/kernels/internal/types.h")
FINISH_PRODUCTS = helper_kernel("FinishProducts")
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
    if b.node.fits(_FLOAT):
        _float(b)
    elif is_legacy(b):
        _legacy(b)
    elif b.node.fits(_INT16):
        _int16(b)
    elif not b.node.fits(_INT8):
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
    activation = limits(clamp_of(node))
    single = dense_multiplier(node)
    each = channel_multipliers(node, outputs) if _per_channel(node) else (single,) * outputs
    if _as_convolution(node):
        function, runs = "arm_convolve_1x1_s8_fast", None
        rows: Dims | RunDims = b.dims(batches, 1, 1, depth)
        if not any(mve for _, mve in b.cores):
            runs, rows = PixelRuns((batches,), "input", depth, "output", outputs, depth), RunDims()
        parameters = arm_struct(
            b,
            "kParams",
            "cmsis_nn_conv_params",
            **offsets,
            stride=tile((1, 1)),
            padding=tile((0, 0)),
            dilation=tile((1, 1)),
            activation=activation,
        )
        quantisation = arm_channel_quantisation(b, each)
    else:
        function, runs, rows = "arm_fully_connected_s8", None, b.dims(batches, 1, 1, depth)
        parameters = arm_struct(
            b,
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
            quantisation = arm_quantisation(b, single)
    b.call(
        cmsis_kernel(function),
        _sums_context(b),
        parameters,
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


def _sums_context(b: LayerBuilder) -> AddressOf | NoContext:
    """A context without a buffer, on a core with Helium with the sums of the weights."""
    node = b.node
    if _as_convolution(node) or not any(mve for _, mve in b.cores):
        return NoContext()
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
    offsets = dict.fromkeys(("input_offset", "filter_offset", "output_offset"), 0)
    parameters = arm_struct(b, "kParams", "cmsis_nn_fc_params", **offsets, activation=limits(clamp_of(node)))
    scaling = arm_quantisation(b, single)
    given = b.source(0, "input")
    b.call(
        cmsis_kernel("arm_fully_connected_s16"),
        NoContext(),
        parameters,
        scaling,
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
    parameters = dense_params(b, "FullyConnectedParams")
    arrays: tuple[Operand, ...] = ()
    function = "FullyConnected"
    if _per_channel(node):
        each = channel_multipliers(node, outputs)
        function += "PerChannel"
        multipliers = int32s(b, "multipliers", (one.value for one in each))
        arrays = multipliers, AsInts(int32s(b, "shifts", (one.shift for one in each)))
    kernel = reference_kernel("integer_ops/fully_connected.h", function, integer=True)
    b.call(kernel, parameters, *arrays, *weighted_operands(b, no_bias=Null(TensorType.INT32)))


def _float(b: LayerBuilder) -> None:
    node = b.node
    low, high = float_range(node.option("fused_activation_function"))
    parameters = reference_params(
        b, "FullyConnectedParams", float_activation_min=finite(low), float_activation_max=finite(high)
    )
    b.call(reference_kernel("fully_connected.h", "FullyConnected"), parameters, *weighted_operands(b))


def _legacy(b: LayerBuilder) -> None:
    outputs, depth = b.node.input(1).shape
    tensors = b.source(0, "input"), b.source(1, "weights"), b.optional_source(2, "bias"), b.result()
    parameters = dense_params(b, "FullyConnectedParams")
    if dense_multiplier(b.node).shift > 30 or b.node.option("weights_format"):
        raise b.refuse("has shuffled weights, or a scale that is too large")
    b.call(DENSE_LEGACY, parameters, *tensors, b.node.output().elements // outputs, outputs, depth)


def dense_rows(b: LayerBuilder, layer: KernelLayer) -> RowForm:
    """FULLY_CONNECTED of an image, whose rows are multiplied as they come: sums in int32 are the same in any order."""
    node, call = b.node, one_call(layer)
    weights, output = node.input(1), node.output()
    if not b.node.fits(_INT8):
        raise NotByRowsError("is not of int8")
    if output.elements != weights.shape[0]:
        raise NotByRowsError("has several rows of outputs")
    if zero_point_of(weights):
        raise NotByRowsError("has weights with a zero point")
    low, high = clamp_of(node)
    last = KernelCall(
        FINISH_PRODUCTS,
        (
            Sums(),
            output.elements,
            call.operands[8 if b.cmsis_nn else -3],
            _scaling(node, call),
            zero_point_of(output),
            low,
            high,
            output_of(b),
        ),
    )
    array = call.operands[6 if b.cmsis_nn else -5]
    assert isinstance(array, ConstantAt)
    return gathered_products(b, array, -zero_point_of(node.input(0)), last)


def _scaling(node: Node, call: KernelCall) -> EachScaling:
    """Each output's multiplier and shift: the call's own where it has one for each, else the layer's."""
    _, first, second, *_ = call.operands
    if isinstance(first, ConstantAt) and isinstance(second, AsInts):
        return EachScaling((first, second.array))
    quantisation = second.value if isinstance(second, AddressOf) else None
    if isinstance(quantisation, Struct) and not isinstance(quantisation.field("multiplier"), int):
        return EachScaling(quantisation)
    single = dense_multiplier(node)
    return EachScaling((single.value, single.shift))


def _fits(node: Node) -> str:
    source, weights, output = node.input(0), node.input(1), node.output()
    if len(weights.shape) != 2 or not output.shape:
        return ""
    outputs, depth = weights.shape
    if outputs <= 0 or depth <= 0 or output.elements * depth != source.elements * outputs:
        return f"has tensors that do not fit each other: {shown(source, weights, output)}"
    return biased(node, 2, outputs)


OPERATORS: Mapping[str, Lowering] = {
    "FULLY_CONNECTED": Lowering(fully_connected, dense_rows, _fits, own=(own_dense,), legacy=True)
}

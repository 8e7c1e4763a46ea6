# SPDX-License-Identifier: Apache-2.0
"""FULLY_CONNECTED and BATCH_MATMUL.

Sources: fully_connected_common.cc, fully_connected.cc, batch_matmul.cc and their like in cmsis_nn/
(tensorflow/lite/micro/kernels). From TFLM fcc760af on int16 activations take per-channel weights and int32 biases, and
CMSIS-NN's kernel sums weights in Prepare (KERNELS_OPTIMIZED_FOR_SPEED) for constant weights and biases alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tflm_zephyr.kernels import cmsis_nn_sizes as arm
from tflm_zephyr.kernels.core import Core
from tflm_zephyr.kernels.in_place.geometry import affine_lead
from tflm_zephyr.kernels.in_place.rules import InPlaceDistance, at_distance
from tflm_zephyr.kernels.in_place.runs import Run
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.kernels.operators.convolution import WEIGHTED, int4_weights
from tflm_zephyr.kernels.quantisation import (
    QUANTISED,
    REQUANTISE,
    check_int16_zero_points,
    dense_channels,
    scale_of,
    zero_point_of,
)
from tflm_zephyr.kernels.revisions import BEFORE_4_4, SINCE_4_4
from tflm_zephyr.kernels.spec import CmsisNn, Kernel, OperatorSpec, Specs, dims_copy, types
from tflm_zephyr.model import Tensor, TensorType

_PER_TENSOR_DENSE = "Convert with _experimental_disable_per_channel_quantization_for_dense_layers = True"
_EVAL_TENSOR = 12  # sizeof(TfLiteEvalTensor)
_MATMUL_QUANTISATION = 28  # sizeof(*OpDataBatchMatmul::quantization)


# Memory


def _persistent(node: Node, core: Core) -> tuple[int, ...]:
    return (48, *dense_channels(node.input(0), node.input(1)))


def _as_convolution(node: Node) -> bool:
    """Whether CMSIS-NN's kernel runs it as a 1x1 convolution."""
    return len(node.output().shape) > 2 and node.dim(node.input(1), -1) % 4 == 0


def _sums_in_prepare(node: Node, core: Core) -> bool:
    """Whether the sums of the weights are computed once, into a persistent buffer."""
    bias = node.optional_input(2)
    constant = bias is None or bias.is_constant or core.revision in BEFORE_4_4
    return core.optimise_for == "speed" and node.input(1).is_constant and constant


def _arm_scratch(node: Node, core: Core) -> tuple[int, ...]:
    weights, output = node.input(1), node.output()
    if node.input(0).type is not TensorType.INT8 or weights.type is TensorType.INT4:
        return ()
    out_depth = node.dim(output, -1)
    if _as_convolution(node):
        one_scale = not dense_channels(node.input(0), weights)
        return (8 * out_depth,) if one_scale else ()
    if _sums_in_prepare(node, core):
        return ()
    return arm.asked(arm.fully_connected_s8(core, out_depth))


def _arm_persistent(node: Node, core: Core) -> tuple[int, ...]:
    source, weights = node.input(0), node.input(1)
    sums: tuple[int, ...] = ()
    if source.type is weights.type is TensorType.INT8 and _sums_in_prepare(node, core) and not _as_convolution(node):
        sums = arm.asked(arm.fully_connected_s8(core, node.dim(node.output(), -1)))
    return (72, *dense_channels(source, weights), *sums)


def _transposed(node: Node) -> tuple[int, ...]:
    """BATCH_MATMUL's copies of operands that it has to transpose."""
    found: list[int] = []
    for place, needed in ((0, node.option("adj_x")), (1, not node.option("adj_y"))):
        if needed:
            tensor = node.input(place)
            found += (_EVAL_TENSOR, dims_copy(tensor), tensor.size_bytes)
    return tuple(found)


def _matmul_quantisation(node: Node) -> tuple[int, ...]:
    return (_MATMUL_QUANTISATION,) if node.input(0).type in QUANTISED else ()


def _matmul_persistent(node: Node, core: Core) -> tuple[int, ...]:
    return (16, *_matmul_quantisation(node), *_transposed(node), dims_copy(node.output()))


def _arm_matmul_persistent(node: Node, core: Core) -> tuple[int, ...]:
    return (36, *_transposed(node), dims_copy(node.output()), *_matmul_quantisation(node))


def _arm_matmul_scratch(node: Node, core: Core) -> tuple[int, ...]:
    if node.input(0).type is not TensorType.INT8:
        return ()
    return arm.asked(arm.fully_connected_s8(core, node.dim(node.output(), -1)))


# In-place distances. BATCH_MATMUL reads its operands until the end and allows none.


def _in_place(node: Node, core: Core) -> tuple[InPlaceDistance, ...]:
    """FULLY_CONNECTED: reference/integer_ops/fully_connected.h and reference/fully_connected.h.

    Loops: batch, out_channel, then the whole row of the batch is read and one element written. It saves memory
    with several batches only.
    """
    source, result = node.input(0), node.output()
    depth, out_depth = node.dim(node.input(1), -1), node.dim(result, -1)
    if depth <= 0 or out_depth <= 0 or source.elements // depth != result.elements // out_depth:
        return ()
    batches, element = result.elements // out_depth, result.type.size_bytes
    lead = affine_lead([(batches, out_depth * element, depth * source.type.size_bytes)])
    return at_distance(lead + (out_depth - 1) * element)


def _arm_in_place(node: Node, core: Core) -> tuple[InPlaceDistance, ...]:
    """CMSIS-NN's functions were not read; float goes to the reference code."""
    return _in_place(node, core) if node.input(0).type is TensorType.FLOAT32 else ()


def _last_reads(node: Node, core: Core, place: int, output: int) -> Iterable[Run] | None:
    """A row of input is read for each output channel of its batch, the last one included."""
    if place != 0:
        return None
    given, taken = node.input(0), node.output()
    depth, out_depth = node.input(1).shape[-1], taken.shape[-1]
    batches, rest = divmod(given.elements, depth)
    if rest or batches * out_depth != taken.elements:
        return None
    element, out_element = given.type.size_bytes, taken.type.size_bytes
    return (
        Run(b * depth * element, depth, element, ((b + 1) * out_depth - 1) * out_element, 0) for b in range(batches)
    )


def _arm_last_reads(node: Node, core: Core, place: int, output: int) -> Iterable[Run] | None:
    return _last_reads(node, core, place, output) if node.input(place).type is TensorType.FLOAT32 else None


# Prepare's checks and work


def _check(node: Node) -> None:
    """CalculateOpDataFullyConnected."""
    source, weights = node.optional_input(0), node.optional_input(1)
    if source is None or weights is None or source.type is TensorType.FLOAT32:
        return
    quantization = weights.quantization
    if quantization is None or not quantization.per_channel:
        _check_bias_scale(node, source, weights)
        return
    if weights.type is TensorType.INT4:
        raise node.fail(
            f"has per-channel scales on {weights.label}, which TFLM does not take for int4 weights",
            _PER_TENSOR_DENSE,
        )
    along, count = quantization.dimension, len(quantization.scales)
    if not 0 <= along < len(weights.shape) or weights.shape[along] != count:
        raise node.fail(
            f"has {count} scales along dimension {along} of {weights.label} with shape {list(weights.shape)}",
            REQUANTISE,
        )


def _check_bias_scale(node: Node, source: Tensor, weights: Tensor) -> None:
    """GetQuantizedConvolutionMultipler: the bias has the scale of its products, to 2 % of the output's."""
    bias, output = node.optional_input(2), node.optional_output(0)
    if bias is None or output is None:
        return
    found, unit = scale_of(bias), scale_of(output)
    wanted = scale_of(source) * scale_of(weights)
    if not unit or not abs(wanted - found) / unit <= 0.02:
        raise node.fail(f"needs the scale {wanted:g} on {bias.label}, its bias, which has {found:g}", REQUANTISE)


def _check_int16(node: Node) -> None:
    """Up to 8d404de7 int16 activations take one scale for all weights."""
    source, weights = node.optional_input(0), node.optional_input(1)
    if source is None or weights is None or source.type is not TensorType.INT16:
        return
    if weights.quantization is not None and weights.quantization.per_channel:
        raise node.fail(f"has per-channel scales on {weights.label} for int16 activations", _PER_TENSOR_DENSE)


def _macs(node: Node) -> int:
    return node.output().elements * (node.input(1).shape[-1] if node.input(1).shape else 1)


def _matmul_macs(node: Node) -> int:
    return node.output().elements * (node.input(0).shape[-1] if node.input(0).shape else 1)


def _arm_ignores_zero_point(node: Node, core: Core) -> str:
    """cmsis_nn/fully_connected.cc calls a 1x1 convolution for outputs of more than two dimensions and a depth that 4
    divides, and a convolution's weights have no zero point."""
    weights = node.input(1)
    ignores = node.input(0).type is TensorType.INT8 and zero_point_of(weights) != 0 and _as_convolution(node)
    return "ignores the zero point of the weights" if ignores else ""


_FULLY_CONNECTED = OperatorSpec(
    Kernel(int4_weights, _persistent, _in_place, _last_reads),
    CmsisNn(
        Kernel(_arm_scratch, _arm_persistent, _arm_in_place, _arm_last_reads),
        WEIGHTED,
        miscomputes=_arm_ignores_zero_point,
    ),
    types("i0 i1 o0 i2", "float32 float32 float32 float32", "int8 int8|int4 int8 int32", "int16 int8 int16 int64"),
    (_check, _check_int16),
    _macs,
    BEFORE_4_4,
)

OPERATORS: Mapping[str, Specs] = {
    "BATCH_MATMUL": (
        OperatorSpec(
            Kernel(persistent=_matmul_persistent),
            CmsisNn(
                Kernel(_arm_matmul_scratch, _arm_matmul_persistent),
                {"INT8": "i0 int8 i1 int8 o0 int8", "INT16": "i0 int16 i1 int16 o0 int16"},
            ),
            types("i0 i1 o0", "float32|int8|int16 = ="),
            (check_int16_zero_points,),
            _matmul_macs,
        ),
    ),
    "FULLY_CONNECTED": (
        _FULLY_CONNECTED,
        replace(
            _FULLY_CONNECTED,
            types=types(
                "i0 i1 o0 i2",
                "float32 float32 float32 float32",
                "int8 int8|int4 int8 int32",
                "int16 int8 int16 int32|int64",
            ),
            checks=(_check,),
            revisions=SINCE_4_4,
        ),
    ),
}

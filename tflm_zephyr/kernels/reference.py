# SPDX-License-Identifier: Apache-2.0
"""Scratch buffers of TFLM's reference kernels, and of the kernels that every library shares.

Each function gives the sizes that Prepare asks for, in order (tensorflow/lite/micro/kernels/*.cc and
signal/micro/kernels/*.cc, revision 8d404de7).
"""

from __future__ import annotations

from collections.abc import Mapping

from tflm_zephyr.kernels.base import Core, KernelLibrary, Sizes
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.kernels.persistent import REFERENCE_PERSISTENT
from tflm_zephyr.model import TensorType
from tflm_zephyr.tflm import shipped_operator_table

_INT = 4  # sizeof(int), sizeof(float) and sizeof(int32_t) on every target
_QUANTISED = (TensorType.INT8, TensorType.INT16)


def build(core: Core) -> KernelLibrary:
    """The reference kernels; of the core only the size of a pointer matters."""
    return KernelLibrary(
        "reference", core, frozenset(shipped_operator_table().calls), scratch_table(core), REFERENCE_PERSISTENT
    )


def scratch_table(core: Core) -> Mapping[str, Sizes]:
    """The scratch of every reference kernel that asks for some, by operator key."""

    def add_n(node: Node) -> tuple[int, ...]:
        kinds = (TensorType.FLOAT32, TensorType.INT8)
        return (core.pointer_bytes * len(node.operator.inputs),) if node.output().type in kinds else ()

    def sums(node: Node) -> tuple[int, ...]:
        quantised = node.input(0).type in _QUANTISED
        totals = (node.output().elements * _INT,) if quantised else ()
        return (*totals, *_axes(node)) if core.later else totals

    def ethos_u(node: Node) -> tuple[int, ...]:
        count = len(node.operator.inputs) + len(node.operator.outputs)
        return count * 8, count * core.pointer_bytes

    return {
        "ADD_N": add_n,
        "CONV_2D": int4_weights,
        "DEPTHWISE_CONV_2D": int4_weights,
        "FULLY_CONNECTED": int4_weights,
        "MEAN": sums,
        "MIRROR_PAD": _mirror_pad,
        "REDUCE_MAX": _axes,
        "SUM": sums,
        "SVDF": svdf,
        "SignalRfft": _rfft,
        "TFLite_Detection_PostProcess": _detection_postprocess,
        "TRANSPOSE_CONV": transpose_conv,
        "UNIDIRECTIONAL_SEQUENCE_LSTM": lambda node: lstm(node, 4),
        "ethos-u": ethos_u,
    }


def int4_weights(node: Node) -> tuple[int, ...]:
    """int4 weights are unpacked to a byte each."""
    weights = node.input(1)
    return (weights.elements,) if weights.type is TensorType.INT4 else ()


def transpose_conv(node: Node) -> tuple[int, ...]:
    """Accumulators for the whole output, and an int16 bias widened to int64."""
    kind, elements = node.input(2).type, node.output().elements
    if kind is TensorType.INT8:
        return (elements * 4,)
    if kind is not TensorType.INT16:
        return ()
    bias = node.optional_input(3)
    widened = (bias.elements * 8,) if bias is not None and bias.type is TensorType.INT16 else ()
    return (elements * 8, *widened)


def svdf(node: Node) -> tuple[int, ...]:
    """Results of the feature weights, and for int8 of the time weights."""
    source, rank = node.input(0), node.option("rank")
    batch, filters = node.dim(source, 0), node.dim(node.input(1), 0)
    if rank <= 0 or filters % rank:
        raise node.fail(f"has rank {rank} for {filters} filters")
    features = batch * filters * _INT
    if source.type is TensorType.INT8:
        return features, batch * (filters // rank) * _INT
    return (features,)


def lstm(node: Node, buffers: int) -> tuple[int, ...]:
    """`buffers` gate buffers of the cell state's type."""
    batch = node.dim(node.input(0), 1 if node.option("time_major") else 0)
    state = node.dim(node.input(18), 1)
    return (batch * state * node.input(19).type.size_bytes,) * buffers


def _axes(node: Node) -> tuple[int, ...]:
    return len(node.input(0).shape) * _INT, node.input(1).elements * _INT


def _mirror_pad(node: Node) -> tuple[int, ...]:
    return (len(node.input(0).shape) * _INT,) * 2


def _rfft(node: Node) -> tuple[int, ...]:
    _, length = node.flexbuffer(2)  # T, fft_length
    return (length * node.input(0).type.size_bytes,)


def _detection_postprocess(node: Node) -> tuple[int, ...]:
    boxes, scores = node.dim(node.input(0), 1), node.input(1)
    detections, classes = node.flexbuffer_named("max_detections", "num_classes")
    ranked = detections * boxes * _INT
    return (
        boxes,
        boxes * 4 * _INT,
        node.dim(scores, 1) * node.dim(scores, 2) * _INT,
        boxes * _INT,
        boxes * _INT,
        ranked,
        ranked,
        boxes * _INT,
        ranked,
        max(classes, detections) * boxes * _INT,
        min(boxes, detections) * boxes * _INT,
    )

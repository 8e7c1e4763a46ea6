# SPDX-License-Identifier: Apache-2.0
"""SVDF and UNIDIRECTIONAL_SEQUENCE_LSTM.

Sources: svdf_common.cc, lstm_eval_common.cc, unidirectional_sequence_lstm.cc and their like in cmsis_nn/
(tensorflow/lite/micro/kernels). Both read their input again until their end and allow nothing in place. From TFLM
fcc760af on CMSIS-NN's LSTM wants constant weights and biases, which every converter gives it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tflm_zephyr.kernels import cmsis_nn_sizes as arm
from tflm_zephyr.kernels.core import Core
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.kernels.quantisation import QUANTISED, dense_channels
from tflm_zephyr.kernels.spec import CmsisNn, Kernel, OperatorSpec, Specs, fixed, types
from tflm_zephyr.model import TensorType

_INT = 4  # sizeof(int32_t), sizeof(float)
_PLAIN_LSTM = "Use a plain keras LSTM: no peepholes, projection or layer normalisation, time-major or not"


# Memory


def _svdf_scratch(node: Node, core: Core) -> tuple[int, ...]:
    """Results of the feature weights, and for int8 of the time weights."""
    source, rank = node.input(0), node.option("rank")
    batch, filters = node.dim(source, 0), node.dim(node.input(1), 0)
    if rank <= 0 or filters % rank:
        raise node.fail(f"has rank {rank} for {filters} filters")
    features = batch * filters * _INT
    if source.type is TensorType.INT8:
        return features, batch * (filters // rank) * _INT
    return (features,)


def _arm_svdf_sums(node: Node, core: Core) -> tuple[int, ...]:
    if node.input(0).type is not TensorType.INT8:
        return ()
    return arm.asked(arm.fully_connected_s8(core, node.dim(node.input(1), 0)))


def _arm_svdf_refuses(node: Node, core: Core) -> str:
    """Prepare in cmsis_nn/svdf.cc wants one of two macros where CMSIS-NN asks for sums of the weights."""
    if core.optimise_for or not _arm_svdf_sums(node, core):
        return ""
    return (
        "refuses the model on a core with Helium, as Zephyr defines neither KERNELS_OPTIMIZED_FOR_SPEED nor "
        "KERNELS_OPTIMIZED_FOR_SIZE"
    )


def _arm_svdf_scratch(node: Node, core: Core) -> tuple[int, ...]:
    asked = _svdf_scratch(node, core)
    return (*asked, *_arm_svdf_sums(node, core)) if core.optimise_for == "size" else asked


def _arm_svdf_persistent(node: Node, core: Core) -> tuple[int, ...]:
    return (40, *_arm_svdf_sums(node, core)) if core.optimise_for == "speed" else (40,)


def _gate_buffers(node: Node, buffers: int) -> tuple[int, ...]:
    """`buffers` gate buffers of the cell state's type."""
    batch = node.dim(node.input(0), 1 if node.option("time_major") else 0)
    state = node.dim(node.input(18), 1)
    return (batch * state * node.input(19).type.size_bytes,) * buffers


def _lstm_scratch(node: Node, core: Core) -> tuple[int, ...]:
    return _gate_buffers(node, 4)


def _gate_channels(node: Node) -> tuple[int, ...]:
    """Multipliers and shifts of the eight weight tensors of an integer LSTM."""
    if node.input(19).type is not TensorType.INT16:
        return ()
    found: list[int] = []
    for gate in (2, 1, 3, 4):  # forget, input, cell, output
        found += dense_channels(node.input(0), node.input(gate))
        found += dense_channels(node.input(18), node.input(gate + 4))
    return tuple(found)


def _lstm_persistent(node: Node, core: Core) -> tuple[int, ...]:
    return (688, *_gate_channels(node))


def _is_integer_lstm(node: Node) -> bool:
    return node.input(0).type in QUANTISED and node.input(19).type is TensorType.INT16


def _arm_lstm_scratch(node: Node, core: Core) -> tuple[int, ...]:
    return _gate_buffers(node, 3 if _is_integer_lstm(node) else 4)


def _arm_lstm_persistent(node: Node, core: Core) -> tuple[int, ...]:
    sums: tuple[int, ...] = ()
    if _is_integer_lstm(node):
        bias = 4 if node.input(0).type is TensorType.INT8 else 8
        sums = (bias * node.dim(node.input(18), 1),) * 8
    return (912, *_gate_channels(node), *sums)


# Prepare's checks and work


def _check_lstm(node: Node) -> None:
    count = len(node.operator.inputs)
    if count != 24:
        raise node.fail(f"has {count} inputs, and TFLM takes 24", _PLAIN_LSTM)
    for places, name in ((range(9, 12), "peephole"), (range(16, 18), "projection"), (range(20, 24), "norm")):
        for place in places:
            tensor = node.optional_input(place)
            if tensor is not None:
                raise node.fail(f"has a {name} tensor, {tensor.label}, which TFLM refuses", _PLAIN_LSTM)
    for place in (*range(1, 9), *range(12, 16)):
        if node.optional_input(place) is None:
            raise node.fail(f"lacks its input {place}, which TFLM requires", _PLAIN_LSTM)
    for place in (18, 19):
        tensor = node.optional_input(place)
        if tensor is None or not tensor.is_variable:
            raise node.fail(f"needs a variable tensor as its input {place} (state)", _PLAIN_LSTM)


def _check_svdf(node: Node) -> None:
    if len(node.operator.inputs) != 5:
        raise node.fail(f"has {len(node.operator.inputs)} inputs, and TFLM takes 5", "Convert it again")
    state = node.optional_input(4)
    if state is None or not state.is_variable:
        raise node.fail("needs a variable tensor as its input 4 (activation state)", "Convert it again")


def _macs(node: Node) -> int:
    """Each constant is used once a step."""
    tensors = [node.subgraph.tensors[i] for i in node.operator.inputs if i >= 0]
    return math.prod(node.input(0).shape[:-1]) * sum(tensor.elements for tensor in tensors if tensor.is_constant)


OPERATORS: Mapping[str, Specs] = {
    "SVDF": (
        OperatorSpec(
            Kernel(_svdf_scratch, fixed(36)),
            # One Eval for both types of time weights.
            CmsisNn(
                Kernel(_arm_svdf_scratch, _arm_svdf_persistent),
                {"INT8": "i0 int8 i1 int8 o0 int8"},
                miscomputes=_arm_svdf_refuses,
            ),
            types(
                "i0 i1 i2 i4 o0 i3",
                "float32 float32 float32 float32 float32 float32",
                "int8 int8 int8 int8 int8 int32",
                "int8 int8 int16 int16 int8 int32",
            ),
            (_check_svdf,),
            _macs,
        ),
    ),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (
        OperatorSpec(
            Kernel(_lstm_scratch, _lstm_persistent),
            # The typed Evals assert int16 weights, which the other Eval refuses.
            CmsisNn(
                Kernel(_arm_lstm_scratch, _arm_lstm_persistent),
                {"INT8": "i0 int8 i2 int8 o0 int8", "INT16": "i0 int16 i2 int8 o0 int16"},
                typed_asserts_wrongly=True,
            ),
            types(
                "i0 i1 i2 i3 i4 i5 i6 i7 i8 i12 i13 i14 i15 i18 i19 o0",
                " ".join(["float32"] * 16),
                " ".join([*["int8"] * 9, *["int32"] * 4, "int8 int16 int8"]),
                " ".join(["int16", *["int8"] * 8, *["int64"] * 4, "int16 int16 int16"]),
            ),
            (_check_lstm,),
            _macs,
        ),
    ),
}

# SPDX-License-Identifier: Apache-2.0
"""SVDF and UNIDIRECTIONAL_SEQUENCE_LSTM in int8 with CMSIS-NN. TFLM has its own loops in no header.

Sources: cmsis_nn/svdf.cc, cmsis_nn/unidirectional_sequence_lstm.cc, lstm_eval_common.cc
(tensorflow/lite/micro/kernels); Source/SVDFunctions and Source/LSTMFunctions in CMSIS-NN e9328d61. CMSIS-NN's LSTM
starts each run with a state of zeros: its variables are not used.
"""

from __future__ import annotations

from collections.abc import Mapping

from tflm_zephyr.compiler.fixed_point import LIMITS, Multiplier, float32, logarithm, multiplier, rounded
from tflm_zephyr.compiler.ir.kernels import cmsis_kernel
from tflm_zephyr.compiler.ir.operands import AddressOf, Null
from tflm_zephyr.compiler.ir.structs import (
    ConstantAt,
    Enumerator,
    FieldValue,
    LocalStruct,
    Members,
    Scratch,
    limits,
    members,
)
from tflm_zephyr.compiler.layer_builder import LayerBuilder, scratch_parts
from tflm_zephyr.compiler.lowering import Lowering
from tflm_zephyr.compiler.operators.weights import arm_quantisation, arm_struct, row_sums, weight_sums
from tflm_zephyr.kernels import Node, scale_of, zero_point_of
from tflm_zephyr.model import Tensor, TensorType

_SVDF = "i0 int8 i1 int8 i3 int32 o0 int8"


def svdf_multipliers(node: Node) -> tuple[Multiplier, Multiplier]:
    """Multipliers of the state and of the output: PrepareSvdf(), in float32."""
    source, features, times, state = (scale_of(node.input(place)) for place in (0, 1, 2, 4))
    first = float32(float32(source * features) / state)
    return multiplier(first), multiplier(float32(float32(state * times) / scale_of(node.output())))


def svdf(b: LayerBuilder) -> None:
    """SVDF with a state and time weights of int8 or int16."""
    node = b.node
    features, times, state = node.input(1), node.input(2), node.input(4)
    if not b.cmsis_nn or not b.node.fits(_SVDF) or times.type is not state.type:
        raise b.refuse(f"has no direct code for {node.types}")
    if times.type not in (TensorType.INT8, TensorType.INT16) or not features.is_constant or not times.is_constant:
        raise b.refuse("has weights that are computed, or of another type")
    if times.type is TensorType.INT8 and zero_point_of(state):
        raise b.refuse("has a state with a zero point")
    batch, depth = node.input(0).shape
    filters, memory = times.shape
    rank = node.option("rank")
    if rank <= 0 or filters % rank:
        raise b.refuse(f"has rank {rank} for {filters} filters")
    units, given = filters // rank, b.source(0, "input")
    sums = () if times.type is TensorType.INT16 else (weight_sums(b, 1, -zero_point_of(node.input(0)), None),)
    parameters = arm_struct(
        b,
        "kParams",
        "cmsis_nn_svdf_params",
        rank=rank,
        input_offset=zero_point_of(node.input(0)),
        output_offset=zero_point_of(node.output()),
        input_activation=limits(LIMITS[TensorType.INT16]),
        output_activation=limits(LIMITS[TensorType.INT8]),
    )
    first, second = svdf_multipliers(node)
    scalings = arm_quantisation(b, first, "kInputQuantisation"), arm_quantisation(b, second, "kOutputQuantisation")
    contexts = _contexts(b, features=4 * batch * filters, totals=4 * batch * units)
    b.call(
        cmsis_kernel("arm_svdf_state_s16_s8" if times.type is TensorType.INT16 else "arm_svdf_s8"),
        *sums,
        *contexts,
        parameters,
        *scalings,
        b.dims(batch, depth, 1, 1),
        given,
        b.dims(batch, memory * filters, 1, 1),
        b.state(4, "state"),
        b.dims(filters, depth, 1, 1),
        b.source(1, "feature_weights"),
        b.dims(filters, memory, 1, 1),
        b.source(2, "time_weights"),
        b.dims(units, 1, 1, 1),
        b.source(3, "bias"),
        b.dims(batch, units, 1, 1),
        b.result(),
    )


def _contexts(b: LayerBuilder, **sizes: int) -> list[AddressOf]:
    """CMSIS-NN's contexts by name, each with a scratch buffer of its own."""
    buffers = scratch_parts(b, *sizes.values())
    return [
        AddressOf(b.local(LocalStruct(name, "cmsis_nn_context", (_field(buffer), size))))
        for (name, size), buffer in zip(sizes.items(), buffers, strict=True)
    ]


def _field(operand: Scratch | Null) -> FieldValue:
    return None if isinstance(operand, Null) else operand


_GATES = {"forget": 2, "input": 1, "cell": 3, "output": 4}
"""By gate, the place of its input weights; 4 on are the recurrent weights, 11 on the bias."""
_GATE_SCALE = 2.0**-12
_OUTPUT_SCALE = 2.0**-15
_TANH = 4  # ActivationFunctionType of the schema
_LSTM_TYPES = " ".join(
    [f"i{place} int8" for place in (0, *range(1, 9), 18)]
    + [f"i{place} int32" for place in range(12, 16)]
    + ["i19 int16 o0 int8"]
)


def gate_multiplier(source: Tensor, weights: Tensor) -> Multiplier:
    """CreateGateParams(): both scales multiplied in float32, divided in double by that of the gate."""
    return multiplier(float32(scale_of(source) * scale_of(weights)) / _GATE_SCALE)


def _gate(b: LayerBuilder, name: str, place: int) -> Members:
    """A cmsis_nn_lstm_gate."""
    node = b.node
    source, state, bias = node.input(0), node.input(18), node.input(place + 11)
    weights, recurrent = node.input(place), node.input(place + 4)
    for tensor in (weights, recurrent):
        if not tensor.is_constant or (tensor.quantization is not None and tensor.quantization.per_channel):
            raise b.refuse("has weights that are computed, or of several scales")
    first, second = gate_multiplier(source, weights), gate_multiplier(state, recurrent)
    sums, _ = row_sums(b, f"{name}_sums", place, -zero_point_of(source), bias)
    state_sums, _ = row_sums(b, f"{name}_state_sums", place + 4, -zero_point_of(state), None)
    tanh = name == "cell" and node.option("fused_activation_function") == _TANH
    return members(
        input_multiplier=first.value,
        input_shift=first.shift,
        input_weights=_constant(b, place, f"{name}_weights"),
        input_effective_bias=sums,
        hidden_multiplier=second.value,
        hidden_shift=second.shift,
        hidden_weights=_constant(b, place + 4, f"{name}_state_weights"),
        hidden_effective_bias=state_sums,
        bias=_constant(b, place + 11, f"{name}_bias"),
        activation_type=Enumerator("ARM_TANH" if tanh else "ARM_SIGMOID"),
    )


def _constant(b: LayerBuilder, place: int, name: str) -> ConstantAt:
    array = b.source(place, name)
    if not isinstance(array, ConstantAt):
        raise b.refuse("has weights or a bias that are computed")
    return array


def lstm(b: LayerBuilder) -> None:
    """UNIDIRECTIONAL_SEQUENCE_LSTM with int8 activations and weights and an int16 cell state."""
    node = b.node
    if not b.cmsis_nn or not b.node.fits(_LSTM_TYPES) or len(node.input(0).shape) != 3:
        raise b.refuse(f"has no direct code for {node.types}")
    source, state, cell = node.input(0), node.input(18), scale_of(node.input(19))
    major = bool(node.option("time_major"))
    first, second, depth = source.shape
    batch, steps = (second, first) if major else (first, second)
    units = state.shape[-1]
    given = b.source(0, "input")
    clip = node.operator.options.get("cell_clip", 0.0)
    clipped = min(max((float32(clip) if isinstance(clip, int | float) else 0.0) / cell, -32768.0), 32767.0)
    scalings = {
        "forget_to_cell": multiplier(_OUTPUT_SCALE * cell / cell),
        "input_to_cell": multiplier(_OUTPUT_SCALE * _OUTPUT_SCALE / cell),
        "output": multiplier(_OUTPUT_SCALE * _OUTPUT_SCALE / scale_of(state)),
    }
    inner = [(f"{name}_{part}", getattr(found, field)) for name, found in scalings.items()
             for part, field in (("multiplier", "value"), ("shift", "shift"))]  # fmt: skip
    fields: dict[str, FieldValue] = {
        "time_major": int(major),
        "batch_size": batch,
        "time_steps": steps,
        "input_size": depth,
        "hidden_size": units,
        "input_offset": -zero_point_of(source),
        **dict(inner[:4]),
        "cell_clip": int(clipped),
        "cell_scale_power": rounded(logarithm(cell)),
        **dict(inner[4:]),
        "output_offset": zero_point_of(state),
        **{f"{name}_gate": _gate(b, name, place) for name, place in _GATES.items()},
    }
    parameters = arm_struct(b, "kParams", "cmsis_nn_lstm_params", **fields)
    parts = tuple(map(_field, scratch_parts(b, *(2 * batch * units,) * 3)))
    buffers = AddressOf(b.local(LocalStruct("buffers", "cmsis_nn_lstm_context", parts, constant=False)))
    b.call(cmsis_kernel("arm_lstm_unidirectional_s8"), given, b.result(), parameters, buffers)


OPERATORS: Mapping[str, Lowering] = {
    "SVDF": Lowering(svdf),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": Lowering(lstm),
}

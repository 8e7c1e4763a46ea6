# SPDX-License-Identifier: Apache-2.0
"""SVDF in int8 with CMSIS-NN. TFLM has its own loops in no header, so that they run in a frame.

Sources: cmsis_nn/svdf.cc (tensorflow/lite/micro/kernels), Source/SVDFunctions in CMSIS-NN e9328d61.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tflm_zephyr.compiler.fixed_point import LIMITS, Multiplier, float32, multiplier
from tflm_zephyr.compiler.layer_builder import LayerBuilder
from tflm_zephyr.compiler.operators.dense import weight_sums
from tflm_zephyr.compiler.operators.texts import limits
from tflm_zephyr.kernels import Node, scale_of, zero_point_of
from tflm_zephyr.model import TensorType

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
    if not b.cmsis_nn or not b.fits(_SVDF) or times.type is not state.type:
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
    b.value(
        "kParams",
        "cmsis_nn_svdf_params",
        rank=rank,
        input_offset=zero_point_of(node.input(0)),
        output_offset=zero_point_of(node.output()),
        input_activation=limits(LIMITS[TensorType.INT16]),
        output_activation=limits(LIMITS[TensorType.INT8]),
    )
    for name, found in zip(("kInputQuantisation", "kOutputQuantisation"), svdf_multipliers(node), strict=True):
        b.value(name, "cmsis_nn_per_tensor_quant_params", multiplier=found.value, shift=found.shift)
    contexts = b.contexts(features=4 * batch * filters, totals=4 * batch * units)
    b.cmsis(
        "arm_svdf_state_s16_s8" if times.type is TensorType.INT16 else "arm_svdf_s8",
        *sums,
        *contexts,
        "&kParams",
        "&kInputQuantisation",
        "&kOutputQuantisation",
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


EMITTERS: Mapping[str, Callable[[LayerBuilder], None]] = {"SVDF": svdf}

# SPDX-License-Identifier: Apache-2.0
"""TFLM's custom operators outside signal/: detection, decompression, Ethos-U.

Sources: detection_postprocess.cc, decode.cc with decode_state*.cc, ethos_u/ethosu.cc (tensorflow/lite/micro/kernels).
TFLM_DECODE is there from TFLM fcc760af on. None was read for in-place distances.
"""

from __future__ import annotations

from collections.abc import Mapping

from tflm_zephyr.kernels.core import Core
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.kernels.revisions import SINCE_4_4
from tflm_zephyr.kernels.spec import Kernel, OperatorSpec, Specs, fixed, nothing, types

_INT = 4
# sizeof() of DecodeStateLut, DecodeStateHuffman and DecodeStatePrune by the type that the ancillary tensor begins with.
_DECODERS = {0: 36, 1: 28, 2: 40}
_PRUNE = 2


def _ethos_u_scratch(node: Node, core: Core) -> tuple[int, ...]:
    count = len(node.operator.inputs) + len(node.operator.outputs)
    return count * 8, count * core.pointer_bytes


def _detection_scratch(node: Node, core: Core) -> tuple[int, ...]:
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


def _decode_persistent(node: Node, core: Core) -> tuple[int, ...]:
    """Pointers to decoders, then each output's decoder and, if pruned per channel, its zero points."""
    found = [4 * len(node.operator.outputs)]
    for number in range(len(node.operator.outputs)):
        ancillary, output = node.input(2 * number + 1), node.output(number)
        kind = ancillary.data[0] if ancillary.data else -1
        if kind not in _DECODERS:
            raise node.fail(f"has a decoder of type {kind}, and TFLM has those of type 0 to 2")
        found.append(_DECODERS[kind])
        quantization = output.quantization
        if (
            kind == _PRUNE
            and quantization is not None
            and len(quantization.scales) > 1
            and any(quantization.zero_points)
        ):
            found.append(len(quantization.scales))  # int8
    return tuple(found)


def _check_ethos_u(node: Node) -> None:
    """TFLM's kernel (ethos_u/ethosu.cc) needs Arm's driver, which no generated app has."""
    raise node.fail(
        "is code of Vela for an Ethos-U NPU, which generated apps do not drive",
        "Use the .tflite from before Vela, or declare ethos-u in custom_operators, with a kernel around the driver",
    )


def _check_decode(node: Node) -> None:
    """decode.cc Prepare: pairs of constants, one for each output."""
    inputs, outputs = node.operator.inputs, node.operator.outputs
    if len(inputs) != 2 * len(outputs):
        raise node.fail(f"has {len(inputs)} inputs for {len(outputs)} outputs, and TFLM takes two for each")
    for place in range(len(inputs)):
        tensor = node.optional_input(place)
        if tensor is None or not tensor.is_constant:
            raise node.fail(f"needs a constant as its input {place}")


OPERATORS: Mapping[str, Specs] = {
    "TFLM_DECODE": (OperatorSpec(Kernel(nothing, _decode_persistent), checks=(_check_decode,), revisions=SINCE_4_4),),
    "TFLite_Detection_PostProcess": (
        OperatorSpec(Kernel(_detection_scratch, fixed(112)), types=types("i0 i1 i2", "float32 float32 float32")),
    ),
    "ethos-u": (OperatorSpec(Kernel(_ethos_u_scratch, fixed(12)), checks=(_check_ethos_u,)),),
}

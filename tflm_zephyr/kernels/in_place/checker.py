# SPDX-License-Identifier: Apache-2.0
"""The second statement of what may overlap, for the checker: which bytes of input are still read, and until when.

It shares no formula and no reading of shapes with overlap.py. There a distance is derived from the moments of
writing; here every element of the input has its last reader, found by going through the readers, and at a given
distance nothing may have been written there by then. (Kernels: tflite-micro 8d404de7, CMSIS-NN e9328d61; the files
are named in overlap_reference.py, overlap_moves.py and overlap_cmsis_nn.py.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tflm_zephyr.errors import ModelError
from tflm_zephyr.kernels.base import KernelLibrary
from tflm_zephyr.kernels.in_place import checker_moves as moves
from tflm_zephyr.kernels.in_place import checker_windows as windows
from tflm_zephyr.kernels.in_place.runs import COPY, Run, RunsOf
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.model import Model, Operator, Subgraph, TensorType

_ONE_BY_ONE = frozenset(
    "ABS ADD ADD_N CAST CEIL COS DEQUANTIZE DIV ELU EQUAL EXP EXPAND_DIMS FLOOR FLOOR_DIV FLOOR_MOD GREATER "
    "GREATER_EQUAL HARD_SWISH L2_NORMALIZATION LEAKY_RELU LESS LESS_EQUAL LOG LOGICAL_AND LOGICAL_NOT LOGICAL_OR "
    "LOGISTIC LOG_SOFTMAX MAXIMUM MINIMUM MUL NEG NOT_EQUAL PRELU QUANTIZE RELU RELU6 ROUND RSQRT SELECT_V2 SIN "
    "SOFTMAX SQRT SQUARE SQUARED_DIFFERENCE SUB TANH".split()
)
_MOVES: Mapping[str, RunsOf] = {
    "CONCATENATION": moves.concatenation,
    "PAD": moves.pad,
    "PADV2": moves.pad,
    "RESHAPE": moves.copy,
    "RESIZE_NEAREST_NEIGHBOR": moves.resize_nearest,
    "SLICE": moves.take_slice,
    "SPLIT": moves.split,
    "SPLIT_V": moves.split_v,
    "SQUEEZE": moves.copy,
    "TRANSPOSE": moves.transpose,
}


def why_unsafe(
    library: KernelLibrary,
    model: Model,
    subgraph: Subgraph,
    operator: Operator,
    source: int,
    result: int,
    distance: int,
) -> str | None:
    """Why tensor `result` may not begin `distance` bytes below tensor `source` (negative: above); None if it may.

    `source` is an input and `result` an output of `operator`, by index in the subgraph; both are taken to be dead
    before and after, respectively. Where they share no byte there is nothing to say against it.
    """
    given, taken = subgraph.tensors[source], subgraph.tensors[result]
    if distance >= taken.size_bytes or -distance >= given.size_bytes:
        return None
    if operator.outputs.count(result) != 1 or source not in operator.inputs:
        return f"{given.label} and {taken.label} are no input and output of {operator.label}"
    if given.is_constant or given.is_variable or taken.is_constant or taken.is_variable:
        return f"{given.label} or {taken.label} keeps its values"
    node, output = Node(model, subgraph, operator), operator.outputs.index(result)
    for place, tensor in enumerate(operator.inputs):
        if tensor == source:
            try:
                what = _why_not(library, node, place, output, distance)
            except (ModelError, IndexError, ValueError, ZeroDivisionError):
                what = "has shapes or options that do not fit each other"
            if what is not None:
                return f"{operator.label} {what} ({taken.label} {distance} bytes below {given.label})"
    return None


def _why_not(library: KernelLibrary, node: Node, place: int, output: int, distance: int) -> str | None:
    """What speaks against the distance at one place of the input."""
    given, taken = node.input(place), node.output(output)
    runs = _runs(library, node, place, output)
    if runs is None:
        return "reads and writes in an order that nobody has read"
    if runs is COPY:
        same = distance == 0 and given.size_bytes == taken.size_bytes
        return None if same else "copies its input as a whole"
    kinds = {given.type, taken.type}
    if len(kinds) > 1 and not kinds & {TensorType.INT8, TensorType.UINT8}:
        return f"may have its accesses to {given.type.value} and {taken.type.value} reordered by a compiler"
    for run in runs:
        byte = run.overwritten(distance, taken.size_bytes)
        if byte is not None:
            return f"writes over byte {byte} of its input before it has read it"
    return None


def _runs(library: KernelLibrary, node: Node, place: int, output: int) -> Iterable[Run] | None:
    """What is known of the reads of one input; None: nothing."""
    key = node.operator.key
    if not library.knows(key):
        return None
    arm = library.name == "cmsis_nn"
    if arm and key in _ARM and node.input(place).type is not TensorType.FLOAT32:
        return _ARM[key](library, node, place, output)
    if key in windows.REFERENCE:
        return windows.REFERENCE[key](node, place, output)
    if key in _MOVES:
        return _MOVES[key](node, place, output)
    if key == "TRANSPOSE_CONV":
        return _all_before(library, node, place)
    return _one_by_one(node, place) if key in _ONE_BY_ONE else None


def _one_by_one(node: Node, place: int) -> Iterable[Run] | None:
    """Element k is read when k elements are written; a broadcast input is read until the end."""
    given, taken = node.input(place), node.output()
    if given.elements != taken.elements:
        return None
    return (Run(0, given.elements, given.type.size_bytes, 0, taken.type.size_bytes),)


def _all_before(library: KernelLibrary, node: Node, place: int) -> Iterable[Run] | None:
    """TRANSPOSE_CONV, integer: all is read before the first byte is written."""
    given = node.input(place)
    if place != 2 or given.type not in (TensorType.INT8, TensorType.INT16):
        return None
    if library.name == "cmsis_nn" and library.core.transpose_conv:
        return None
    return (Run(0, given.elements, given.type.size_bytes, 0, 0),)


def _arm_extreme(library: KernelLibrary, node: Node, place: int, output: int) -> Iterable[Run] | None:
    """MAXIMUM, MINIMUM: CMSIS-NN takes int8 alone, broadcast included."""
    if node.input(place).type is TensorType.INT8 and node.input(0).shape != node.input(1).shape:
        return None
    return _one_by_one(node, place)


_Arm = Callable[[KernelLibrary, Node, int, int], "Iterable[Run] | None"]
_ARM: Mapping[str, _Arm] = {
    "AVERAGE_POOL_2D": lambda library, node, place, output: windows.REFERENCE["AVERAGE_POOL_2D"](node, place, output),
    "CONV_2D": lambda library, node, place, output: windows.arm_convolution(library.core, node, place),
    "DEPTHWISE_CONV_2D": lambda library, node, place, output: windows.arm_depthwise(library.core, node, place),
    "FULLY_CONNECTED": lambda library, node, place, output: None,
    "MAXIMUM": _arm_extreme,
    "MAX_POOL_2D": lambda library, node, place, output: windows.arm_max_pool(node, place),
    "MINIMUM": _arm_extreme,
}

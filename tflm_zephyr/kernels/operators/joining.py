# SPDX-License-Identifier: Apache-2.0
"""Operators that join, split and gather tensors.

Sources: concatenation.cc, split.cc, split_v.cc, pack.cc, unpack.cc, gather.cc, gather_nd.cc, embedding_lookup.cc
(tensorflow/lite/micro/kernels), reference/concatenation.h. PACK and UNPACK were not read for in-place distances; the
gathering operators read their input again until their end. From TFLM fcc760af on PACK and UNPACK take int16.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from tflm_zephyr.kernels.core import Core
from tflm_zephyr.kernels.in_place.geometry import affine_lead
from tflm_zephyr.kernels.in_place.last_readers import numbers
from tflm_zephyr.kernels.in_place.rules import InPlaceDistance, at_distance, constants
from tflm_zephyr.kernels.in_place.runs import Run
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.kernels.quantisation import check_same, check_zero_point
from tflm_zephyr.kernels.revisions import BEFORE_4_4, SINCE_4_4
from tflm_zephyr.kernels.spec import Kernel, OperatorSpec, Specs, dims_copy, fixed, nothing, output_dims, types
from tflm_zephyr.model import TensorType


def _embedding_persistent(node: Node, core: Core) -> tuple[int, ...]:
    return (dims_copy(node.output()), 8)


# In-place distances


def _concatenation_in_place(node: Node, core: Core) -> tuple[InPlaceDistance, ...]:
    """CONCATENATION: reference/concatenation.h.

    For each of the outer indices (a turn), one memcpy from every input. The two sides of a memcpy must not overlap,
    so its own bytes count as written. In turn k, for an input with n bytes per turn, p bytes of other inputs before it
    and t bytes of all inputs, k * t + p + n bytes are written and byte k * n is read.
    """
    result, inputs = node.output(), [node.input(place) for place in range(len(node.operator.inputs))]
    rank, axis = len(result.shape), node.option("axis")
    axis += rank if axis < 0 else 0
    if not 0 <= axis < rank or any(len(tensor.shape) != rank for tensor in inputs):
        return ()
    outer = math.prod(result.shape[:axis])
    turns = [math.prod(tensor.shape[axis:]) * tensor.type.size_bytes for tensor in inputs]
    total, before = sum(turns), 0
    found: list[InPlaceDistance] = []
    if outer * total != result.size_bytes:
        return ()
    for place, turn in enumerate(turns):
        before += turn
        found += at_distance(affine_lead([(outer, total, turn)], before), place)
    return tuple(found)


def _split_in_place(node: Node, core: Core) -> tuple[InPlaceDistance, ...]:
    """SPLIT: (axis, value)."""
    return _pieces(node, value=1, axis=0)


def _split_v_in_place(node: Node, core: Core) -> tuple[InPlaceDistance, ...]:
    """SPLIT_V: (value, sizes, axis)."""
    return _pieces(node, value=0, axis=2)


def _pieces(node: Node, *, value: int, axis: int) -> tuple[InPlaceDistance, ...]:
    """split.cc, split_v.cc SplitImpl.

    The input is read once from front to back; its pieces go to the outputs in turn. An output is never longer than
    the pieces of it that were read, so it may begin where its first piece does. (The outputs may not overlap each
    other, but each bounds only the rest of the input.)
    """
    source, axes = node.input(value), constants(node.optional_input(axis))
    rank = len(source.shape)
    dimension = axes[0] if axes is not None and len(axes) == 1 else rank
    dimension += rank if dimension < 0 else 0
    if not 0 <= dimension < rank:
        return ()
    outputs = [node.output(number) for number in range(len(node.operator.outputs))]
    if any(len(tensor.shape) != rank for tensor in outputs):
        return ()
    pieces = [math.prod(tensor.shape[dimension:]) * source.type.size_bytes for tensor in outputs]
    if sum(pieces) != math.prod(source.shape[dimension:]) * source.type.size_bytes:
        return ()
    return tuple(InPlaceDistance(value, number, -sum(pieces[:number])) for number in range(len(pieces)))


# Last reads, for the checker


def _concatenation_last_reads(node: Node, core: Core, place: int, output: int) -> Iterable[Run] | None:
    """Each turn copies a piece of every input; a piece is read until it is copied."""
    taken, inputs = node.output(), [node.input(i) for i in range(len(node.operator.inputs))]
    axis = node.option("axis") % len(taken.shape)
    size = taken.type.size_bytes
    pieces = [math.prod(tensor.shape[axis:]) * size for tensor in inputs]
    turn = sum(pieces)
    end = sum(pieces[: place + 1])
    turns, rest = divmod(taken.size_bytes, turn)
    if rest or turns * pieces[place] != inputs[place].size_bytes:
        return None
    return (Run(k * pieces[place], pieces[place], 1, k * turn + end, 0) for k in range(turns))


def _split_last_reads(node: Node, core: Core, place: int, output: int) -> Iterable[Run] | None:
    """SPLIT: (axis, value)."""
    return _growing_pieces(node, output, 1, numbers(node.input(0))[0]) if place == 1 else None


def _split_v_last_reads(node: Node, core: Core, place: int, output: int) -> Iterable[Run] | None:
    """SPLIT_V: (value, sizes, axis)."""
    return _growing_pieces(node, output, 0, numbers(node.input(2))[0]) if place == 0 else None


def _growing_pieces(node: Node, output: int, value: int, axis: int) -> Iterable[Run] | None:
    """The input is read from front to back; meanwhile the output grows only during its own piece of each turn."""
    given = node.input(value)
    outputs = [node.output(i) for i in range(len(node.operator.outputs))]
    axis %= len(given.shape)
    size = given.type.size_bytes
    pieces = [math.prod(tensor.shape[axis:]) * size for tensor in outputs]
    turn, before, own = sum(pieces), sum(pieces[:output]), pieces[output]
    if math.prod(given.shape[axis:]) * size != turn:
        return None

    def runs() -> Iterator[Run]:
        for k in range(given.size_bytes // turn):
            yield Run(k * turn, before, 1, k * own, 0)
            yield Run(k * turn + before, own // size, size, k * own, size)
            yield Run(k * turn + before + own, turn - before - own, 1, (k + 1) * own, 0)

    return runs()


def _check_concatenation(node: Node) -> None:
    output = node.optional_output(0)
    if output is None:
        return
    for place in range(len(node.operator.inputs)):
        tensor = node.optional_input(place)
        if tensor is None:
            continue
        if output.type is TensorType.INT8:
            check_same(node, tensor, output)
        elif output.type is TensorType.INT16:
            check_zero_point(node, tensor, 0)
    if output.type is TensorType.INT16:
        check_zero_point(node, output, 0)


_GATHER = OperatorSpec(Kernel(persistent=output_dims), types=types("i0 i1", "float32|int8 int32"), reads_positions=True)
_PACK = types("o0 i*", "float32|int8|int32|int64 =")
_UNPACK = types("i0 o*", "float32|int32|int8 =")

OPERATORS: Mapping[str, Specs] = {
    "CONCATENATION": (
        OperatorSpec(
            Kernel(nothing, fixed(24), _concatenation_in_place, _concatenation_last_reads),
            types=types("o0 i*", "float32|int8|int16|int32|int64|bool ="),
            checks=(_check_concatenation,),
        ),
    ),
    "EMBEDDING_LOOKUP": (
        OperatorSpec(
            Kernel(persistent=_embedding_persistent),
            types=types("i0 i1 o0", "int32 float32 float32", "int32 int8 float32|int8"),
            reads_positions=True,
        ),
    ),
    "GATHER": (_GATHER,),
    "GATHER_ND": (_GATHER,),
    "PACK": (
        OperatorSpec(types=_PACK, revisions=BEFORE_4_4),
        OperatorSpec(types=_PACK.also("int16 ="), revisions=SINCE_4_4),
    ),
    "SPLIT": (
        OperatorSpec(
            Kernel(nothing, nothing, _split_in_place, _split_last_reads),
            types=types("i1 i0 o*", "float32|int8|int16|int32 int32 ="),
        ),
    ),
    "SPLIT_V": (
        OperatorSpec(
            Kernel(nothing, nothing, _split_v_in_place, _split_v_last_reads),
            types=types("i0 i2 o*", "float32|int8|int16|int32 int32 ="),
        ),
    ),
    "UNPACK": (
        OperatorSpec(types=_UNPACK, revisions=BEFORE_4_4),
        OperatorSpec(types=_UNPACK.also("int16 ="), revisions=SINCE_4_4),
    ),
}

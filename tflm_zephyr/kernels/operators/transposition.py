# SPDX-License-Identifier: Apache-2.0
"""Operators that change the order of elements.

Sources: transpose.cc, transpose_common.cc, reverse.cc, depth_to_space.cc, space_to_depth.cc, space_to_batch_nd.cc,
batch_to_space_nd.cc and cmsis_nn/transpose.cc (tensorflow/lite/micro/kernels); CMSIS-NN e9328d61,
Source/TransposeFunctions/arm_transpose_s8.c. All but TRANSPOSE scatter and allow nothing in place. From TFLM
fcc760af on TRANSPOSE takes int16, requires a constant permutation, and has a CMSIS-NN kernel for int8; REVERSE_V2
exists.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from tflm_zephyr.kernels.core import Core
from tflm_zephyr.kernels.in_place.geometry import affine_lead
from tflm_zephyr.kernels.in_place.last_readers import numbers, place_of
from tflm_zephyr.kernels.in_place.rules import InPlaceDistance, at_distance, constants, steps
from tflm_zephyr.kernels.in_place.runs import COPY, Run
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.kernels.quantisation import check_constant
from tflm_zephyr.kernels.revisions import BEFORE_4_4, SINCE_4_4
from tflm_zephyr.kernels.spec import CmsisNn, Kernel, OperatorSpec, Specs, fixed, nothing, output_dims, types
from tflm_zephyr.model import TensorType

_MOST_DIMENSIONS = 6


# In-place distances


def _in_place(node: Node, core: Core) -> tuple[InPlaceDistance, ...]:
    """TRANSPOSE: reference/transpose.h TransposeImpl.

    Recursion over the output's dimensions in order, one element at a time, read at the permuted step.
    """
    source, result, order = node.input(0), node.output(), constants(node.optional_input(1))
    rank = len(source.shape)
    if order is None or rank > _MOST_DIMENSIONS or sorted(order) != list(range(rank)):
        return ()
    if result.shape != tuple(source.shape[i] for i in order):
        return ()
    element = source.type.size_bytes
    in_steps = steps(source.shape, element)
    loops = zip(result.shape, steps(result.shape, element), (in_steps[i] for i in order), strict=True)
    return at_distance(affine_lead(loops))


def _arm_in_place(node: Node, core: Core) -> tuple[InPlaceDistance, ...]:
    """TRANSPOSE, int8: arm_transpose_s8.

    One dimension is one memcpy. Otherwise arm_transpose_s8_default and, for two dimensions without Helium,
    arm_transpose_s8_nhcw go through the input in order and write each element where it belongs: element k goes to place
    p, and every input element behind k is still to be read, so that the distance is the greatest p - k. Output in order
    (the reference; with Helium arm_transpose_s8_nhcw, which reads up to eight elements before it writes them) has the
    same one: at place p element k is read, and every place behind p is still to be written.
    """
    source = node.input(0)
    if source.type is not TensorType.INT8:
        return _in_place(node, core)
    if _wrong_result(node, core):
        return ()
    if len(source.shape) == 1:
        return (InPlaceDistance(0, 0, None, in_place=True),) if source.shape == node.output().shape else ()
    return _in_place(node, core)


# Last reads, for the checker


def _last_reads(node: Node, core: Core, place: int, output: int) -> Iterable[Run] | None:
    """The output is written in order; each element of the input is read for the one place that it goes to."""
    given, taken, order = node.input(0), node.output(), numbers(node.input(1))
    if place != 0 or tuple(given.shape[i] for i in order) != taken.shape or len(set(order)) != len(given.shape):
        return None
    size, inverse = given.type.size_bytes, [order.index(i) for i in range(len(order))]

    def runs() -> Iterator[Run]:
        for number, index in enumerate(itertools.product(*map(range, given.shape))):
            moved = [0] * len(index)
            for dimension, i in enumerate(index):
                moved[inverse[dimension]] = i
            yield Run(number * size, 1, size, place_of(moved, taken.shape) * size, 0)

    return runs()


def _arm_last_reads(node: Node, core: Core, place: int, output: int) -> Iterable[Run] | None:
    """CMSIS-NN writes in the input's order: when element n is read, its predecessors stand where they go.

    Which bytes were written before n is the set of the places of elements 0 to n - 1; up to the farthest of them all
    count as written.
    """
    given, taken = node.input(place), node.output()
    if given.type is not TensorType.INT8:
        return _last_reads(node, core, place, output)
    order, rank = numbers(node.input(1)), len(given.shape)
    if place != 0 or rank > 4 or tuple(given.shape[i] for i in order) != taken.shape or len(set(order)) != rank:
        return None
    if rank == 1:
        return COPY
    if rank == 2 and order == [0, 1]:
        return None  # computed wrongly
    if core.mve and (rank == 2 or (rank == 4 and order[:2] == [0, 1])):
        return None if order == [0, 1, 2, 3] else _last_reads(node, core, place, output)

    def runs() -> Iterator[Run]:
        farthest = 0
        for number, index in enumerate(itertools.product(*map(range, given.shape))):
            yield Run(number, 1, 1, farthest, 0)
            farthest = max(farthest, place_of([index[i] for i in order], taken.shape) + 1)

    return runs()


# CMSIS-NN and Prepare's checks


def _wrong_result(node: Node, core: Core) -> str:
    """Permutations that cmsis_nn/transpose.cc and arm_transpose_s8 get wrong."""
    rank, order = len(node.input(0).shape), constants(node.optional_input(1))
    if rank > 4:
        return f"leaves the output of {rank} dimensions unwritten"
    if order == (0, 1) or (core.mve and order == (0, 1, 2, 3)):
        return "swaps the last two dimensions, which this one keeps"
    return ""


def _check_permutation(node: Node) -> None:
    check_constant(node, 1)


_TRANSPOSE = OperatorSpec(
    Kernel(nothing, nothing, _in_place, _last_reads), types=types("i0 o0 i1", "float32|int8 = int32")
)
_SPACE_AND_BATCH = types("i0 o0 i1 i2", "float32|int8 = int32 int32")
_SPACE_AND_DEPTH = OperatorSpec(Kernel(persistent=output_dims), types=types("o0 i0", "float32|int8 ="))

OPERATORS: Mapping[str, Specs] = {
    "BATCH_TO_SPACE_ND": (OperatorSpec(types=_SPACE_AND_BATCH),),
    "DEPTH_TO_SPACE": (_SPACE_AND_DEPTH,),
    "REVERSE_V2": (
        OperatorSpec(types=types("i0 i1 o0", "float32|int32|int16|int8|uint8|int64|bool int32 ="), revisions=SINCE_4_4),
    ),
    "SPACE_TO_BATCH_ND": (OperatorSpec(Kernel(persistent=fixed(4)), types=_SPACE_AND_BATCH),),
    "SPACE_TO_DEPTH": (_SPACE_AND_DEPTH,),
    "TRANSPOSE": (
        replace(_TRANSPOSE, revisions=BEFORE_4_4),
        replace(
            _TRANSPOSE,
            cmsis_nn=CmsisNn(
                Kernel(nothing, nothing, _arm_in_place, _arm_last_reads),
                {"INT8": "i0 int8 o0 int8"},
                miscomputes=_wrong_result,
            ),
            types=types("i0 o0 i1", "float32|int8|int16 = int32"),
            checks=(_check_permutation,),
            revisions=SINCE_4_4,
        ),
    ),
}

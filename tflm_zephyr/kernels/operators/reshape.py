# SPDX-License-Identifier: Apache-2.0
"""Operators that keep the elements and change the shape, make a shape, or fill one.

Sources: reshape.cc, squeeze.cc, expand_dims.cc, shape.cc, fill.cc, broadcast_to.cc, broadcast_args.cc
(tensorflow/lite/micro/kernels). From TFLM fcc760af on the axis, shape and dims inputs must be constants.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tflm_zephyr.kernels.core import Core
from tflm_zephyr.kernels.in_place.last_readers import one_by_one
from tflm_zephyr.kernels.in_place.rules import InPlaceDistance, elementwise_in_place
from tflm_zephyr.kernels.in_place.runs import COPY, Run
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.kernels.quantisation import check_constant
from tflm_zephyr.kernels.revisions import BEFORE_4_4, SINCE_4_4
from tflm_zephyr.kernels.spec import Kernel, OperatorSpec, Specs, nothing, types


def _copy_in_place(node: Node, core: Core) -> tuple[InPlaceDistance, ...]:
    """RESHAPE (reshape.cc: nothing is done where the pointers are equal) and SQUEEZE (squeeze.cc).

    Both are one memcpy, whose two sides must not overlap. SQUEEZE copies onto itself in place, which changes no
    byte in any memcpy that is in use.
    """
    same = node.input(0).type is node.output().type and node.input(0).elements == node.output().elements
    return (InPlaceDistance(0, 0, None, in_place=True),) if same else ()


def _copy_last_reads(node: Node, core: Core, place: int, output: int) -> Iterable[Run] | None:
    """One memcpy."""
    return COPY if place == 0 else None


def _check_axis(node: Node) -> None:
    check_constant(node, 1)


def _check_dims(node: Node) -> None:
    check_constant(node, 0)


def _since_4_4_constant(spec: OperatorSpec, place: int) -> Specs:
    """`spec`, with input `place` a constant from fcc760af on."""
    check = _check_dims if place == 0 else _check_axis
    return replace(spec, revisions=BEFORE_4_4), replace(spec, checks=(check,), revisions=SINCE_4_4)


_COPY = Kernel(nothing, nothing, _copy_in_place, _copy_last_reads)
_ANY = types("i0 o0", "* =")

OPERATORS: Mapping[str, Specs] = {
    "BROADCAST_ARGS": (OperatorSpec(types=types("i0 i1 o0", "int32|int64 = =")),),
    "BROADCAST_TO": _since_4_4_constant(OperatorSpec(types=types("i0 o0 i1", "* = int32|int64")), 1),
    "EXPAND_DIMS": _since_4_4_constant(
        OperatorSpec(
            Kernel(nothing, nothing, elementwise_in_place, one_by_one),
            types=types("i0 i1", "float32|int16|int8 int32"),
        ),
        1,
    ),
    "FILL": _since_4_4_constant(
        OperatorSpec(types=types("i1 o0 i0", "float32|int32|int8 = int8|int16|int32|int64")), 0
    ),
    "RESHAPE": (OperatorSpec(_COPY, types=_ANY),),
    "SHAPE": (OperatorSpec(types=types("o0", "int32")),),
    "SQUEEZE": (OperatorSpec(_COPY, types=_ANY),),
}

# SPDX-License-Identifier: Apache-2.0
"""Operators that reduce or accumulate along axes.

Sources: reduce_common.cc, arg_min_max.cc, cumsum.cc (tensorflow/lite/micro/kernels). They set or reread their output,
or go back in their input: none works in place. Up to 8d404de7 EvalMeanHelper and EvalSumHelper have arrays for two axes
and five dimensions on the stack and write past them; fcc760af has scratch buffers for both, REDUCE_MIN and REDUCE_ALL.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace

from tflm_zephyr.kernels.core import Core
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.kernels.quantisation import QUANTISED, check_same
from tflm_zephyr.kernels.revisions import BEFORE_4_4, SINCE_4_4
from tflm_zephyr.kernels.spec import Kernel, OperatorSpec, Sizes, Specs, fixed, types
from tflm_zephyr.model import TensorType

_INT = 4  # sizeof(int) and sizeof(int32_t) on every target


def _axes(node: Node, core: Core) -> tuple[int, ...]:
    """An index into the input, and the axes resolved."""
    return len(node.input(0).shape) * _INT, node.input(1).elements * _INT


def _sums(node: Node, core: Core) -> tuple[int, ...]:
    """A total for each element of the output."""
    return (node.output().elements * _INT,) if node.input(0).type in QUANTISED else ()


def _sums_and_axes(node: Node, core: Core) -> tuple[int, ...]:
    return (*_sums(node, core), *_axes(node, core))


def _cumsum_persistent(node: Node, core: Core) -> tuple[int, ...]:
    return (36,) if node.output().type is TensorType.INT8 else ()


def _check_extreme(node: Node) -> None:
    source, output = node.optional_input(0), node.optional_output(0)
    if source is not None and output is not None and source.type is TensorType.INT8:
        check_same(node, source, output)


def _check_axes(node: Node) -> None:
    """Room for two axes of five dimensions."""
    source, axis = node.optional_input(0), node.optional_input(1)
    if source is None or axis is None or axis.data is None or not source.shape:
        return
    rank = len(source.shape)
    values = struct.unpack(f"<{axis.elements}i", axis.data[: 4 * axis.elements])
    axes = {value % rank for value in values}
    if len(axes) > 2 or rank > 5:
        raise node.fail(
            f"reduces {len(axes)} of the {rank} dimensions of {source.label}, and TFLM's kernel has room for 2 of 5",
            "Reshape first so that the dimensions to be reduced are one, or reduce in steps",
        )


def _extreme(struct_bytes: int) -> OperatorSpec:
    rule = types("i0 i1 o0", "float32|int8 int32 =")
    return OperatorSpec(Kernel(_axes, fixed(struct_bytes)), types=rule, checks=(_check_extreme,))


def _mean(scratch: Sizes, struct_bytes: int) -> OperatorSpec:
    rule = types("i0 i1 o0", "float32|int8|int16 int32 =")
    return OperatorSpec(Kernel(scratch, fixed(struct_bytes)), types=rule, looks_twice=True)


_ARGUMENT = OperatorSpec(types=types("i0 i1 o0", "float32|int8 int32 int32"))
_MEAN = (
    replace(_mean(_sums, 40), checks=(_check_axes,), revisions=BEFORE_4_4),
    replace(_mean(_sums_and_axes, 44), revisions=SINCE_4_4),
)

OPERATORS: Mapping[str, Specs] = {
    "ARG_MAX": (_ARGUMENT,),
    "ARG_MIN": (_ARGUMENT,),
    "CUMSUM": (OperatorSpec(Kernel(persistent=_cumsum_persistent), types=types("i0 i1 o0", "float32|int8 int32 =")),),
    "MEAN": _MEAN,
    "REDUCE_ALL": (
        OperatorSpec(Kernel(_axes, fixed(44)), types=types("i0 i1 o0", "bool int32 ="), revisions=SINCE_4_4),
    ),
    "REDUCE_MAX": (
        replace(_extreme(40), revisions=BEFORE_4_4, looks_twice=True),
        replace(_extreme(44), revisions=SINCE_4_4, looks_twice=True),
    ),
    "REDUCE_MIN": (replace(_extreme(44), revisions=SINCE_4_4),),
    "SUM": _MEAN,
}

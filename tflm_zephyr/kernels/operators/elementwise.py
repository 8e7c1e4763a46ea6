# SPDX-License-Identifier: Apache-2.0
"""Operators that compute each element of the output from the elements at its place: arithmetic, comparison, conversion.

Sources: the .cc files of their names and elementwise.cc, comparisons.cc, logical.cc, maximum_minimum.cc
(tensorflow/lite/micro/kernels) with kernels/internal/reference/; CMSIS-NN e9328d61, Source/BasicMathFunctions. All go
from front to back and read an element before they write it (rules.elementwise_in_place). CMSIS-NN's
arm_elementwise_add_s8.c, _mul_s8.c and _s16.c read one, two or four elements, then write them; broadcast goes to the
reference code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tflm_zephyr.kernels.core import Core
from tflm_zephyr.kernels.in_place.last_readers import one_by_one
from tflm_zephyr.kernels.in_place.rules import InPlaceDistance, elementwise_in_place
from tflm_zephyr.kernels.in_place.runs import Run
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.kernels.quantisation import check_int16_zero_points, check_same, quantised
from tflm_zephyr.kernels.revisions import BEFORE_4_4, PACKAGE, SINCE_4_4
from tflm_zephyr.kernels.spec import Check, CmsisNn, Kernel, OperatorSpec, Sizes, Specs, TypeRule, nothing, types
from tflm_zephyr.model import TensorType

_PAIR = {"INT8": "i0 int8 i1 int8 o0 int8", "INT16": "i0 int16 i1 int16 o0 int16"}
_INT8_PAIR = {"INT8": _PAIR["INT8"]}


def _kernel(persistent: int = 0, scratch: Sizes = nothing) -> Kernel:
    """A reference kernel with a struct of `persistent` bytes, 0 for none."""
    return Kernel(scratch, _struct(persistent), elementwise_in_place, one_by_one)


def _struct(size: int) -> Sizes:
    return (lambda node, core: (size,)) if size else nothing


def _spec(persistent: int, rule: TypeRule, *checks: Check) -> OperatorSpec:
    return OperatorSpec(_kernel(persistent), types=rule, checks=checks)


def _changed(old: OperatorSpec, new: OperatorSpec) -> Specs:
    """`old` up to 8d404de7, `new` from fcc760af on."""
    return replace(old, revisions=BEFORE_4_4), replace(new, revisions=SINCE_4_4)


def _in_package(old: OperatorSpec, *rows: str) -> Specs:
    """`old`, with more types taken by the package, found by running it."""
    rule = old.types
    assert rule is not None
    package = frozenset({PACKAGE})
    return replace(old, revisions=old.revisions - package), replace(old, types=rule.also(*rows), revisions=package)


# Memory


def _add_n_scratch(node: Node, core: Core) -> tuple[int, ...]:
    """Pointers to the inputs."""
    kinds = (TensorType.FLOAT32, TensorType.INT8)
    return (core.pointer_bytes * len(node.operator.inputs),) if node.output().type in kinds else ()


def _add_n_persistent(node: Node, core: Core) -> tuple[int, ...]:
    return (40,) if node.output().type is TensorType.INT8 else ()


# CMSIS-NN


def _broadcasts(node: Node) -> str:
    """ADD and MUL call the reference code for shapes that broadcast, within their typed Evals too."""
    if len({_plain(node.input(place).shape) for place in (0, 1)}) > 1:
        return "inputs of different shapes, which its CMSIS-NN kernel leaves to reference code"
    return ""


def _plain(shape: tuple[int, ...]) -> tuple[int, ...]:
    """`shape` without the leading ones that it may have been given (ProcessBroadcastShapes)."""
    ones = next((place for place, size in enumerate(shape) if size != 1), len(shape))
    return shape[ones:]


def _arm_extreme_in_place(node: Node, core: Core) -> tuple[InPlaceDistance, ...]:
    """MAXIMUM, MINIMUM, int8: arm_maximum_s8.c, arm_minimum_s8.c.

    Without broadcast one element (Helium: 16) at a time is read, then written; with broadcast: nothing.
    """
    if node.output().type is TensorType.INT8 and node.input(0).shape != node.input(1).shape:
        return ()
    return elementwise_in_place(node, core)


def _arm_extreme_last_reads(node: Node, core: Core, place: int, output: int) -> Iterable[Run] | None:
    """CMSIS-NN takes int8 alone, broadcast included."""
    if node.input(place).type is TensorType.INT8 and node.input(0).shape != node.input(1).shape:
        return None
    return one_by_one(node, core, place, output)


# Prepare's checks


def _check_quantize(node: Node) -> None:
    output = node.optional_output(0)
    if output is not None and len(quantised(node, output).scales) != 1:
        raise node.fail(
            f"needs one scale on {output.label}, which is quantised per channel",
            "Convert the model again with a representative_dataset",
        )


def _check_add_n(node: Node) -> None:
    first = node.optional_input(0)
    if first is None or first.type is not TensorType.INT8:
        return
    for place in range(1, len(node.operator.inputs)):
        tensor = node.optional_input(place)
        if tensor is not None:
            check_same(node, first, tensor)


def _check_sub_int32(node: Node) -> None:
    """SubPrepare: int32 must not be quantised."""
    output = node.optional_output(0)
    if output is None or output.type is not TensorType.INT32:
        return
    for tensor in (node.optional_input(0), node.optional_input(1), output):
        if tensor is not None and tensor.quantization is not None:
            raise node.fail(f"takes no quantised int32, and {tensor.label} has a scale", "Keep int32 unquantised")


_FLOAT = _spec(0, types("i0 o0", "float32 float32"))
_SAME_FLOAT = _spec(0, types("i0 o0", "float32 ="))
_DIVISION = _spec(0, types("i0 i1 o0", "float32 = ="))
_ORDER = types("i0 i1", "float32|int32|int64|int8 =")
_EQUALITY = types("i0 i1", "bool|float32|int32|int64|int8 =")
_EXTREME = OperatorSpec(
    _kernel(),
    CmsisNn(Kernel(nothing, nothing, _arm_extreme_in_place, _arm_extreme_last_reads), _INT8_PAIR),
    types("o0 i0 i1", "float32|int8|int16|int32|int64 = ="),
)
_SUB = _spec(52, types("o0 i0 i1", "float32|int8|int16 = ="))

OPERATORS: Mapping[str, Specs] = {
    "ABS": (_spec(28, types("i0 o0", "float32|int8|int16 =")),),
    "ADD": (
        OperatorSpec(
            _kernel(60),
            CmsisNn(_kernel(60), _PAIR, _broadcasts),
            types("o0 i0 i1", "float32|int32|int8|int16 = ="),
        ),
    ),
    "ADD_N": (
        OperatorSpec(
            Kernel(_add_n_scratch, _add_n_persistent, elementwise_in_place, one_by_one),
            types=types("o0 i*", "float32|int8 ="),
            checks=(_check_add_n,),
        ),
    ),
    # Up to fcc760af a cast to bool does nothing, or fails in Eval.
    "CAST": _in_package(
        _spec(0, types("i0 o0", "int8|int16|int32|uint32|float32|bool int8|int16|int32|uint32|float32")),
        "int8|int16|int32|uint32|float32|bool bool",
    ),
    "CEIL": (_FLOAT,),
    "COS": (_FLOAT,),
    "DEQUANTIZE": (_spec(32, types("i0 o0", "int8|int16|uint8 float32")),),
    "DIV": (_spec(28, types("o0 i0 i1", "float32|int32|int8 = =")),),
    "EQUAL": (_spec(32, _EQUALITY),),
    "EXP": (_FLOAT,),
    "FLOOR": (_SAME_FLOAT,),
    "FLOOR_DIV": (_DIVISION,),
    "FLOOR_MOD": (_DIVISION,),
    "GREATER": _changed(_spec(32, _ORDER), _spec(32, _ORDER.also("int16 ="))),
    "GREATER_EQUAL": (_spec(32, _ORDER),),
    "LESS": (_spec(32, _ORDER),),
    "LESS_EQUAL": (_spec(32, _ORDER),),
    "LOG": (_FLOAT,),
    "LOGICAL_AND": (_spec(0, types("i0 i1 o0", "bool = =")),),
    "LOGICAL_NOT": (_spec(0, types("i0 o0", "bool =")),),
    "LOGICAL_OR": (_spec(0, types("i0 i1 o0", "bool = =")),),
    "MAXIMUM": (_EXTREME,),
    "MINIMUM": (_EXTREME,),
    "MUL": (
        OperatorSpec(
            _kernel(36),
            CmsisNn(_kernel(36), _PAIR, _broadcasts),
            types("i0 i1 o0", "float32|int8|int16|int32 = ="),
            (check_int16_zero_points,),
        ),
    ),
    "NEG": (_SAME_FLOAT,),
    "NOT_EQUAL": (_spec(32, _EQUALITY),),
    "QUANTIZE": (
        _spec(
            32,
            types(
                "i0 o0",
                "float32 int8|int16",
                "int32 int8|int16",
                "int16 int8|int16|int32",
                "int8 int8|uint8|int16|int32",
                "uint8 int8",
            ),
            _check_quantize,
        ),
    ),
    "ROUND": (_FLOAT,),
    "RSQRT": _in_package(_spec(28, types("i0 o0", "float32|int8 =")), "int16 ="),
    "SELECT_V2": (_spec(1, types("i1 i2 i0", "float32|int8|int16 = bool")),),
    "SIN": (_FLOAT,),
    "SQRT": (_FLOAT,),
    "SQUARE": (_FLOAT,),
    "SQUARED_DIFFERENCE": (_spec(112, types("i0 i1 o0", "float32|int32|int8|int16 = ="), check_int16_zero_points),),
    "SUB": _changed(_SUB, _spec(52, types("o0 i0 i1", "float32|int8|int16|int32 = ="), _check_sub_int32)),
    "ZEROS_LIKE": (OperatorSpec(types=types("i0", "int64|int32|int8|float32")),),
}

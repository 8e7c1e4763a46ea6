# SPDX-License-Identifier: Apache-2.0
"""MEAN, SUM, REDUCE_MAX, REDUCE_MIN, ARG_MAX and ARG_MIN.

Sources: reduce_common.cc, arg_min_max.cc (tensorflow/lite/micro/kernels), reference/reduce.h. TFLM's kernels resolve
their axes and count indices at run time, in scratch buffers; here the axes are known, and an output is done at a time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tflm_zephyr.compiler.fixed_point import Multiplier, multiplier
from tflm_zephyr.compiler.layer_builder import LayerBuilder
from tflm_zephyr.compiler.program import Layer
from tflm_zephyr.compiler.row_forms import NotByRowsError, RowRule, gathered
from tflm_zephyr.compiler.row_program import RowForm
from tflm_zephyr.kernels import Node, scale_of, zero_point_of
from tflm_zephyr.model import TensorType

_QUANTISED = (TensorType.INT8, TensorType.INT16)


@dataclass(frozen=True)
class Middle:
    """A tensor as three dimensions, the middle one of which is reduced."""

    outer: int
    middle: int
    inner: int

    @property
    def texts(self) -> tuple[str, ...]:
        """Arguments of the generated code's Reduce()."""
        return str(self.outer), str(self.middle), str(self.inner)


def middle_of(shape: tuple[int, ...], axes: set[int]) -> Middle | None:
    """The three dimensions where the reduced ones are neighbours; None where others lie between them."""
    kept = [(size, place in axes) for place, size in enumerate(shape) if size != 1]
    runs = [(reduced, math.prod(n for n, _ in group)) for reduced, group in itertools.groupby(kept, lambda one: one[1])]
    outer = runs.pop(0)[1] if runs and not runs[0][0] else 1
    middle = runs.pop(0)[1] if runs else 1
    inner = runs.pop(0)[1] if runs else 1
    return None if runs else Middle(outer, middle, inner)


def mean_multiplier(total: Multiplier, elements: int) -> Multiplier:
    """QuantizedMeanOrSum(): the multiplier divided by the number of elements, with as many bits as fit."""
    shift = min(elements.bit_length() - 1, 32, 31 + total.shift)
    return Multiplier((total.value << shift) // elements, total.shift - shift)


def _reduced(b: LayerBuilder) -> Middle:
    node = b.node
    source, output = node.input(0), node.output()
    if source.type is not output.type or not source.elements:
        raise b.refuse(f"has no direct code for {node.types}")
    axes = {b.axis(axis, len(source.shape)) for axis in b.integers(1)}
    found = middle_of(source.shape, axes)
    if found is None:
        raise b.refuse("reduces dimensions that others lie between")
    if found.outer * found.inner != output.elements:
        raise b.refuse("has shapes that do not fit each other")
    return found


def rescaled(node: Node, found: Middle, *, mean: bool) -> tuple[Multiplier, int]:
    """The multiplier of a sum, and what is added to the sum before it."""
    source, output = node.input(0), node.output()
    total = multiplier(scale_of(source) / scale_of(output))
    offset = -zero_point_of(source) * found.middle
    return (mean_multiplier(total, found.middle) if mean else total), offset


def _total(b: LayerBuilder, *, mean: bool) -> None:
    node, found = b.node, _reduced(b)
    kind = node.input(0).type
    given = b.source(0, "input")
    if kind is TensorType.FLOAT32:
        last = f"sum / {found.middle}.0f" if mean else "sum"
        step = "[](float sum, float value) { return value + sum; }"
        b.helper("Reduce", given, b.result(), *found.texts, "0.0f", step, f"[](float sum) {{ return {last}; }}")
        return
    if kind not in _QUANTISED:
        raise b.refuse(f"has no direct code for {node.types}")
    scaling, offset = rescaled(node, found, mean=mean)
    parameters = b.value(
        "kRescaling",
        "Rescaling",
        input_offset=offset,
        multiplier=scaling.value,
        shift=scaling.shift,
        output_offset=zero_point_of(node.output()),
    )
    headers = "<algorithm>", "<limits>", "tensorflow/lite/kernels/internal/common.h"
    b.helper("SumRescaled", given, b.result(), *found.texts, parameters, headers=headers)


def mean(b: LayerBuilder) -> None:
    """MEAN in int8, int16 and float."""
    _total(b, mean=True)


def sum_(b: LayerBuilder) -> None:
    """SUM in int8, int16 and float."""
    _total(b, mean=False)


def _extreme(b: LayerBuilder, first: str, sign: str) -> None:
    found, kind = _reduced(b), b.node.input(0).type
    if kind not in (TensorType.FLOAT32, TensorType.INT8):
        raise b.refuse(f"has no direct code for {b.node.types}")
    name = kind.c_type
    step = f"[]({name} found, {name} value) {{ return value {sign} found ? value : found; }}"
    start = f"std::numeric_limits<{name}>::{first}()"
    last = f"[]({name} found) {{ return found; }}"
    b.helper("Reduce", b.source(0, "input"), b.result(), *found.texts, start, step, last, headers=("<limits>",))


def reduce_max(b: LayerBuilder) -> None:
    """REDUCE_MAX in int8 and float."""
    _extreme(b, "lowest", ">")


def reduce_min(b: LayerBuilder) -> None:
    """REDUCE_MIN in int8 and float."""
    _extreme(b, "max", "<")


def _argument(b: LayerBuilder, order: str) -> None:
    node = b.node
    source, output = node.input(0), node.output()
    axes = b.integers(1)
    if source.type not in (TensorType.FLOAT32, TensorType.INT8) or output.type is not TensorType.INT32:
        raise b.refuse(f"has no direct code for {node.types}")
    if node.input(1).type is not TensorType.INT32 or len(axes) != 1:
        raise b.refuse("has axes that TFLM does not take")
    axis = b.axis(axes[0], len(source.shape))
    if source.shape[:axis] + source.shape[axis + 1 :] != output.shape:
        raise b.refuse("has shapes that do not fit each other")
    b.reference(
        "reference/arg_min_max.h",
        "tflite::reference_ops::ArgMinMax",
        b.shape(source.shape),
        b.source(0, "input"),
        b.source(1, "axis"),
        b.shape(output.shape),
        b.result(),
        f"std::{order}<{source.type.c_type}>()",
    )


def arg_max(b: LayerBuilder) -> None:
    """ARG_MAX of int8 and float."""
    _argument(b, "greater")


def arg_min(b: LayerBuilder) -> None:
    """ARG_MIN of int8 and float."""
    _argument(b, "less")


def total_rows(b: LayerBuilder, layer: Layer) -> RowForm:
    """MEAN and SUM of all pixels by rows."""
    source, output = b.node.input(0), b.node.output()
    if len(source.shape) != 4 or output.elements != source.shape[3]:
        raise NotByRowsError("keeps some of its input's pixels")
    found = _reduced(b)
    if found.inner != source.shape[3]:
        raise NotByRowsError("reduces channels")
    if source.type is TensorType.FLOAT32:
        divisor = found.middle if b.node.operator.key == "MEAN" else 1
        return gathered(b, f"DivideSums(sums, {source.shape[3]}, {divisor}.0f, output);")
    return gathered(b, f"RescaleSums(sums, {source.shape[3]}, kRescaling, output);")


ROWS: Mapping[str, RowRule] = {"MEAN": total_rows, "SUM": total_rows}
EMITTERS: Mapping[str, Callable[[LayerBuilder], None]] = {
    "ARG_MAX": arg_max,
    "ARG_MIN": arg_min,
    "MEAN": mean,
    "REDUCE_MAX": reduce_max,
    "REDUCE_MIN": reduce_min,
    "SUM": sum_,
}

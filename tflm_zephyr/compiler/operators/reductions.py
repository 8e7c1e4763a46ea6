# SPDX-License-Identifier: Apache-2.0
"""MEAN, SUM, REDUCE_MAX, REDUCE_MIN, ARG_MAX and ARG_MIN.

Sources: reduce_common.cc, arg_min_max.cc (tensorflow/lite/micro/kernels), reference/reduce.h. TFLM's kernels resolve
their axes and count indices at run time, in scratch buffers; here the axes are known, and an output is done at a time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from tflm_zephyr.compiler.fixed_point import Multiplier, multiplier
from tflm_zephyr.compiler.ir.calls import KernelCall
from tflm_zephyr.compiler.ir.kernels import helper_kernel, reference_kernel
from tflm_zephyr.compiler.ir.layers import KernelLayer
from tflm_zephyr.compiler.ir.operands import AddFloat, DivideFloat, Limit, Order, PickNext, Unchanged
from tflm_zephyr.compiler.ir.row_operands import Sums
from tflm_zephyr.compiler.ir.rows import RowForm
from tflm_zephyr.compiler.ir.structs import Struct, struct
from tflm_zephyr.compiler.layer_builder import LayerBuilder, axis_of, integers
from tflm_zephyr.compiler.lowering import Lowering
from tflm_zephyr.compiler.row_forms import NotByRowsError, gathered, output_of
from tflm_zephyr.kernels import Node, scale_of, zero_point_of
from tflm_zephyr.model import TensorType

REDUCE = helper_kernel("Reduce")
REDUCE_EXTREME = helper_kernel("Reduce", "<limits>")
SUM_RESCALED = helper_kernel("SumRescaled", "<algorithm>", "<limits>", "tensorflow/lite/kernels/internal/common.h")
DIVIDE_SUMS = helper_kernel("DivideSums")
RESCALE_SUMS = helper_kernel("RescaleSums")
_QUANTISED = (TensorType.INT8, TensorType.INT16)


@dataclass(frozen=True)
class Middle:
    """A tensor as three dimensions, the middle one of which is reduced."""

    outer: int
    middle: int
    inner: int

    @property
    def sizes(self) -> tuple[int, int, int]:
        """All three, outermost first."""
        return self.outer, self.middle, self.inner


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
    axes = {axis_of(b, axis, len(source.shape)) for axis in integers(b, 1)}
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
        last = DivideFloat(float(found.middle) if mean else None)
        b.call(REDUCE, given, b.result(), *found.sizes, 0.0, AddFloat(), last, copies=True)
        return
    if kind not in _QUANTISED:
        raise b.refuse(f"has no direct code for {node.types}")
    scaling, offset = rescaled(node, found, mean=mean)
    zero = zero_point_of(node.output())
    parameters = b.parameter(
        struct(
            "kRescaling",
            "Rescaling",
            {"input_offset": offset, "multiplier": scaling.value, "shift": scaling.shift, "output_offset": zero},
        )
    )
    b.call(SUM_RESCALED, given, b.result(), *found.sizes, parameters, copies=True)


def mean(b: LayerBuilder) -> None:
    """MEAN in int8, int16 and float."""
    _total(b, mean=True)


def sum_(b: LayerBuilder) -> None:
    """SUM in int8, int16 and float."""
    _total(b, mean=False)


def _extreme(b: LayerBuilder, *, larger: bool) -> None:
    reduced, kind = _reduced(b), b.node.input(0).type
    if kind not in (TensorType.FLOAT32, TensorType.INT8):
        raise b.refuse(f"has no direct code for {b.node.types}")
    functions = Limit(kind, largest=not larger), PickNext(kind, larger), Unchanged(kind)
    b.call(REDUCE_EXTREME, b.source(0, "input"), b.result(), *reduced.sizes, *functions, copies=True)


def reduce_max(b: LayerBuilder) -> None:
    """REDUCE_MAX in int8 and float."""
    _extreme(b, larger=True)


def reduce_min(b: LayerBuilder) -> None:
    """REDUCE_MIN in int8 and float."""
    _extreme(b, larger=False)


def _argument(b: LayerBuilder, *, greater: bool) -> None:
    node = b.node
    source, output = node.input(0), node.output()
    axes = integers(b, 1)
    if source.type not in (TensorType.FLOAT32, TensorType.INT8) or output.type is not TensorType.INT32:
        raise b.refuse(f"has no direct code for {node.types}")
    if node.input(1).type is not TensorType.INT32 or len(axes) != 1:
        raise b.refuse("has axes that TFLM does not take")
    axis = axis_of(b, axes[0], len(source.shape))
    if source.shape[:axis] + source.shape[axis + 1 :] != output.shape:
        raise b.refuse("has shapes that do not fit each other")
    b.call(
        reference_kernel("arg_min_max.h", "ArgMinMax"),
        b.shape(source.shape),
        b.source(0, "input"),
        b.source(1, "axis"),
        b.shape(output.shape),
        b.result(),
        Order(source.type, greater),
    )


def arg_max(b: LayerBuilder) -> None:
    """ARG_MAX of int8 and float."""
    _argument(b, greater=True)


def arg_min(b: LayerBuilder) -> None:
    """ARG_MIN of int8 and float."""
    _argument(b, greater=False)


def total_rows(b: LayerBuilder, layer: KernelLayer) -> RowForm:
    """MEAN and SUM of all pixels by rows."""
    source, output = b.node.input(0), b.node.output()
    if len(source.shape) != 4 or output.elements != source.shape[3]:
        raise NotByRowsError("keeps some of its input's pixels")
    found = _reduced(b)
    if found.inner != source.shape[3]:
        raise NotByRowsError("reduces channels")
    if source.type is TensorType.FLOAT32:
        divisor = float(found.middle if b.node.operator.key == "MEAN" else 1)
        return gathered(b, KernelCall(DIVIDE_SUMS, (Sums(), source.shape[3], divisor, output_of(b))))
    (parameters,) = [one for one in layer.parameters if isinstance(one, Struct)]
    return gathered(b, KernelCall(RESCALE_SUMS, (Sums(), source.shape[3], parameters, output_of(b))))


OPERATORS: Mapping[str, Lowering] = {
    "ARG_MAX": Lowering(arg_max),
    "ARG_MIN": Lowering(arg_min),
    "MEAN": Lowering(mean, total_rows),
    "REDUCE_MAX": Lowering(reduce_max),
    "REDUCE_MIN": Lowering(reduce_min),
    "SUM": Lowering(sum_, total_rows),
}

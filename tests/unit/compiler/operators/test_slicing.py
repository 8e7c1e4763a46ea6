# SPDX-License-Identifier: Apache-2.0
"""SLICE, STRIDED_SLICE and TRANSPOSE against Python's own slices, and the bytes that their calls read."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest

from tests.helpers.compiled_layers import layer_of, node_of
from tests.helpers.operator_models import Case, Spec
from tests.helpers.random_operators import Operators, slice_, strided_slice, transpose
from tflm_zephyr.compiler import KernelLayer
from tflm_zephyr.compiler.copies import COPY_ELEMENTS, COPY_ROWS, MEMMOVE, merged_loops
from tflm_zephyr.compiler.ir.calls import Access
from tflm_zephyr.compiler.ir.structs import Numbers, TensorAt
from tflm_zephyr.kernels.operators.padding import axis_slice


def elements(layer: KernelLayer) -> list[int]:
    """The input's elements in the order of the output."""
    (call,) = layer.calls
    if call.kernel != COPY_ELEMENTS:
        _, source, size = call.operands
        assert isinstance(source, TensorAt) and isinstance(size, int)
        return list(range(source.element, source.element + size))
    source, _, sizes, steps = call.operands
    assert isinstance(source, TensorAt) and isinstance(sizes, Numbers) and isinstance(steps, Numbers)
    return [
        source.element + sum(i * step for i, step in zip(index, steps.values, strict=True))
        for index in itertools.product(*map(range, sizes.values))
    ]


def wanted(shape: Sequence[int], axes: Sequence[range], order: Sequence[int]) -> list[int]:
    """Elements of an input by the indices of each axis, the axes in the output's `order`."""
    steps = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        steps[i] = steps[i + 1] * shape[i + 1]
    loops = [[index * steps[axis] for index in axes[axis]] for axis in order]
    return [sum(parts) for parts in itertools.product(*loops)]


@pytest.mark.parametrize("seed", range(30))
def test_transposes_and_slices_read_the_right_elements(seed: int) -> None:
    ops = Operators(seed, "int8")
    case = transpose(ops)
    order = case.inputs[1].values if case.inputs[1] else None
    source = case.inputs[0]
    assert source is not None
    assert order is not None
    axes = [range(n) for n in source.shape]
    assert elements(layer_of(case)) == wanted(source.shape, axes, order)
    case = slice_(ops)
    source, begins, sizes = case.inputs
    assert source is not None
    assert begins is not None
    assert sizes is not None
    axes = [range(b, b + n) for b, n in zip(begins.values or (), sizes.values or (), strict=True)]
    assert elements(layer_of(case)) == wanted(source.shape, axes, range(len(axes)))


@pytest.mark.parametrize("seed", range(30))
def test_strided_slices_are_those_of_python(seed: int) -> None:
    case = strided_slice(Operators(seed, "int8"))
    source, *tables = case.inputs
    assert source is not None
    options = case.options or {}
    axes = []
    for axis, (size, *three) in enumerate(
        zip(source.shape, *(table.values or () for table in tables if table is not None), strict=True)
    ):
        begin, end, step = three
        if options["shrink_axis_mask"] >> axis & 1:
            axes.append(range(size)[begin:][:1])
        else:
            bounds = [None if options[name] >> axis & 1 else value
                      for name, value in (("begin_mask", begin), ("end_mask", end))]  # fmt: skip
            axes.append(range(size)[slice(*bounds, step)])
        assert axis_slice(node_of(case), axis, begin, end, step).count == len(axes[-1])
    assert elements(layer_of(case)) == wanted(source.shape, axes, range(len(axes)))


def test_a_run_is_one_copy_of_its_own_bytes() -> None:
    begins, sizes = Spec((2,), "int32", (2, 0)), Spec((2,), "int32", (3, -1))
    case = Case("SLICE", (Spec((6, 4), "int16", scale=0.1), begins, sizes), (Spec((3, 4), "int16", scale=0.1),), {})
    (call,) = layer_of(case).calls
    assert (call.kernel, call.operands[2]) == (MEMMOVE, 24)
    source = call.operands[1]
    assert isinstance(source, TensorAt) and source.element == 8
    assert [(access.first, access.end) for access in call.reads] == [(16, 40)]


def test_loops_are_merged_without_changing_their_elements() -> None:
    rng = random.Random(5)
    for _ in range(200):
        sizes = [rng.randint(1, 3) for _ in range(4)]
        steps = [rng.choice((-6, -1, 1, 2, 3, 6)) for _ in range(4)]
        given = [
            sum(i * s for i, s in zip(index, steps, strict=True)) for index in itertools.product(*map(range, sizes))
        ]
        merged = merged_loops(sizes, steps)
        places = itertools.product(*(range(size) for size, _ in merged))
        assert given == [sum(i * step for i, (_, step) in zip(index, merged, strict=True)) for index in places]
    assert merged_loops((2, 3, 4), (12, 4, 1)) == [(24, 1)]


def test_rows_are_exact_byte_intervals() -> None:
    whole = Spec((2, 5), "int16", scale=0.1)
    parts = tuple(Spec((2, n), "int16", scale=0.1) for n in (2, 3))
    case = Case("SPLIT_V", (whole, Spec((2,), "int32", (2, 3)), Spec((), "int32", (1,))), parts, {"num_splits": 2})
    one, other = layer_of(case).calls
    source = one.reads[0].tensor
    assert one.reads == (Access(source, 0, 4), Access(source, 10, 14))
    assert other.reads == (Access(source, 4, 10), Access(source, 14, 20))
    assert [(access.first, access.end) for access in other.writes] == [(0, 12)]
    given, _, *sizes = other.operands
    assert isinstance(given, TensorAt) and given.element == 2
    assert (other.kernel, sizes) == (COPY_ROWS, [10, 6, 6, 2])

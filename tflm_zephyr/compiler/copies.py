# SPDX-License-Identifier: Apache-2.0
"""Calls that move bytes: whole tensors, runs of them, rows, and elements in another order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tflm_zephyr.compiler.ir.calls import Access, KernelCall, View
from tflm_zephyr.compiler.ir.kernels import helper_kernel, standard_kernel
from tflm_zephyr.compiler.ir.structs import ConstantAt, Numbers, Scratch, TensorAt
from tflm_zephyr.compiler.layer_builder import LayerBuilder
from tflm_zephyr.model import Tensor

MEMCPY = standard_kernel("memcpy", "<cstring>")
MEMMOVE = standard_kernel("memmove", "<cstring>")
COPY_ROWS = helper_kernel("CopyRows", "<cstring>")
COPY_ELEMENTS = helper_kernel("CopyElements")
SELECT_ELEMENTS = helper_kernel("SelectElements")
_MOST_LOOPS, _MOST_CALLS = 4, 64


@dataclass(frozen=True)
class Rows:
    """Where rows lie in a tensor, an input by place or an output by number: the first one's byte, and bytes a row."""

    tensor: int
    at: int
    row: int

    def accesses(self, tensor: int, rows: int, size: int) -> tuple[Access, ...]:
        """`size` bytes of each row."""
        if rows == 1 or self.row == size:
            return (Access(tensor, self.at, self.at + rows * size),)
        return tuple(Access(tensor, self.at + k * self.row, self.at + k * self.row + size) for k in range(rows))


def copy_input(b: LayerBuilder) -> None:
    """Input 0 copied to the output, which has its size."""
    b.result()
    _copy_run(b, 0, in_place=False)


def copy_rows(b: LayerBuilder, source: Rows, result: Rows, rows: int, size: int) -> None:
    """`rows` times `size` bytes of an input (by place), copied to an output (by number)."""
    given, taken = b.node.input(source.tensor), b.node.output(result.tensor)
    begin = _behind(b.source(source.tensor, f"input{source.tensor}"), source.at // given.type.size_bytes)
    name = "output" if len(b.node.operator.outputs) == 1 else f"output{result.tensor}"
    target = _behind(b.result(name, result.tensor), result.at // taken.type.size_bytes)
    reads = () if given.is_constant else source.accesses(given.index, rows, size)
    writes = result.accesses(taken.index, rows, size)
    if rows == 1 or source.row == result.row == size:
        view = _view(given, source.at, taken, result.at, rows * size)
        b.add(KernelCall(MEMCPY, (target, begin, rows * size), reads, writes, copies=True, view=view))
        return
    operands = (begin, target, source.row, result.row, size, rows)
    b.add(KernelCall(COPY_ROWS, operands, reads, writes, copies=True))


def copy_elements(b: LayerBuilder, first: int, sizes: Sequence[int], steps: Sequence[int]) -> None:
    """Elements of input 0 in the output's order: nested loops of `sizes`, in `steps` of elements, from `first` on.

    TFLM's kernels read and write in the same order, so that their in-place rules hold. Loops around the innermost four
    are calls one after the other.
    """
    given, taken = b.source(0, "input"), b.result()
    loops = merged_loops(sizes, steps)
    if len(loops) == 1 and loops[0][1] == 1:
        _copy_run(b, first, in_place=True)
        return
    outer, loops = loops[:-_MOST_LOOPS], loops[-_MOST_LOOPS:]
    calls = math.prod(size for size, _ in outer)
    if calls > _MOST_CALLS:
        raise b.refuse(f"goes through its input in {len(outer) + len(loops)} nested loops")
    loops = [(1, 0)] * (_MOST_LOOPS - len(loops)) + loops
    counts = b.parameter(Numbers("kSizes", tuple(size for size, _ in loops)))
    strides = b.parameter(Numbers("kSteps", tuple(step for _, step in loops)))
    part = b.node.output().elements // calls
    for number, place in enumerate(itertools.product(*(range(size) for size, _ in outer))):
        at = first + sum(index * step for index, (_, step) in zip(place, outer, strict=True))
        b.call(COPY_ELEMENTS, _behind(given, at), _behind(taken, number * part), counts, strides)


def select_elements(b: LayerBuilder, steps: Sequence[Sequence[int]]) -> None:
    """Elements of input 1 or 2, by the conditions of input 0, in the output's order; each input in steps of its own."""
    loops: list[tuple[int, tuple[int, ...]]] = []
    for size, *step in zip(b.node.output().shape, *steps, strict=True):
        if loops and loops[-1][1] == tuple(size * one for one in step):
            loops[-1] = loops[-1][0] * size, tuple(step)
        elif size != 1:
            loops.append((size, tuple(step)))
    if len(loops) > _MOST_LOOPS:
        raise b.refuse(f"goes through its inputs in {len(loops)} nested loops")
    loops = [(1, (0, 0, 0))] * (_MOST_LOOPS - len(loops)) + loops
    given = [b.source(place, name) for place, name in enumerate(("condition", "one", "other"))]
    counts = b.parameter(Numbers("kSizes", tuple(size for size, _ in loops)))
    strides = b.parameter(Numbers("kSteps", tuple(step[place] for place in range(3) for _, step in loops)))
    b.call(SELECT_ELEMENTS, *given, b.result(), counts, strides)


def gather(b: LayerBuilder, place: int, name: str, target: Scratch, loops: Sequence[tuple[int, int]]) -> None:
    """Elements of input `place` into the layer's scratch buffer at `target`, in nested loops of (size, step)."""
    tensor = b.node.input(place)
    loops = [*zip((1,) * (_MOST_LOOPS - len(loops)), itertools.repeat(0)), *loops]
    counts = b.parameter(Numbers(f"kSizes{place}", tuple(size for size, _ in loops)))
    strides = b.parameter(Numbers(f"kSteps{place}", tuple(step for _, step in loops)))
    reads = (Access(tensor.index, 0, tensor.size_bytes),)
    b.add(KernelCall(COPY_ELEMENTS, (b.source(place, name), target, counts, strides), reads, copies=True))


def _copy_run(b: LayerBuilder, first: int, *, in_place: bool) -> None:
    """The output is a run of input 0 that begins at element `first`."""
    source, output = b.node.input(0), b.node.output()
    at, size = first * source.type.size_bytes, output.size_bytes
    reads = () if source.is_constant else (Access(source.index, at, at + size),)
    taken, given = b.result(), _behind(b.source(0, "input"), first)
    kernel, view = MEMMOVE if in_place else MEMCPY, _view(source, at, output, 0, size)
    b.add(KernelCall(kernel, (taken, given, size), reads, b.accesses()[1], copies=not in_place, view=view))


def merged_loops(sizes: Sequence[int], steps: Sequence[int]) -> list[tuple[int, int]]:
    """Nested loops, outermost first, as few as possible: neighbours are one where the outer steps over the inner."""
    loops: list[tuple[int, int]] = []
    for size, step in zip(sizes, steps, strict=True):
        if size == 1:
            continue
        if loops and loops[-1][1] == size * step:
            loops[-1] = loops[-1][0] * size, step
        else:
            loops.append((size, step))
    return loops or [(1, 1)]


def _view(given: Tensor, at: int, taken: Tensor, first: int, size: int) -> View | None:
    """The view that a copy of `size` bytes can be: of the part that it copies whole."""
    if size == taken.size_bytes:
        return View(taken.index, given.index, at)
    return View(given.index, taken.index, first) if size == given.size_bytes else None


def _behind(place: TensorAt | ConstantAt, elements: int) -> TensorAt | ConstantAt:
    """The place `elements` elements behind."""
    return replace(place, element=place.element + elements)

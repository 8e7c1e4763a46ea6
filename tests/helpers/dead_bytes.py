# SPDX-License-Identifier: Apache-2.0
"""Bytes of a compiled model's arena that nobody reads any more, behind each layer and each step of a segment.

A walk from the last call to the first, by the numbers that are emitted: a byte lives from where it is written to where
it is last read. Everything else may be overwritten: rows that were read, also in row buffers that are full, what was
not written yet, scratch buffers between calls.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy

from tflm_zephyr.compiler import CompiledModel, InsideLayer, SegmentLayer
from tflm_zephyr.compiler.memory_plan import tensors_of
from tflm_zephyr.compiler.row_proof import RowAccess, RowStep, steps_of

Mask = numpy.ndarray
"""True for each byte of the planned arena that is dead."""


def dead_bytes(program: CompiledModel) -> dict[int, list[Mask]]:
    """By layer's operator, the dead bytes behind it, for a segment behind each of its steps. Not for subgraphs."""
    assert program.flat is None, "lifespans are those of a chain of layers"
    main = program.model.main
    live = numpy.zeros(program.planned_bytes, bool)
    kept = [tensor.index for tensor in main.tensors if tensor.is_variable]
    for tensor in (*main.outputs, *kept):
        _set(live, _span(program, tensor), True)
    found: dict[int, list[Mask]] = {}
    for layer in reversed(program.main_layers):
        masks: list[Mask] = []
        for tensor in tensors_of(main, layer)[1]:  # to be compared there
            _set(live, _span(program, tensor), True)
        if isinstance(layer, SegmentLayer):
            for step in reversed(_steps(program, layer)):
                masks.append(~live)
                _back(live, step)
        elif not isinstance(layer, InsideLayer):
            masks.append(~live)
            operator = main.operators[layer.operator]
            for tensor in operator.outputs:
                _set(live, _span(program, tensor), False)
            for tensor in (*operator.inputs, *kept):
                _set(live, _span(program, tensor), True)
        found[layer.operator] = masks[::-1]
    return found


def _span(program: CompiledModel, tensor: int) -> tuple[int, int]:
    first = program.offsets.get(tensor, 0)
    return first, first + (program.model.main.tensors[tensor].size_bytes if tensor in program.offsets else 0)


def _set(live: Mask, span: tuple[int, int], value: bool) -> None:
    live[span[0] : span[1]] = value


def _steps(program: CompiledModel, layer: SegmentLayer) -> list[RowStep]:
    return list(steps_of(layer, program.scratch.get(layer.operator, 0), program.offsets.__getitem__))


def _back(live: Mask, step: RowStep) -> None:
    """From behind a step to before it."""
    for span in _spans(step.writes):
        _set(live, span, False)
    for span in _spans(step.reads):
        _set(live, span, True)
    for old, new in reversed(step.moves):
        wanted = live[new.first : new.end].copy()
        _set(live, (new.first, new.end), False)
        live[old.first : old.end] |= wanted


def _spans(accesses: tuple[RowAccess, ...]) -> Iterator[tuple[int, int]]:
    return ((access.first, access.end) for access in accesses)

# SPDX-License-Identifier: Apache-2.0
"""Tables of numbers (CSV) as a model's inputs: a line is a sample, its values those of all inputs in turn."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from tflm_zephyr.errors import ToolError
from tflm_zephyr.tensors import TensorLike, elements
from tflm_zephyr.validation.inputs.sample import Sample

if TYPE_CHECKING:
    import numpy

_SEPARATORS = re.compile(r"\s*[,;]\s*|\s+")
_WHOLE = re.compile(r"[+-]?\d+")


def table_samples(data: bytes, name: str, tensors: Sequence[TensorLike], *, raw: bool) -> list[Sample]:
    """The lines of the text in `data`, with numbers separated by commas, semicolons or blanks.

    Numbers are real values, or with `raw` elements; numbers for an integer tensor that is not quantised are always
    elements. Empty lines, lines that begin with #, and a first line of names are ignored. Raises ToolError, which
    names the line.
    """
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise ToolError(
            "is neither text nor of a known format", where=name, hint="Give .npy, .npz, PNG, BMP, WAV or CSV"
        ) from None
    wanted, found, first = sum(prod(tensor.shape) for tensor in tensors), [], True
    for number, line in enumerate(lines, start=1):
        cells = [cell for cell in _SEPARATORS.split(line.strip().rstrip(",;")) if cell]
        if not cells or cells[0].startswith("#"):
            continue
        heading, first = first and not any(map(_is_number, cells)), False
        if heading:
            continue
        where = f"{name}, line {number}"
        wrong = next((cell for cell in cells if not _is_number(cell)), None)
        if wrong is not None:
            raise ToolError(f"{wrong[:40]!r} is no number", where=where)
        if len(cells) != wanted:
            raise ToolError(f"holds {len(cells)} numbers, the model takes {wanted}", where=where)
        found.append(Sample(f"{name}:{number}", _inputs(cells, tensors, where, raw)))
    if not found:
        raise ToolError("holds no numbers", where=name)
    return found


def _inputs(cells: list[str], tensors: Sequence[TensorLike], where: str, raw: bool) -> tuple[bytes, ...]:
    made, at = [], 0
    for tensor in tensors:
        count = prod(tensor.shape)
        made.append(elements(_values(cells[at : at + count], tensor, where, raw), tensor, where, raw=raw).tobytes())
        at += count
    return tuple(made)


def _values(cells: list[str], tensor: TensorLike, where: str, raw: bool) -> numpy.ndarray:
    import numpy

    if (raw or not tensor.scale) and not tensor.type.startswith("float") and all(map(_WHOLE.fullmatch, cells)):
        try:
            return numpy.array([int(cell) for cell in cells], dtype=numpy.int64)
        except OverflowError:
            raise ToolError(f"holds a number beyond the range of {tensor.type}", where=where) from None
    return numpy.array([float(cell) for cell in cells], dtype=numpy.float64)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell

# SPDX-License-Identifier: Apache-2.0
"""Data sets: held-out inputs from .npy and .npz, in the model's own types.

A .npz holds `x` (or `x0`, `x1`, ... for a model of several inputs), one row a sample, and `y`: classes as
integers, or the values that the output should have as floats. A .npy holds `x` alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from tflm_zephyr.errors import ToolError
from tflm_zephyr.model import Model
from tflm_zephyr.tensors.array_files import load_npy, load_npz
from tflm_zephyr.tensors.quantisation import TensorLike, elements, input_forms

if TYPE_CHECKING:
    import numpy


@dataclass(frozen=True, eq=False)
class Dataset:
    """`inputs`: one array for each model input, of equally many rows; `y`: one row each, or None."""

    where: str
    inputs: tuple[numpy.ndarray, ...]
    y: numpy.ndarray | None

    def __len__(self) -> int:
        return len(self.inputs[0])

    @property
    def has_classes(self) -> bool:
        """Whether `y` holds classes (integers), as accuracy needs."""
        return self.y is not None and self.y.dtype.kind in "iu"


def with_class_numbers(dataset: Dataset, classes: int) -> Dataset:
    """`dataset` with a `y` of one-hot rows, a column for each of the `classes`, as class numbers; others unchanged."""
    y = dataset.y
    if y is None or classes < 2 or y.dtype.kind not in "biuf" or y.shape != (len(dataset), classes):
        return dataset
    if not (((y == 0) | (y == 1)).all() and (y.sum(axis=1) == 1).all()):
        return dataset
    return replace(dataset, y=y.argmax(axis=1))


def load_dataset(path: Path, labels: Path | None = None) -> Dataset:
    """Read `path` (.npz or .npy) and, for a .npy, the optional `labels` (.npy).

    Raises ToolError: missing file or array, unreadable, pickled, of different lengths, empty.
    """
    if path.suffix == ".npz":
        arrays = load_npz(path)
    elif path.suffix == ".npy":
        arrays = {"x": load_npy(path)}
    else:
        raise ToolError("is neither .npz nor .npy", where=str(path), hint="Save it with numpy.savez(x=, y=)")
    if labels is not None:
        arrays["y"] = load_npy(labels)
    return dataset_of(arrays, str(path))


def dataset_of(arrays: Mapping[str, numpy.ndarray], where: str) -> Dataset:
    """The data set in arrays x (or x0, x1, ...) and y. Raises ToolError as `load_dataset`."""
    names = ["x"] if "x" in arrays else [f"x{i}" for i in range(sum(map(_is_input, arrays)))]
    unused = sorted(name for name in arrays if _is_input(name) and name not in names)
    if unused:
        raise ToolError(
            f"has the array {unused[0]}, which is none of {', '.join(names)}",
            where=where,
            hint="Name one input x, several x0, x1, ...",
        )
    inputs = [arrays[name] for name in names]
    if not inputs:
        found = ", ".join(arrays) or "nothing"
        raise ToolError(f"has no array x (found: {found})", where=where, hint="Save it with x= and y=")
    y = arrays.get("y")
    lengths = [array.shape[0] if array.ndim else 0 for array in [*inputs, *([] if y is None else [y])]]
    if lengths[0] == 0:
        raise ToolError("holds no samples", where=where)
    if len(set(lengths)) > 1:
        raise ToolError(f"x and y differ in length: {', '.join(map(str, lengths))}", where=where)
    return Dataset(where, tuple(inputs), y)


def _is_input(name: str) -> bool:
    return re.fullmatch(r"x\d*", name) is not None


def quantise(
    tensors: Model | Sequence[TensorLike], dataset: Dataset, *, raw: bool = False
) -> tuple[tuple[bytes, ...], ...]:
    """Each sample as the bytes of each of the inputs `tensors`, ready for `host.run_many` or a device.

    Values become elements as in `quantisation.elements`. A row must have the tensor's shape, ones and the
    leading 1 aside, or be flat. Raises ToolError naming the array and the expected shape or type.
    """
    import numpy

    inputs = input_forms(tensors) if isinstance(tensors, Model) else tensors
    if len(inputs) != len(dataset.inputs):
        raise ToolError(
            f"holds arrays for {len(dataset.inputs)} inputs, the model has {len(inputs)}",
            where=dataset.where,
            hint="Name them x0, x1, ...",
        )
    columns = []
    for position, (tensor, array) in enumerate(zip(inputs, dataset.inputs, strict=True)):
        where = f"{dataset.where}, array {'x' if len(inputs) == 1 else f'x{position}'}"
        rows = _rows(array, tensor, where)
        typed = numpy.ascontiguousarray(elements(rows, tensor, where, raw=raw))
        columns.append([row.tobytes() for row in typed])
    return tuple(zip(*columns, strict=True))


def suits(shape: Sequence[int], tensor: TensorLike) -> bool:
    """Whether an array of `shape` is one sample of `tensor`: its own shape, ones aside, or flat."""
    squeezed = [n for n in shape if n != 1]
    flat_or_same = len(squeezed) <= 1 or squeezed == [n for n in tensor.shape if n != 1]
    return prod(shape) == prod(tensor.shape) and flat_or_same


def _rows(array: numpy.ndarray, tensor: TensorLike, where: str) -> numpy.ndarray:
    if suits(array.shape[1:], tensor):
        return array.reshape(len(array), prod(tensor.shape))
    expected = tensor.shape[1:] if tensor.shape[:1] == (1,) else tensor.shape
    raise ToolError(
        f"has shape {_text(array.shape)}, the model's input {tensor.name} takes {_text(('N', *expected))}",
        where=where,
    )


def _text(shape: Sequence[object]) -> str:
    return f"({', '.join(map(str, shape))})"

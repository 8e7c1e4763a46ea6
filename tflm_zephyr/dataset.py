# SPDX-License-Identifier: Apache-2.0
"""Data sets: held-out inputs from .npy and .npz, in the model's own types, and how well a model does on them.

A .npz holds `x` (or `x0`, `x1`, ... for a model of several inputs), one row a sample, and `y`: classes as
integers, or the values that the output should have as floats. A .npy holds `x` alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tflm_zephyr.errors import ModelError, ToolError
from tflm_zephyr.host import run_many
from tflm_zephyr.model import Model, Tensor, parse_model
from tflm_zephyr.npfile import load_npy, load_npz

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


@dataclass(frozen=True)
class Accuracy:
    """A classifier on a data set. `confusion[true][predicted]` counts samples; of equals the first wins."""

    count: int
    correct: int
    predictions: tuple[int, ...]
    confusion: tuple[tuple[int, ...], ...]

    @property
    def accuracy(self) -> float:
        """Share of samples that are right, 0 to 1."""
        return self.correct / self.count


@dataclass(frozen=True)
class Deviation:
    """A regressor on a data set: dequantised outputs against `y`, in the output's own unit."""

    count: int
    mean_absolute: float
    largest: float
    outputs: tuple[tuple[float, ...], ...]


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
    if "x" in arrays:
        inputs = [arrays["x"]]
    else:
        inputs = [arrays[name] for name in (f"x{i}" for i in range(len(arrays))) if name in arrays]
    if not inputs:
        found = ", ".join(arrays) or "nothing"
        raise ToolError(f"has no array x (found: {found})", where=str(path), hint="Save it with x= and y=")
    y = arrays.get("y")
    lengths = [array.shape[0] if array.ndim else 0 for array in [*inputs, *([] if y is None else [y])]]
    if lengths[0] == 0:
        raise ToolError("holds no samples", where=str(path))
    if len(set(lengths)) > 1:
        raise ToolError(f"x and y differ in length: {', '.join(map(str, lengths))}", where=str(path))
    return Dataset(str(path), tuple(inputs), y)


def quantise(model: Model, dataset: Dataset) -> tuple[tuple[bytes, ...], ...]:
    """Each sample as the bytes of each model input, ready for `host.run_many` or a device.

    An array of the tensor's own type is taken as it is. Floats for a quantised tensor are quantised with the
    tensor's scale and zero point: real / scale in float32, rounded to nearest with halves away from zero,
    clamped (AffineQuantize in TFLM's kernels/internal/reference/quantize.h). Other integers are refused for
    a quantised tensor, since they could mean either. A row must have the tensor's shape, ones and the
    leading 1 aside, or be flat. Raises ToolError naming the array and the expected shape or type.
    """
    import numpy

    tensors = [model.main.tensors[index] for index in model.main.inputs]
    if len(tensors) != len(dataset.inputs):
        raise ToolError(
            f"holds arrays for {len(dataset.inputs)} inputs, the model has {len(tensors)}",
            where=dataset.where,
            hint="Name them x0, x1, ...",
        )
    columns = []
    for position, (tensor, array) in enumerate(zip(tensors, dataset.inputs, strict=True)):
        where = f"{dataset.where}, array {'x' if len(tensors) == 1 else f'x{position}'}"
        rows = _rows(array, tensor, where)
        typed = numpy.ascontiguousarray(_typed(rows, tensor, where))
        columns.append([row.tobytes() for row in typed])
    return tuple(zip(*columns, strict=True))


def _rows(array: numpy.ndarray, tensor: Tensor, where: str) -> numpy.ndarray:
    row, wanted = array.shape[1:], prod(tensor.shape)
    squeezed = [n for n in row if n != 1]
    if prod(row) == wanted and (len(squeezed) <= 1 or squeezed == [n for n in tensor.shape if n != 1]):
        return array.reshape(len(array), wanted)
    expected = tensor.shape[1:] if tensor.shape[:1] == (1,) else tensor.shape
    raise ToolError(
        f"has shape {_text(array.shape)}, the model's input {tensor.name} takes {_text(('N', *expected))}",
        where=where,
    )


def _text(shape: Sequence[object]) -> str:
    return f"({', '.join(map(str, shape))})"


def _typed(rows: numpy.ndarray, tensor: Tensor, where: str) -> numpy.ndarray:
    import numpy

    name = tensor.type.value
    try:
        target = numpy.dtype(name).newbyteorder("<")
    except TypeError:
        raise ModelError(f"input {tensor.name} is of type {name}, which data files cannot hold") from None
    if rows.dtype.newbyteorder("=") == target.newbyteorder("="):
        return rows.astype(target)
    if target.kind in "fc":
        return rows.astype(target)
    quantization = tensor.quantization
    quantised = quantization is not None and len(quantization.scales) == 1 and quantization.scales[0] > 0
    if rows.dtype.kind == "f":
        if not numpy.isfinite(rows).all():
            raise ToolError("holds values that are not finite", where=where)
        if quantization is not None and quantised:
            zero_point = quantization.zero_points[0] if quantization.zero_points else 0
            steps = _steps(rows, quantization.scales[0]) + zero_point
            clamped: numpy.ndarray = numpy.clip(steps, *_limits(target)).astype(target)
            return clamped
    elif not quantised:
        low, high = _limits(target)
        if low <= int(rows.min()) and int(rows.max()) <= high:
            return rows.astype(target)
        raise ToolError(f"holds values outside {low} to {high}, the range of {name}", where=where)
    accepted = f"{name} (already quantised) or float (real values)" if quantised else name
    raise ToolError(f"is {rows.dtype}, the model's input {tensor.name} takes {accepted}", where=where)


def _steps(real: numpy.ndarray, scale: float) -> numpy.ndarray:
    import numpy

    # The kernel divides in float32; float64 then holds every half exactly.
    ratio = (real.astype(numpy.float32) / numpy.float32(scale)).astype(numpy.float64)
    nearest: numpy.ndarray = numpy.copysign(numpy.floor(numpy.abs(ratio) + 0.5), ratio)
    return nearest


def _limits(kind: numpy.dtype[Any]) -> tuple[int, int]:
    import numpy

    if kind.kind not in "iu":
        return 0, 1
    limits = numpy.iinfo(kind)
    return int(limits.min), int(limits.max)


def dequantise(tensor: Tensor, data: bytes) -> numpy.ndarray:
    """The real values in `data`, the raw bytes of `tensor`, flat, as float64."""
    import numpy

    values = numpy.frombuffer(data, numpy.dtype(tensor.type.value).newbyteorder("<")).astype(numpy.float64)
    quantization = tensor.quantization
    if quantization is None or len(quantization.scales) != 1 or quantization.scales[0] == 0:
        return values
    zero_point = quantization.zero_points[0] if quantization.zero_points else 0
    return (values - zero_point) * quantization.scales[0]


def score(model: Model, dataset: Dataset, runs: Sequence[Sequence[bytes]]) -> Accuracy:
    """How right the first output of each of `runs` (a host's or a device's) is about `dataset.y`.

    Raises ToolError when `y` is missing, holds no classes, or one that the model has no output for.
    """
    tensor = model.main.tensors[model.main.outputs[0]]
    classes = prod(tensor.shape)
    y = dataset.y
    if y is None or y.dtype.kind not in "iu" or y.size != len(dataset):
        raise ToolError("has no array y of one integer class a sample", where=dataset.where)
    if classes < 2:
        raise ToolError(f"has classes, but the model's output {tensor.name} is one value", where=dataset.where)
    truth = [int(value) for value in y.reshape(-1)]
    if min(truth) < 0 or max(truth) >= classes:
        raise ToolError(
            f"y runs from {min(truth)} to {max(truth)}, the model has {classes} classes", where=dataset.where
        )
    predicted = [int(dequantise(tensor, run[0]).argmax()) for run in runs]
    confusion = [[0] * classes for _ in range(classes)]
    for label, guess in zip(truth, predicted, strict=True):
        confusion[label][guess] += 1
    return Accuracy(
        count=len(truth),
        correct=sum(confusion[i][i] for i in range(classes)),
        predictions=tuple(predicted),
        confusion=tuple(map(tuple, confusion)),
    )


def deviate(model: Model, dataset: Dataset, runs: Sequence[Sequence[bytes]]) -> Deviation:
    """How far the first output of each of `runs` is from the values in `dataset.y`.

    Raises ToolError when `y` is missing or not of the output's size.
    """
    import numpy

    tensor = model.main.tensors[model.main.outputs[0]]
    wanted, y = prod(tensor.shape), dataset.y
    if y is None or y.size != wanted * len(dataset):
        raise ToolError(f"has no array y of {wanted} values a sample", where=dataset.where)
    outputs = numpy.stack([dequantise(tensor, run[0]) for run in runs])
    errors = numpy.abs(outputs - y.reshape(outputs.shape))
    return Deviation(
        count=len(dataset),
        mean_absolute=float(errors.mean()),
        largest=float(errors.max()),
        outputs=tuple(tuple(map(float, row)) for row in outputs),
    )


def evaluate_host(
    model_bytes: bytes, dataset: Dataset, *, engine: str = "tflm", arena_bytes: int | None = None
) -> Accuracy:
    """Run a classifier over the data set on this machine, in one child. Raises as `score` and `run_many`."""
    model = parse_model(model_bytes)
    return score(model, dataset, _runs(model, dataset, engine, arena_bytes))


def deviation_host(
    model_bytes: bytes, dataset: Dataset, *, engine: str = "tflm", arena_bytes: int | None = None
) -> Deviation:
    """Run a regressor over the data set on this machine. Raises as `deviate` and `run_many`."""
    model = parse_model(model_bytes)
    return deviate(model, dataset, _runs(model, dataset, engine, arena_bytes))


def _runs(model: Model, dataset: Dataset, engine: str, arena_bytes: int | None) -> tuple[tuple[bytes, ...], ...]:
    return run_many(model.data, quantise(model, dataset), arena_bytes, engine=engine).runs

# SPDX-License-Identifier: Apache-2.0
"""A model's quality on a data set: accuracy of a classifier, deviation of a regressor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tflm_zephyr.errors import ToolError
from tflm_zephyr.host import run_many
from tflm_zephyr.model import parse_model
from tflm_zephyr.tensors import Dataset, TensorLike, output_forms, quantise, real_values


@dataclass(frozen=True)
class Accuracy:
    """A classifier's result. `confusion[true][predicted]` counts samples; of equal values the first class wins."""

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


def score(tensor: TensorLike, dataset: Dataset, outputs: Sequence[bytes]) -> Accuracy:
    """The accuracy of `outputs`, the bytes of `tensor` for each sample (a host's or a device's), against `dataset.y`.

    Raises ToolError when `y` is missing, holds no classes, or a class that the model has no output for.
    """
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
    predicted = [int(real_values(tensor, output).argmax()) for output in outputs]
    confusion = [[0] * classes for _ in range(classes)]
    for label, guess in zip(truth, predicted, strict=True):
        confusion[label][guess] += 1
    return Accuracy(
        count=len(truth),
        correct=sum(confusion[i][i] for i in range(classes)),
        predictions=tuple(predicted),
        confusion=tuple(map(tuple, confusion)),
    )


def deviate(tensor: TensorLike, dataset: Dataset, outputs: Sequence[bytes]) -> Deviation:
    """The deviation of `outputs`, the bytes of `tensor` for each sample, from the values in `dataset.y`.

    Raises ToolError when `y` is missing or not of the output's size.
    """
    import numpy

    wanted, y = prod(tensor.shape), dataset.y
    if y is None or y.size != wanted * len(dataset):
        raise ToolError(f"has no array y of {wanted} values a sample", where=dataset.where)
    real = numpy.stack([real_values(tensor, output) for output in outputs])
    errors = numpy.abs(real - y.reshape(real.shape))
    return Deviation(
        count=len(dataset),
        mean_absolute=float(errors.mean()),
        largest=float(errors.max()),
        outputs=tuple(tuple(map(float, row)) for row in real),
    )


def evaluate_host(model_bytes: bytes, dataset: Dataset, *, engine: str = "tflm") -> Accuracy | Deviation:
    """Run a model over the data set on this machine, in one child: a classifier where the data has classes.

    Raises as `score` or `deviate`, and `run_many`.
    """
    model = parse_model(model_bytes)
    outputs = [run[0] for run in run_many(model.data, quantise(model, dataset), engine=engine).runs]
    return (score if dataset.has_classes else deviate)(output_forms(model)[0], dataset, outputs)

# SPDX-License-Identifier: Apache-2.0
"""The samples of a data set on which a model is most wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tflm_zephyr.tensors import Dataset, TensorLike, real_values

MOST = 8


@dataclass(frozen=True)
class WorstCase:
    """A sample by its number.

    For a classifier `score` is the real value of the `predicted` class less that of the true one, `truth`; for a
    regressor these two are None, and `score` is the largest absolute error of its outputs.
    """

    sample: int
    truth: int | None
    predicted: int | None
    score: float


def worst_cases(
    tensor: TensorLike, dataset: Dataset, outputs: Sequence[bytes], most: int = MOST
) -> tuple[WorstCase, ...]:
    """Up to `most` samples, worst first, from `outputs`, the bytes of `tensor` for each; wrong ones alone."""
    import numpy

    assert dataset.y is not None  # as an evaluation needs it
    truth = dataset.y.reshape(len(dataset), -1)
    found = []
    for number, output in enumerate(outputs):
        real = real_values(tensor, output)
        if dataset.has_classes:
            right, guess = int(truth[number, 0]), int(real.argmax())
            case = WorstCase(number, right, guess, float(real[guess] - real[right]))
            wrong = guess != right
        else:
            error = float(numpy.abs(real - truth[number]).max())
            case, wrong = WorstCase(number, None, None, error), error > 0
        if wrong:
            found.append(case)
    return tuple(sorted(found, key=lambda case: (-case.score, case.sample))[:most])

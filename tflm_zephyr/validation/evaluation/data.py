# SPDX-License-Identifier: Apache-2.0
"""Labelled data for an evaluation: an .npz, or a folder with a folder of files for each class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tflm_zephyr.errors import ToolError
from tflm_zephyr.tensors import Dataset, TensorLike, load_dataset, quantise, with_class_numbers
from tflm_zephyr.validation.inputs.files import read_samples
from tflm_zephyr.validation.inputs.sample import InputOptions


@dataclass(frozen=True, eq=False)
class Labelled:
    """Labelled samples: `inputs` as bytes, `dataset` with their `y`. `labels`: the classes' names, or none."""

    inputs: tuple[tuple[bytes, ...], ...]
    dataset: Dataset
    labels: tuple[str, ...]


def load_labelled(
    path: Path,
    tensors: Sequence[TensorLike],
    classes: int,
    options: InputOptions,
    labels: Sequence[str],
    truth: Path | None = None,
) -> Labelled:
    """The data set at `path` for a model with the inputs `tensors` and this number of `classes`.

    A folder's subfolders are the classes: named as `labels`, or numbered from 0 on, or one for each class, sorted by
    name. `truth` is the .npy of classes beside an .npy of inputs. Raises ToolError.
    """
    if path.is_dir():
        return _folder(path, tensors, options, _names(path, classes, labels))
    dataset = with_class_numbers(load_dataset(path, truth), classes)
    return Labelled(quantise(tensors, dataset, raw=options.raw), dataset, tuple(labels))


def _names(path: Path, classes: int, labels: Sequence[str]) -> list[str]:
    """The folder of each class."""
    found = sorted(folder.name for folder in path.iterdir() if folder.is_dir() and not folder.name.startswith("."))
    if not found:
        raise ToolError("holds no folders with files", where=str(path), hint="Make a folder for each class")
    numbers = [str(k) for k in range(classes)]
    names = list(labels) or (numbers if set(found) <= set(numbers) else found)
    unknown = sorted(set(found) - set(names))
    if unknown:
        raise ToolError(
            f"has the folder {unknown[0]}, which is no label", where=str(path), hint="Name the classes as in the labels"
        )
    if len(names) != classes:
        raise ToolError(
            f"has {len(names)} folders, the model has {classes} classes",
            where=str(path),
            hint="Give the classes in the model's order with --labels",
        )
    return names


def _folder(path: Path, tensors: Sequence[TensorLike], options: InputOptions, names: Sequence[str]) -> Labelled:
    import numpy

    inputs, truth = [], []
    for number, name in enumerate(names):
        for file in sorted((path / name).iterdir()) if (path / name).is_dir() else ():
            if file.is_file() and not file.name.startswith("."):
                for sample in read_samples(str(file), tensors, options, str(file)):
                    if not sample.fresh:
                        raise ToolError(
                            "is longer than the model's input", where=str(file), hint="Cut it, or give --frontend"
                        )
                    inputs.append(sample.inputs)
                    truth.append(number)
    if not inputs:
        raise ToolError("holds no files", where=str(path), hint="Put files into its folders")
    dataset = Dataset(str(path), (numpy.empty((len(inputs), 0)),), numpy.array(truth))
    return Labelled(tuple(inputs), dataset, tuple(names))

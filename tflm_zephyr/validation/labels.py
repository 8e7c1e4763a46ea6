# SPDX-License-Identifier: Apache-2.0
"""A model's outputs as real values, and the labels of its classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

from tflm_zephyr.errors import ToolError
from tflm_zephyr.tensors import TensorLike, raw_elements, real_values


@dataclass(frozen=True)
class SampleOutputs:
    """The outputs for one sample, bytes in the tensors' own types; `ticks` None where nothing counts them."""

    name: str
    outputs: tuple[bytes, ...]
    ticks: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LabelScore:
    """One class of a classifier and its value."""

    index: int
    label: str
    value: float


def load_labels(path: Path) -> tuple[str, ...]:
    """The labels in a text file, one a line; empty lines at the end are ignored. Raises ToolError."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ToolError((error.strerror or str(error)).lower(), where=str(path)) from None
    except UnicodeDecodeError:
        raise ToolError("is no text in UTF-8", where=str(path)) from None
    labels = tuple(line.strip() for line in text.rstrip().splitlines())
    if not labels:
        raise ToolError("holds no labels", where=str(path), hint="Write one a line")
    return labels


def check_labels(labels: Sequence[str], outputs: Sequence[TensorLike], where: str) -> None:
    """ToolError unless there is one label for each value of the first output."""
    classes = prod(outputs[0].shape)
    if len(labels) != classes:
        raise ToolError(
            f"holds {len(labels)} labels, the model's output {outputs[0].name} has {classes} values", where=where
        )


def ranked_classes(sample: SampleOutputs, output: TensorLike, labels: Sequence[str]) -> tuple[LabelScore, ...]:
    """The classes by falling value of the first output; equal values keep their order, as with argmax."""
    values = real_values(output, sample.outputs[0])
    order = sorted(range(len(values)), key=lambda k: (-values[k], k))
    return tuple(LabelScore(k, labels[k], float(values[k])) for k in order)


def shown_values(output: TensorLike, data: bytes, *, raw: bool = False) -> list[float] | list[int]:
    """An output's values, dequantised unless `raw`; integers stay integers."""
    values = raw_elements(output, data) if raw or not output.scale else real_values(output, data)
    found: list[float] | list[int] = values.tolist()
    return found

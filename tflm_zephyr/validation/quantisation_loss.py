# SPDX-License-Identifier: Apache-2.0
"""The accuracy that quantisation takes from a model, layer by layer: the float model beside it, on LiteRT."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import log10
from typing import TYPE_CHECKING

from tflm_zephyr.errors import ModelError
from tflm_zephyr.host import run_many, seeded_inputs
from tflm_zephyr.model import Model, Operator, normalised_for_litert, without_offline_plan
from tflm_zephyr.tensors import Dataset, form_of, input_forms, quantise, real_values

if TYPE_CHECKING:
    import numpy

_CONVERSIONS = frozenset({"QUANTIZE", "DEQUANTIZE"})
_SHARPENING = ("SOFTMAX", "LOG_SOFTMAX")
"""Operators that enlarge differences by what they compute, without adding to them."""
_MOST_SAMPLES, _RANDOM_SAMPLES = 32, 8


@dataclass(frozen=True)
class LayerLoss:
    """An operator of the quantised model, by its index in the file, whose output the float model has too.

    `error`: the difference's root mean square over that of the float output, all samples together; `sqnr_db` is the
    same in decibels, None where there is no difference. `added`: how much larger than the largest error of its inputs,
    as far as they are known. `begins`: it adds the most.
    """

    operator: int
    name: str
    error: float
    sqnr_db: float | None
    added: float
    begins: bool = False


@dataclass(frozen=True)
class QuantisationLoss:
    """Layers in order; `unmatched` counts the operators that have no counterpart in the float model."""

    samples: int
    layers: tuple[LayerLoss, ...]
    unmatched: int


def random_data(model: Model) -> Dataset:
    """Seeded random inputs of a quantised model, as real values."""
    import numpy

    runs = [seeded_inputs(model, seed) for seed in range(_RANDOM_SAMPLES)]
    forms = input_forms(model)
    columns = ([real_values(form, run[k]) for run in runs] for k, form in enumerate(forms))
    return Dataset("random inputs", tuple(numpy.stack(column) for column in columns), None)


def quantisation_loss(model: Model, original: Model, data: Dataset) -> QuantisationLoss:
    """The loss of `model` against `original`, the float model that it was made of, on the first samples of `data`.

    Outputs are matched by their tensors' names, or all by position where both models have the same operators of the
    same shapes. Raises ModelError where none match; ToolError as `quantise`, DeviceError as `run_many`.
    """
    pairs = _pairs(model, original)
    if not pairs:
        what = "no layer has the name or the place of one of the quantised model's"
        raise ModelError(what, where=original.where or "the float model", hint="Convert both from the same Keras model")
    few = replace(data, inputs=tuple(array[:_MOST_SAMPLES] for array in data.inputs))
    tensors = [(op.outputs[0], other) for op, other in pairs]
    tensors += zip(model.main.inputs, original.main.inputs, strict=True)
    sides = (_run(one, few, wanted) for one, wanted in zip((model, original), zip(*tensors, strict=True), strict=True))
    errors = {index: _error(exact, ours) for (index, _), ours, exact in zip(tensors, *sides, strict=True)}
    found = []
    for op, _ in pairs:
        error = errors[op.outputs[0]]
        added = error - max((errors[i] for i in op.inputs if i in errors), default=0.0)
        sqnr = round(-20 * log10(error), 2) if round(error, 6) else None
        found.append(LayerLoss(op.index, op.key, round(error, 6), sqnr, round(added, 6)))
    sharp = [one for one in found if one.name not in _SHARPENING] or found
    first = max(sharp, key=lambda one: one.added)
    layers = tuple(replace(one, begins=one is first and one.added > 0) for one in found)
    return QuantisationLoss(len(few), layers, len(_computing(model)) - len(pairs))


def _computing(model: Model) -> list[Operator]:
    return [op for op in model.main.operators if op.key not in _CONVERSIONS]


def _pairs(model: Model, original: Model) -> list[tuple[Operator, int]]:
    """Operators of the quantised model with the float model's tensors of the same outputs."""
    ours, theirs = ([(op, one.main.tensors[op.outputs[0]]) for op in _computing(one)] for one in (model, original))
    if [(op.key, made.shape) for op, made in ours] == [(op.key, made.shape) for op, made in theirs]:
        return [(op, other.index) for (op, _), (_, other) in zip(ours, theirs, strict=True)]
    floats = {(made.name, made.shape): made.index for _, made in theirs}
    return [(op, floats[made.name, made.shape]) for op, made in ours if (made.name, made.shape) in floats]


def _run(model: Model, data: Dataset, wanted: Sequence[int]) -> Iterator[numpy.ndarray]:
    """The real values of each of the tensors, all samples together."""
    import numpy

    plain = normalised_for_litert(without_offline_plan(model))[0]
    runs = run_many(plain, quantise(model, data), engine="litert", tensors=list(wanted)).tensors
    for k, index in enumerate(wanted):
        form = form_of(model.main.tensors[index])
        yield numpy.stack([real_values(form, run[k]) for run in runs]).astype(numpy.float64)


def _error(exact: numpy.ndarray, ours: numpy.ndarray) -> float:
    power = float((exact**2).mean())
    return float(((exact - ours) ** 2).mean() / power) ** 0.5 if power else 0.0

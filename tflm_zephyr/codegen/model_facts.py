# SPDX-License-Identifier: Apache-2.0
"""The facts of an app's models that its manifest keeps, and what a new model changes of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest

from tflm_zephyr.codegen.spec import ModelSpec, TensorSpec


@dataclass(frozen=True)
class TensorFacts:
    """An input or output; `scale` is None when it is not quantised."""

    type: str
    shape: tuple[int, ...]
    scale: float | None = None
    zero_point: int = 0


@dataclass(frozen=True)
class ModelFacts:
    """A model: the SHA-256 of its .tflite file, its interface, operators, and bytes of constants and arena."""

    sha256: str
    inputs: tuple[TensorFacts, ...] = ()
    outputs: tuple[TensorFacts, ...] = ()
    operators: tuple[str, ...] = ()
    model_bytes: int = 0
    arena_bytes: int = 0


@dataclass(frozen=True)
class TensorChange:
    """`tensor` ("input 0") as it was and as it is; None where it was not there, or is not any more."""

    tensor: str
    was: TensorFacts | None
    now: TensorFacts | None

    @property
    def breaks(self) -> bool:
        """Whether code that uses the tensor has to follow: another type or shape, not just another quantisation."""
        was, now = self.was, self.now
        return was is None or now is None or (was.type, was.shape) != (now.type, now.shape)


@dataclass(frozen=True)
class ModelChange:
    """The model `ident` as it was and as it is, and the inputs and outputs that differ. None: see TensorChange."""

    ident: str
    was: ModelFacts | None
    now: ModelFacts | None
    interface: tuple[TensorChange, ...] = ()


def facts_of(model: ModelSpec) -> ModelFacts:
    """The facts of a model of an app."""
    return ModelFacts(
        model.sha256,
        tuple(map(_tensor, model.inputs)),
        tuple(map(_tensor, model.outputs)),
        model.runtime.kernel_names,
        model.runtime.flash_bytes,
        model.arena.bytes,
    )


def model_changes(was: Mapping[str, ModelFacts], now: Mapping[str, ModelFacts]) -> tuple[ModelChange, ...]:
    """The models that differ, in the app's order, those that are gone at the end."""
    names = [*now, *(ident for ident in was if ident not in now)]
    pairs = [(ident, was.get(ident), now.get(ident)) for ident in names]
    return tuple(ModelChange(ident, old, new, _interface(old, new)) for ident, old, new in pairs if old != new)


def _interface(was: ModelFacts | None, now: ModelFacts | None) -> tuple[TensorChange, ...]:
    if was is None or now is None:
        return ()
    kinds = (("input", was.inputs, now.inputs), ("output", was.outputs, now.outputs))
    return tuple(
        TensorChange(f"{kind} {index}", old, new)
        for kind, olds, news in kinds
        for index, (old, new) in enumerate(zip_longest(olds, news))
        if old != new
    )


def _tensor(tensor: TensorSpec) -> TensorFacts:
    return TensorFacts(tensor.type, tensor.shape, tensor.scale, tensor.zero_point)

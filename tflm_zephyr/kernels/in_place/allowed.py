# SPDX-License-Identifier: Apache-2.0
"""How far an operator's output may overlap input that it has already read ("diagonal memory optimisation").

TFLM lets all tensors of an operator live at once. A kernel that walks from front to back has finished reading the start
of its input before it writes there, if the output begins far enough below the input. Each kernel's distance is derived
from its loops in its spec's `in_place` rule. The caller ensures that the input is not needed after the operator, and
that it is no input or output of the model that must be kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tflm_zephyr.kernels.core import Core
from tflm_zephyr.kernels.in_place.rules import InPlaceDistance
from tflm_zephyr.kernels.library import KernelLibrary
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.kernels.spec import InPlaceRule
from tflm_zephyr.model import Model, Operator, Subgraph, Tensor, TensorType

Rule = Callable[[Node], tuple[InPlaceDistance, ...]]
"""A kernel's in-place rule on one core."""

_CHARACTERS = (TensorType.INT8, TensorType.UINT8)


@dataclass(frozen=True)
class TensorOverlap:
    """The tensor `output` may overlap the tensor `input` (indices in the subgraph) while the operator runs.

    Allowed are input offset - output offset >= distance_bytes (None: no such distance is known) and, where
    `in_place`, equal offsets; otherwise the tensors must not share a byte. The distance is in bytes, exact and not
    aligned; when it is negative the output may begin inside the input.
    """

    input: int
    output: int
    distance_bytes: int | None
    in_place: bool

    def allows(self, input_offset: int, output_offset: int) -> bool:
        """Whether the two offsets are allowed even where the tensors share bytes."""
        if self.in_place and input_offset == output_offset:
            return True
        return self.distance_bytes is not None and input_offset - output_offset >= self.distance_bytes


def rules_of(library: KernelLibrary) -> Mapping[str, Rule]:
    """The rules of a kernel library by operator key; an operator without a rule allows no overlap."""
    return {
        key: _on_core(kernel.in_place, library.core)
        for key, kernel in library.kernels.items()
        if kernel.in_place is not None
    }


def _on_core(rule: InPlaceRule, core: Core) -> Rule:
    return lambda node: rule(node, core)


def kind_of(library: KernelLibrary) -> str:
    """The kind of a library: reference, cmsis_nn or cmsis_nn+helium.

    Overlaps that hold for one library of a kind hold for all, as no rule depends on more properties of the core.
    """
    return f"{library.name}+helium" if library.name == "cmsis_nn" and library.core.mve else library.name


def untried(library: KernelLibrary) -> bool:
    """Whether its rules were read in the code, but no plan with them was ever run: those for Helium."""
    return library.name == "cmsis_nn" and library.core.mve


def overlaps(
    library: KernelLibrary,
    model: Model,
    subgraph: Subgraph,
    operator: Operator,
    rules: Mapping[str, Rule] | None = None,
) -> tuple[TensorOverlap, ...]:
    """The pairs of tensors that may overlap while `operator` runs, sorted; () where nothing is known.

    `rules` is `rules_of(library)`, read once for many operators. Left out are constants, variables, empty tensors,
    distances at which no byte is shared, and pairs of element types whose accesses a compiler may reorder because such
    pointers do not alias: different types, neither int8 nor uint8. The C++ standard ([basic.lval]) exempts char,
    unsigned char and std::byte only, and int8_t is signed char; this code relies on GCC and Clang, which let all three
    character types alias anything. Zephyr also compiles C and C++ with -fno-strict-aliasing, so that they reorder no
    such accesses at all.
    A tensor that the operator reads at several places gets the largest of their distances. ModelError where TFLM
    would refuse the operator.
    """
    rule = (rules_of(library) if rules is None else rules).get(operator.key)
    if rule is None:
        return ()
    found = {(o.input, o.output): o for o in rule(Node(model, subgraph, operator))}
    pairs = {(i, o) for i in operator.inputs for o in operator.outputs if i >= 0 and o >= 0 and i != o}
    answers = (_together(subgraph, operator, found, *pair) for pair in sorted(pairs))
    return tuple(answer for answer in answers if answer is not None)


def _together(
    subgraph: Subgraph, operator: Operator, found: Mapping[tuple[int, int], InPlaceDistance], source: int, result: int
) -> TensorOverlap | None:
    """The overlap allowed for a pair of tensors at all of their places; None for none."""
    tensors = subgraph.tensors[source], subgraph.tensors[result]
    if not all(map(_is_planned, tensors)) or operator.outputs.count(result) != 1:
        return None
    number = operator.outputs.index(result)
    each = [found.get((place, number)) for place, index in enumerate(operator.inputs) if index == source]
    known = [overlap for overlap in each if overlap is not None]
    if len(known) != len(each):
        return None
    distances = [overlap.distance_bytes for overlap in known if overlap.distance_bytes is not None]
    distance = max(distances) if len(distances) == len(known) and _may_alias(*tensors) else None
    in_place = all(overlap.in_place for overlap in known) and tensors[0].type is tensors[1].type
    if distance is not None:
        distance = max(distance, -tensors[0].size_bytes)
        in_place = in_place or distance <= 0
        distance = distance if distance < tensors[1].size_bytes else None
    return TensorOverlap(source, result, distance, in_place) if distance is not None or in_place else None


def _is_planned(tensor: Tensor) -> bool:
    return not tensor.is_constant and not tensor.is_variable and tensor.type.has_size and tensor.size_bytes > 0


def _may_alias(one: Tensor, other: Tensor) -> bool:
    return one.type is other.type or one.type in _CHARACTERS or other.type in _CHARACTERS

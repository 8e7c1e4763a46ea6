# SPDX-License-Identifier: Apache-2.0
"""Tensors that may share bytes while an operator runs: how far an output may lie over input that was read already.

The literature calls this "diagonal memory optimisation".

TFLM lets all tensors of an operator live at once. A kernel that walks from front to back has finished reading the start
of its input before it writes there, if the output begins far enough below the input. Each kernel's distance is derived
from its loops in its spec's `in_place` rule. The caller ensures that the input is not needed after the operator, and
that it is no input or output of the model that must be kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tflm_zephyr.kernels.in_place.rules import InPlaceDistance
from tflm_zephyr.kernels.library import KernelLibrary
from tflm_zephyr.kernels.node import Node
from tflm_zephyr.model import Model, Operator, Subgraph, Tensor, TensorType

_CHARACTERS = (TensorType.INT8, TensorType.UINT8)


@dataclass(frozen=True)
class InPlaceTensors:
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


def kind_of(library: KernelLibrary) -> str:
    """The kind of a library: reference, cmsis_nn or cmsis_nn+helium.

    Distances that hold for one library of a kind hold for all, as no rule depends on more properties of the core.
    """
    return f"{library.name}+helium" if library.name == "cmsis_nn" and library.core.mve else library.name


def untried(library: KernelLibrary) -> bool:
    """Whether its rules were read in the code, but no plan with them was ever run: those for Helium."""
    return library.name == "cmsis_nn" and library.core.mve


def in_place_tensors(
    library: KernelLibrary, model: Model, subgraph: Subgraph, operator: Operator
) -> tuple[InPlaceTensors, ...]:
    """The pairs of tensors that may share bytes while `operator` runs, sorted; () where nothing is known.

    Left out are constants, variables, empty tensors, distances at which no byte is shared, and pairs of element types
    whose accesses a compiler may reorder because such pointers do not alias: different types, neither int8 nor uint8.
    The C++ standard ([basic.lval]) exempts char, unsigned char and std::byte only, and int8_t is signed char; this code
    relies on GCC and Clang, which let all three character types alias anything. Zephyr also compiles C and C++ with
    -fno-strict-aliasing, so that they reorder no such accesses at all.
    A tensor that the operator reads at several places gets the largest of their distances. ModelError where TFLM
    would refuse the operator.
    """
    found = {(one.input, one.output): one for one in library.in_place(Node(model, subgraph, operator))}
    if not found:
        return ()
    pairs = {(i, o) for i in operator.inputs for o in operator.outputs if i >= 0 and o >= 0 and i != o}
    answers = (_together(subgraph, operator, found, *pair) for pair in sorted(pairs))
    return tuple(answer for answer in answers if answer is not None)


def _together(
    subgraph: Subgraph, operator: Operator, found: Mapping[tuple[int, int], InPlaceDistance], source: int, result: int
) -> InPlaceTensors | None:
    """The pair with the distance that is allowed at all of its places; None where none is."""
    tensors = subgraph.tensors[source], subgraph.tensors[result]
    if not all(map(_is_planned, tensors)) or operator.outputs.count(result) != 1:
        return None
    number = operator.outputs.index(result)
    each = [found.get((place, number)) for place, index in enumerate(operator.inputs) if index == source]
    known = [one for one in each if one is not None]
    if len(known) != len(each):
        return None
    distances = [one.distance_bytes for one in known if one.distance_bytes is not None]
    distance = max(distances) if len(distances) == len(known) and _may_alias(*tensors) else None
    in_place = all(one.in_place for one in known) and tensors[0].type is tensors[1].type
    if distance is not None:
        distance = max(distance, -tensors[0].size_bytes)
        in_place = in_place or distance <= 0
        distance = distance if distance < tensors[1].size_bytes else None
    return InPlaceTensors(source, result, distance, in_place) if distance is not None or in_place else None


def _is_planned(tensor: Tensor) -> bool:
    return not tensor.is_constant and not tensor.is_variable and tensor.type.has_size and tensor.size_bytes > 0


def _may_alias(one: Tensor, other: Tensor) -> bool:
    return one.type is other.type or one.type in _CHARACTERS or other.type in _CHARACTERS

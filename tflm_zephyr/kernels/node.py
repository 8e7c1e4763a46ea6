# SPDX-License-Identifier: Apache-2.0
"""One operator with its tensors, as its kernel's Prepare sees it: tensors by place, dimensions, options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tflm_zephyr.errors import ModelError
from tflm_zephyr.model import Model, Operator, Subgraph, Tensor

if TYPE_CHECKING:
    from flatbuffers import flexbuffers

_SAME = 0  # Padding.SAME in the schema
_LIMIT = 2**31


@dataclass(frozen=True)
class Node:
    """An operator, its subgraph and its model. Lookups raise ModelError where TFLM would refuse or crash."""

    model: Model
    subgraph: Subgraph
    operator: Operator

    def optional_input(self, place: int) -> Tensor | None:
        """Input `place`, None when it is absent."""
        return self._at(self.operator.inputs, place)

    def input(self, place: int) -> Tensor:
        """Input `place`."""
        tensor = self._at(self.operator.inputs, place)
        if tensor is None:
            raise self.fail(f"has no input {place}")
        return tensor

    def optional_output(self, place: int) -> Tensor | None:
        """Output `place`, None when it is absent."""
        return self._at(self.operator.outputs, place)

    def output(self, place: int = 0) -> Tensor:
        """Output `place`."""
        tensor = self._at(self.operator.outputs, place)
        if tensor is None:
            raise self.fail(f"has no output {place}")
        return tensor

    def _at(self, indices: tuple[int, ...], place: int) -> Tensor | None:
        if place >= len(indices) or indices[place] < 0:
            return None
        return self.subgraph.tensors[indices[place]]

    def dim(self, tensor: Tensor, dimension: int) -> int:
        """One dimension of a tensor, counted from the end when negative."""
        if not -len(tensor.shape) <= dimension < len(tensor.shape):
            raise self.fail(f"needs a dimension {dimension} of {tensor.label}, whose shape is {list(tensor.shape)}")
        return tensor.shape[dimension]

    def option(self, name: str) -> int:
        """An integer of its options table, 0 when absent."""
        return self.operator.option(name)

    def flexbuffer(self, keys: int) -> tuple[int, ...]:
        """Its custom options, a flexbuffer map, as the integers of the first `keys` keys in sorted order."""
        try:
            values = self._map().Values
            return tuple(_integer(values[i]) for i in range(keys))
        except Exception as error:  # the reader raises whatever struct and indexing raise on damaged bytes
            raise self.fail(f"has custom options that cannot be read ({type(error).__name__})") from None

    def flexbuffer_named(self, *names: str) -> tuple[int, ...]:
        """Integers of its custom options by name; an absent one is 0."""
        try:
            found = self._map()
            if len(found) > len(self.operator.custom_options):
                raise ValueError("more keys than bytes")
            present = [key.AsKey for key in found.Keys]
            return tuple(_integer(found[name]) if name in present else 0 for name in names)
        except Exception as error:  # as above
            raise self.fail(f"has custom options that cannot be read ({type(error).__name__})") from None

    def _map(self) -> Any:
        from flatbuffers import flexbuffers  # imports numpy, which takes longer than all else that most models need

        return flexbuffers.GetRoot(bytearray(self.operator.custom_options)).AsMap

    def padding(self, size: int, filter_size: int, stride: int, dilation: int) -> int:
        """Padding before the data along one axis (ComputePaddingWithOffset in kernels/padding.h)."""
        effective = (filter_size - 1) * dilation + 1
        reach = size + stride - (1 if self.option("padding") == _SAME else effective)
        windows = quotient(reach, stride)
        return max(0, (windows - 1) * stride + effective - size) // 2

    def checked(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """`sizes`, or ModelError when one cannot be a size on a 32-bit device."""
        for size in sizes:
            if not 0 <= size < _LIMIT:
                raise self.fail(f"asks for {size} bytes of working memory")
        return sizes

    def type_of(self, slot: str) -> str:
        """The type in slot "i0" (an input) or "o0" (an output); "" when there is no such tensor."""
        tensor = self._at(self.operator.inputs if slot[0] == "i" else self.operator.outputs, int(slot[1:]))
        return "" if tensor is None else tensor.type.value

    def fits(self, row: str) -> bool:
        """Whether the types are those of `row`: slots and their types in turn ("i0 int8 o0 int8")."""
        words = row.split()
        return all(self.type_of(slot) == kind for slot, kind in zip(words[::2], words[1::2], strict=True))

    @property
    def types(self) -> str:
        """The types of its non-constant inputs and of its outputs, for a message."""
        taken = [i for i in self.operator.inputs if i >= 0 and not self.subgraph.tensors[i].is_constant]
        given = [i for i in self.operator.outputs if i >= 0]
        sides = [
            " and ".join(dict.fromkeys(self.subgraph.tensors[i].type.value for i in side)) for side in (taken, given)
        ]
        return " to ".join(dict.fromkeys(filter(None, sides)))

    def fail(self, what: str, hint: str = "TFLM refuses such an operator; convert the model again") -> ModelError:
        """A ModelError whose text is the operator's label followed by `what`; `hint` is the remedy."""
        return ModelError(
            f"{self.operator.label} of subgraph {self.subgraph.index} {what}",
            where=self.model.where,
            hint=hint,
        )


def quotient(numerator: int, denominator: int) -> int:
    """C's integer division; 0 for a division by zero."""
    if denominator <= 0:
        return 0
    return numerator // denominator if numerator >= 0 else -(-numerator // denominator)


def _integer(value: flexbuffers.Ref) -> int:
    return int(value.AsFloat) if value.IsFloat else int(value.AsInt)

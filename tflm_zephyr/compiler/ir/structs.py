# SPDX-License-Identifier: Apache-2.0
"""Parameter structs of kernels, and the places that their fields and a call's operands point to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tflm_zephyr.model import TensorType


@dataclass(frozen=True)
class Pointer:
    """A local pointer of a layer's function into the arena: to a tensor of the main subgraph, or to SCRATCH."""

    name: str
    type: TensorType
    tensor: int
    written: bool


@dataclass(frozen=True)
class TensorAt:
    """A tensor in the arena by its local pointer, from element `element` on."""

    pointer: Pointer
    element: int = 0


@dataclass(frozen=True)
class ConstantAt:
    """A constant array by its name, from element `element` on."""

    name: str
    element: int = 0


@dataclass(frozen=True)
class Scratch:
    """The layer's scratch buffer from byte `first` on; as elements of `type` where that is not the pointer's own."""

    first: int = 0
    type: TensorType | None = None


@dataclass(frozen=True)
class Double:
    """A number of C's type double."""

    value: float


@dataclass(frozen=True)
class Mutable:
    """A constant array in a field that points to what is not const; kernels do not write there."""

    array: ConstantAt
    type: TensorType


@dataclass(frozen=True)
class Enumerator:
    """A value of an enumeration by its name."""

    name: str


@dataclass(frozen=True)
class Members:
    """A struct in a struct: its fields in their order."""

    fields: Fields


@dataclass(frozen=True)
class Elements:
    """An array in a struct; the elements behind these are zero."""

    values: tuple[int, ...]


FieldValue = int | bool | float | Double | Enumerator | Mutable | ConstantAt | Scratch | Members | Elements | None
"""The value of a field; None is a null pointer."""
Fields = tuple[tuple[str, FieldValue], ...]
"""Fields of a struct by name, in their order."""


@dataclass(frozen=True)
class Struct:
    """A constant struct of a layer. `type` is the library's name of it; `fields` are in the order of declaration.

    `zeroed`: a class of C++ whose other fields are zero.
    """

    name: str
    type: str
    fields: Fields
    zeroed: bool = False

    def field(self, name: str) -> FieldValue:
        """The value of a field. KeyError where there is none."""
        return dict(self.fields)[name]


@dataclass(frozen=True)
class Scalar:
    """A constant number of a layer."""

    name: str
    type: TensorType
    value: int


@dataclass(frozen=True)
class Numbers:
    """A constant array of int32_t of a layer."""

    name: str
    values: tuple[int, ...]


Parameter = Struct | Scalar | Numbers


@dataclass(frozen=True)
class LocalStruct:
    """A struct that points into the scratch buffer, which the layer's function fills at each run."""

    name: str
    type: str
    values: tuple[FieldValue, ...]
    constant: bool = True


@dataclass(frozen=True)
class ConstantArray:
    """An array in flash: `data` is little-endian, `elements` of `type`. `comment` names tensor and layer.

    `as_in_models`: aligned to 16 bytes, as TFLM's models have their tensors; a user's kernel may rely on that.
    """

    name: str
    type: TensorType
    elements: int
    data: bytes = field(repr=False)
    comment: str = ""
    as_in_models: bool = False

    @property
    def alignment(self) -> int:
        """Bytes to align it to."""
        return 16 if self.as_in_models else 8 if len(self.data) >= 8 else 4


def members(**fields: FieldValue) -> Members:
    """Fields in their order."""
    return Members(tuple(fields.items()))


def tile(pair: tuple[int, int]) -> Members:
    """CMSIS-NN's cmsis_nn_tile of height and width."""
    height, width = pair
    return members(w=width, h=height)


def limits(pair: tuple[int, int]) -> Members:
    """CMSIS-NN's cmsis_nn_activation of both ends."""
    least, most = pair
    return members(min=least, max=most)


def struct(name: str, type_name: str, fields: Mapping[str, FieldValue]) -> Struct:
    """A struct of C, all of whose fields are given."""
    return Struct(name, type_name, tuple(fields.items()))


def zeroed(name: str, type_name: str, fields: Mapping[str, FieldValue]) -> Struct:
    """A class of C++ of which some fields are given."""
    return Struct(name, type_name, tuple(fields.items()), zeroed=True)

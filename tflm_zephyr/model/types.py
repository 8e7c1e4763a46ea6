# SPDX-License-Identifier: Apache-2.0
"""A .tflite file's model, tensors and operators as frozen dataclasses, and the one table of element types."""

from __future__ import annotations

import enum
import hashlib
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tflm_zephyr.errors import ModelError

OFFLINE_PLAN = "OfflineMemoryAllocation"
"""Name of the metadata that carries an offline memory plan (TFLM, micro_allocation_info.cc)."""


def shown(name: str) -> str:
    """A model's name for a message: on one line, printable, at most 80 characters."""
    if len(name) <= 80 and name.isprintable():
        return name
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in name[:100])
    return text if len(name) <= 80 and len(text) <= 80 else text[:79] + "…"


class TensorType(str, enum.Enum):
    """A tensor's element type; the value is numpy's name for it, where numpy has one."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    INT32 = "int32"
    UINT8 = "uint8"
    INT64 = "int64"
    STRING = "string"
    BOOL = "bool"
    INT16 = "int16"
    COMPLEX64 = "complex64"
    INT8 = "int8"
    FLOAT64 = "float64"
    COMPLEX128 = "complex128"
    UINT64 = "uint64"
    RESOURCE = "resource"
    VARIANT = "variant"
    UINT32 = "uint32"
    UINT16 = "uint16"
    INT4 = "int4"
    BFLOAT16 = "bfloat16"

    @property
    def has_size(self) -> bool:
        """Whether TFLM gives the type a size (TfLiteTypeSizeOf in memory_helpers.cc)."""
        return self in _TYPES

    @property
    def size_bytes(self) -> int:
        """Bytes an element as TFLM counts them: int4 is 1. ModelError for a type that TFLM cannot hold."""
        return self._entry()[0]

    @property
    def c_type(self) -> str:
        """The C type of an element; 16-bit floats are carried as uint16_t. ModelError where C has none."""
        c_type = self._entry()[1]
        if c_type is None:
            raise ModelError(f"a {self.value} tensor has no C type")
        return c_type

    @property
    def struct_code(self) -> str | None:
        """The letter of Python's `struct` for an element; None where it has none."""
        return self._entry()[2] if self.has_size else None

    @property
    def tflite_name(self) -> str:
        """The enumerator of TfLiteType (tensorflow/lite/core/c/c_api_types.h): "kTfLiteInt8"."""
        return self._entry()[3]

    def _entry(self) -> tuple[int, str | None, str | None, str]:
        if self not in _TYPES:
            raise ModelError(f"TFLM holds no {self.value} tensors", hint="Convert the model without them")
        return _TYPES[self]


# Bytes an element, its C type, its letter for struct, and its name in TfLiteType.
_TYPES: Mapping[TensorType, tuple[int, str | None, str | None, str]] = {
    TensorType.FLOAT32: (4, "float", "f", "kTfLiteFloat32"),
    TensorType.FLOAT16: (2, "uint16_t", "e", "kTfLiteFloat16"),
    TensorType.INT32: (4, "int32_t", "i", "kTfLiteInt32"),
    TensorType.UINT8: (1, "uint8_t", "B", "kTfLiteUInt8"),
    TensorType.INT64: (8, "int64_t", "q", "kTfLiteInt64"),
    TensorType.BOOL: (1, "bool", "?", "kTfLiteBool"),
    TensorType.INT16: (2, "int16_t", "h", "kTfLiteInt16"),
    TensorType.COMPLEX64: (8, None, None, "kTfLiteComplex64"),
    TensorType.INT8: (1, "int8_t", "b", "kTfLiteInt8"),
    TensorType.FLOAT64: (8, "double", "d", "kTfLiteFloat64"),
    TensorType.COMPLEX128: (16, None, None, "kTfLiteComplex128"),
    TensorType.UINT64: (8, "uint64_t", "Q", "kTfLiteUInt64"),
    TensorType.RESOURCE: (4, "int32_t", None, "kTfLiteResource"),
    TensorType.UINT32: (4, "uint32_t", "I", "kTfLiteUInt32"),
    TensorType.UINT16: (2, "uint16_t", "H", "kTfLiteUInt16"),
    TensorType.INT4: (1, "int8_t", "b", "kTfLiteInt4"),
    TensorType.BFLOAT16: (2, "uint16_t", None, "kTfLiteBFloat16"),
}


@dataclass(frozen=True)
class Quantization:
    """real = scale * (q - zero_point); one pair for the tensor, or one for each index along `dimension`.

    As in TFLM, one zero point serves all scales where the file gives only one: both tuples are equally long.
    """

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    dimension: int

    @property
    def per_channel(self) -> bool:
        """Whether there is more than one scale."""
        return len(self.scales) > 1


@dataclass(frozen=True)
class Tensor:
    """One tensor of a subgraph. `data` is a constant's little-endian bytes; None when it is not constant."""

    index: int
    name: str
    type: TensorType
    shape: tuple[int, ...]
    buffer: int
    data: bytes | None = field(repr=False)
    is_variable: bool
    quantization: Quantization | None
    shape_signature: tuple[int, ...]

    @property
    def label(self) -> str:
        """How messages name it: its index and printable name."""
        return f"tensor {self.index} '{shown(self.name)}'"

    @property
    def elements(self) -> int:
        """The number of elements; 1 for a scalar."""
        return math.prod(self.shape)

    @cached_property
    def size_bytes(self) -> int:
        """Bytes in TFLM's arena before alignment. ModelError for a type that TFLM cannot hold."""
        if not self.type.has_size:
            raise ModelError(
                f"{self.label} is of type {self.type.value}, which TFLM cannot hold",
                hint="Convert the model without it",
            )
        return self.elements * self.type.size_bytes

    @property
    def is_constant(self) -> bool:
        """Whether the file holds its data."""
        return self.data is not None


@dataclass(frozen=True)
class OperatorCode:
    """An entry of the file's operator table. `name` is the schema's, "CUSTOM" for a custom operator."""

    builtin_code: int
    name: str
    custom_code: str | None
    version: int


@dataclass(frozen=True)
class Operator:
    """One operator of a subgraph.

    `options` are the fields of its options table in snake_case, enumerations as the schema's numbers; empty
    when the file has no table or one that the schema does not know. `subgraphs` are those it calls, in
    TFLM's planning order.
    """

    index: int
    opcode_index: int
    builtin_code: int
    name: str
    custom_code: str | None
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    intermediates: tuple[int, ...]
    options: Mapping[str, object] = field(hash=False)
    options_name: str
    custom_options: bytes
    subgraphs: tuple[int, ...]

    @property
    def label(self) -> str:
        """How messages name it: its index and printable key."""
        return f"operator {self.index} ({shown(self.key)})"

    @property
    def key(self) -> str:
        """Its name in the op resolver: the custom code, else the builtin's name."""
        return self.name if self.custom_code is None else self.custom_code

    def option(self, name: str) -> int:
        """An integer option; 0 when absent, as in TFLM's zeroed parameter structs."""
        value = self.options.get(name, 0)
        return int(value) if isinstance(value, int) else 0


@dataclass(frozen=True)
class Subgraph:
    """One subgraph; operators in execution order. `inputs` and `outputs` are indices of `tensors`."""

    index: int
    name: str
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Model:
    """A whole file; `data` is its bytes as read."""

    version: int
    description: str
    operator_codes: tuple[OperatorCode, ...]
    subgraphs: tuple[Subgraph, ...]
    metadata: Mapping[str, bytes] = field(hash=False)
    data: bytes = field(repr=False)
    where: str = field(default="model", compare=False)

    @property
    def main(self) -> Subgraph:
        """The subgraph that an application invokes."""
        return self.subgraphs[0]

    @property
    def tensor_count(self) -> int:
        """All tensors of all subgraphs, constants included: the length of an offline plan."""
        return sum(len(s.tensors) for s in self.subgraphs)

    def tensors(self) -> Iterator[tuple[Subgraph, Tensor]]:
        """Every tensor in the offline plan's order."""
        for subgraph in self.subgraphs:
            for tensor in subgraph.tensors:
                yield subgraph, tensor

    @cached_property
    def sha256(self) -> str:
        """Hex digest of the file's bytes."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def offline_plan(self) -> tuple[int, ...] | None:
        """The file's offline plan: an arena offset for each tensor of all subgraphs, -1 = placed by TFLM.

        None when the file has none. ModelError for one that TFLM would refuse or read beyond its end. Format:
        int32 [version, subgraphs, count, offsets...] (TFLM, micro/docs/memory_management.md).
        """
        blob = self.metadata.get(OFFLINE_PLAN)
        if blob is None:
            return None
        words = struct.unpack(f"<{len(blob) // 4}i", blob[: len(blob) // 4 * 4])
        if len(words) < 3 or words[2] != self.tensor_count or len(words) < 3 + words[2]:
            found = words[2] if len(words) > 2 else "no"
            raise ModelError(
                f"its offline memory plan is for {found} tensors but the model has {self.tensor_count}",
                where=self.where,
                hint="Remove the plan, or plan the model again",
            )
        return words[3 : 3 + words[2]]

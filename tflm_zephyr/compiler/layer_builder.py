# SPDX-License-Identifier: Apache-2.0
"""One operator on its way to a Layer: its tensors become pointers and constants, its parameters structs and calls."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tflm_zephyr.compiler.ir.calls import SCRATCH, Access, KernelCall, PixelRuns
from tflm_zephyr.compiler.ir.kernels import Kernel
from tflm_zephyr.compiler.ir.layers import KernelLayer
from tflm_zephyr.compiler.ir.operands import Dims, Null, Operand, Shape
from tflm_zephyr.compiler.ir.structs import (
    ConstantArray,
    ConstantAt,
    LocalStruct,
    Parameter,
    Pointer,
    Scratch,
    TensorAt,
)
from tflm_zephyr.kernels import KernelLibrary, Node
from tflm_zephyr.memory_planner import align_up
from tflm_zephyr.model import Tensor, TensorType
from tflm_zephyr.tflm import ALIGNMENT

CMSIS_NN = "cmsis_nn"
PADDING = "padding"
"""The kind of the arrays in Constants that hold one value, over and over."""
_INT32 = range(-(2**31), 2**31)
_AnyParameter = TypeVar("_AnyParameter", bound=Parameter)


class NotDirectError(Exception):
    """This operator has no direct code; the text says why."""


@dataclass
class Constants:
    """The constant arrays of a model, each content once, and the operands that its file has once, in their order."""

    arrays: dict[tuple[str, bytes], ConstantArray] = field(default_factory=dict)
    shared: dict[Dims | Shape, None] = field(default_factory=dict)

    def array(self, array: ConstantArray) -> str:
        """The name of the array with this content. ModelError for elements without a C type."""
        key = (array.type.c_type, array.data)
        found = self.arrays.get(key, array)
        self.arrays[key] = replace(found, as_in_models=found.as_in_models or array.as_in_models)
        return found.name

    def padding(self, value: int, size: int) -> ConstantAt:
        """The array of int8_t of this value, one for the whole model, which is as long as the longest one asked for."""
        name, key = f"padding_{'minus_' if value < 0 else ''}{abs(value)}", (PADDING, bytes([value & 255]))
        size = max(size, self.arrays[key].elements if key in self.arrays else 0)
        self.arrays[key] = ConstantArray(name, TensorType.INT8, size, key[1] * size, f"padding with {value}")
        return ConstantAt(name)

    def copy(self) -> Constants:
        """The same contents, on their own."""
        return Constants(dict(self.arrays), dict(self.shared))

    def become(self, other: Constants) -> None:
        """Have the contents of `other`, a copy."""
        self.arrays, self.shared = other.arrays, other.shared


class LayerBuilder:
    """The layer of `node`, the operator `index` of the running order, for kernels of all `libraries`.

    The libraries are of one name, for each kind of core that the code is compiled for.
    """

    def __init__(self, node: Node, index: int, libraries: Sequence[KernelLibrary], constants: Constants) -> None:
        self.node, self.index, self.libraries, self.constants = unpacked(node), index, libraries, constants
        self._pointers: dict[str, Pointer] = {}
        self._parameters: list[Parameter] = []
        self._calls: list[KernelCall] = []
        self._scratch = 0
        self._states: list[int] = []
        self._locals: list[LocalStruct] = []

    @property
    def cmsis_nn(self) -> bool:
        """Whether CMSIS-NN's kernels were chosen."""
        return self.libraries[0].name == CMSIS_NN

    @property
    def cores(self) -> set[tuple[bool, bool]]:
        """DSP and Helium of each kind of core."""
        return {(library.core.dsp, library.core.mve) for library in self.libraries}

    def refuse(self, why: str) -> NotDirectError:
        """The exception that leaves the operator to TFLM's own kernel."""
        return NotDirectError(why)

    # Tensors

    def source(self, place: int, name: str) -> TensorAt | ConstantAt:
        """Input `place`: by the local pointer `name`, or its constant array.

        NotDirectError where the data of a constant are not one element after the other.
        """
        tensor = self.node.input(place)
        if tensor.data is None:
            return self._pointer(name, tensor, written=False)
        if tensor.type is TensorType.INT4 or len(tensor.data) != tensor.size_bytes:
            raise self.refuse(f"{tensor.label} is packed")
        return self.array(name, tensor.type, tensor.data, tensor.label)

    def optional_source(self, place: int, name: str, *, absent: Null = Null()) -> TensorAt | ConstantAt | Null:  # noqa: B008
        """The same for an input that may be absent."""
        return absent if self.node.optional_input(place) is None else self.source(place, name)

    def state(self, place: int, name: str) -> TensorAt:
        """A variable, which the call reads and writes."""
        tensor = self.node.input(place)
        self._states.append(tensor.index)
        return self._pointer(name, tensor, written=True)

    def result(self, name: str = "output", number: int = 0) -> TensorAt:
        """An output."""
        return self._pointer(name, self.node.output(number), written=True)

    def _pointer(self, name: str, tensor: Tensor, *, written: bool) -> TensorAt:
        assert tensor.type.c_type
        self._pointers[name] = Pointer(name, tensor.type, tensor.index, written)
        return TensorAt(self._pointers[name])

    def array(self, name: str, kind: TensorType, data: bytes, comment: str = "") -> ConstantAt:
        """An array of any type."""
        text = f"layer {self.index}: {name}" + (f", {comment}" if comment else "")
        elements = len(data) // kind.size_bytes
        return ConstantAt(self.constants.array(ConstantArray(f"{name}_{self.index}", kind, elements, data, text)))

    # The scratch buffer

    def scratch(self, size: int, kind: TensorType = TensorType.UINT8) -> Scratch | Null:
        """The scratch buffer of `size` bytes, none for 0. One a layer."""
        if size == 0:
            return Null()
        assert self._scratch == 0, "one scratch buffer a layer"
        self._scratch = size
        self._pointers["scratch"] = Pointer("scratch", kind, SCRATCH, written=True)
        return Scratch()

    @property
    def scratch_bytes(self) -> int:
        """Bytes of the scratch buffer as asked for so far."""
        return self._scratch

    def local(self, value: LocalStruct) -> LocalStruct:
        """A struct that the function fills at each run."""
        self._locals.append(value)
        return value

    # Structs and calls

    def parameter(self, value: _AnyParameter) -> _AnyParameter:
        """A constant of this layer."""
        self._parameters.append(value)
        return value

    def dims(self, *sizes: int) -> Dims:
        """The address of a cmsis_nn_dims of n, h, w, c."""
        n, h, w, c = sizes
        found = Dims(n, h, w, c)
        self.constants.shared.setdefault(found)
        return found

    def shape(self, sizes: Sequence[int]) -> Shape:
        """A tflite::RuntimeShape."""
        found = Shape(tuple(sizes))
        if found.sizes:
            self.constants.shared.setdefault(found)
        return found

    def call(self, kernel: Kernel, *operands: Operand, runs: PixelRuns | None = None, copies: bool = False) -> None:
        """A call, which reads all inputs and writes all outputs."""
        self.add(KernelCall(kernel, operands, *self.accesses(), runs, copies))

    def add(self, call: KernelCall) -> None:
        """A call."""
        self._calls.append(call)

    def accesses(self) -> tuple[tuple[Access, ...], tuple[Access, ...]]:
        """The planned inputs so far, input 0 first, and the outputs; each whole."""
        tensors, reads, writes = self.node.subgraph.tensors, [], []
        for pointer in self._pointers.values():
            if pointer.tensor == SCRATCH:
                continue
            whole = Access(pointer.tensor, 0, tensors[pointer.tensor].size_bytes)
            reads += [whole] if not pointer.written or pointer.tensor in self._states else []
            writes += [whole] if pointer.written else []
        return tuple(reads), tuple(writes)

    def build(self) -> KernelLayer:
        """The layer as gathered so far."""
        node = self.node
        return KernelLayer(
            operator=self.index,
            key=node.operator.key,
            title=title_of(node),
            pointers=tuple(self._pointers.values()),
            parameters=tuple(self._parameters),
            calls=tuple(self._calls),
            scratch_bytes=self._scratch,
            locals=tuple(self._locals),
        )


def kernel_scratch_bytes(b: LayerBuilder) -> int:
    """Bytes of the scratch buffer that TFLM's kernel asks for, the largest of all cores.

    NotDirectError where it asks for several.
    """
    asked = [library.scratch(b.node.model, b.node.subgraph, b.node.operator) for library in b.libraries]
    if any(len(sizes) > 1 for sizes in asked):
        raise b.refuse("needs several scratch buffers")
    return max(sum(sizes) for sizes in asked)


def kernel_scratch(b: LayerBuilder) -> Scratch | Null:
    """That buffer."""
    return b.scratch(kernel_scratch_bytes(b))


def int32s(b: LayerBuilder, name: str, values: Iterable[int], comment: str = "") -> ConstantAt:
    """An array of int32_t. NotDirectError for a value beyond 32 bits."""
    numbers = tuple(values)
    if not all(value in _INT32 for value in numbers):
        raise b.refuse(f"has {name} beyond 32 bits")
    return b.array(name, TensorType.INT32, struct.pack(f"<{len(numbers)}i", *numbers), comment)


def scratch_parts(b: LayerBuilder, *sizes: int) -> list[Scratch | Null]:
    """Several scratch buffers, one behind the other."""
    firsts, at = [], 0
    for size in sizes:
        firsts.append(at)
        at = align_up(at + size, ALIGNMENT)
    found = b.scratch(at)
    return [Scratch(first) if isinstance(found, Scratch) else found for first in firsts]


def integers(b: LayerBuilder, place: int) -> tuple[int, ...]:
    """The values of input `place`, a constant of int32 or int64. NotDirectError where it is none."""
    tensor = b.node.input(place)
    kind = {TensorType.INT32: "i", TensorType.INT64: "q"}.get(tensor.type)
    if tensor.data is None or kind is None or len(tensor.data) != tensor.size_bytes:
        raise b.refuse(f"has {tensor.label} that is computed, or no integers")
    return struct.unpack(f"<{tensor.elements}{kind}", tensor.data)


def axis_of(b: LayerBuilder, value: int, rank: int) -> int:
    """An axis from 0 to rank - 1; negative ones count from the end. NotDirectError for no such axis."""
    axis = value + (rank if value < 0 else 0)
    if not 0 <= axis < rank:
        raise b.refuse(f"has an axis {value} of {rank} dimensions")
    return axis


def unpacked(node: Node) -> Node:
    """`node` with constant int4 inputs as int8, so that its kernels need no RAM to unpack them.

    The low half of a byte comes first (UnpackDenseInt4IntoInt8 in portable_tensor_utils.h).
    """
    tensors = list(node.subgraph.tensors)
    packed = [i for i in node.operator.inputs if i >= 0 and tensors[i].type is TensorType.INT4]
    for i in packed:
        tensor = tensors[i]
        data = tensor.data or b""
        if len(data) == (tensor.elements + 1) // 2:
            halves = (half for byte in data for half in (byte & 15, byte >> 4))
            values = bytes((half ^ 8) - 8 & 255 for half in itertools.islice(halves, tensor.elements))
            tensors[i] = replace(tensor, type=TensorType.INT8, data=values)
    if not packed:
        return node
    subgraph = replace(node.subgraph, tensors=tuple(tensors))
    subgraphs = tuple(subgraph if one is node.subgraph else one for one in node.model.subgraphs)
    return replace(node, model=replace(node.model, subgraphs=subgraphs), subgraph=subgraph)


def title_of(node: Node) -> str:
    """Operator and shapes for a comment: "CONV_2D int8[1][48][48][8] * int8[16][1][1][8] -> int8[1][48][48][16]"."""

    def shown(tensor: Tensor) -> str:
        return tensor.type.value + "".join(f"[{size}]" for size in tensor.shape)

    tensors = node.subgraph.tensors
    given = ", ".join(shown(tensors[i]) for i in node.operator.inputs if i >= 0)
    taken = ", ".join(shown(tensors[i]) for i in node.operator.outputs if i >= 0)
    return f"{node.operator.key} {given} -> {taken}"

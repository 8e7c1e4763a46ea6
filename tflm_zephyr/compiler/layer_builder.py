# SPDX-License-Identifier: Apache-2.0
"""One operator on its way to a Layer: its tensors become pointers and constants, its parameters structs and calls."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from tflm_zephyr.compiler.fixed_point import activation_range
from tflm_zephyr.compiler.program import SCRATCH, Access, Call, ConstantArray, Layer, PixelRuns, Pointer, Value
from tflm_zephyr.kernels import KernelLibrary, Node, macs, scale_of, zero_point_of
from tflm_zephyr.model import Tensor, TensorType

CMSIS_NN = "cmsis_nn"
CMSIS_HEADER = "arm_nnfunctions.h"
CMSIS_SUCCESS = "ARM_CMSIS_NN_SUCCESS"
_INT32 = range(-(2**31), 2**31)


class NotDirectError(Exception):
    """This operator has no direct code; the text says why."""


@dataclass
class Constants:
    """The constant arrays and shared structs of a model, each content once."""

    arrays: dict[tuple[str, bytes], ConstantArray] = field(default_factory=dict)
    shared: dict[str, Value] = field(default_factory=dict)

    def array(
        self, name: str, c_type: str, elements: int, data: bytes, comment: str, *, as_in_models: bool = False
    ) -> str:
        """The name of the array with this content."""
        key = (c_type, data)
        found = self.arrays.get(key, ConstantArray(name, c_type, elements, data, comment))
        self.arrays[key] = replace(found, as_in_models=found.as_in_models or as_in_models)
        return found.name

    def value(self, value: Value) -> str:
        """The name of a shared struct, which its content gives."""
        return self.shared.setdefault(value.name, value).name


class LayerBuilder:
    """The layer of `node`, the operator `index` of the running order, for kernels of all `libraries`.

    The libraries are of one name, for each kind of core that the code is compiled for. `core`: the first one's facts.
    """

    def __init__(self, node: Node, index: int, libraries: Sequence[KernelLibrary], constants: Constants) -> None:
        self.node, self.index, self.libraries, self._constants = node, index, libraries, constants
        self._pointers: dict[str, Pointer] = {}
        self._values: list[Value] = []
        self._calls: list[Call] = []
        self._headers: set[str] = set()
        self._functions: set[str] = set()
        self._scratch = 0

    @property
    def cmsis_nn(self) -> bool:
        """Whether CMSIS-NN's kernels were chosen."""
        return self.libraries[0].name == CMSIS_NN

    @property
    def cores(self) -> set[tuple[bool, bool]]:
        """DSP and Helium of each kind of core."""
        return {(library.core.dsp, library.core.mve) for library in self.libraries}

    def fits(self, row: str) -> bool:
        """Whether the operator's types are those of `row`: see Node.fits."""
        return self.node.fits(row)

    def refuse(self, why: str) -> NotDirectError:
        """The exception that leaves the operator to TFLM's own kernel."""
        return NotDirectError(why)

    # Tensors

    def source(self, place: int, name: str) -> str:
        """The expression of input `place`: the local pointer `name`, or the constant's name."""
        return self.source_of(self.node.input(place), name)

    def source_of(self, tensor: Tensor, name: str) -> str:
        """The same for a tensor."""
        if tensor.data is not None:
            return self.constant(name, tensor)
        self._pointers[name] = Pointer(name, tensor.type.c_type, tensor.index, written=False)
        return name

    def optional_source(self, place: int, name: str, *, absent: str = "nullptr") -> str:
        """The same for an input that may be absent."""
        return absent if self.node.optional_input(place) is None else self.source(place, name)

    def result(self, name: str = "output", number: int = 0) -> str:
        """The local pointer to an output."""
        tensor = self.node.output(number)
        self._pointers[name] = Pointer(name, tensor.type.c_type, tensor.index, written=True)
        return name

    def weighted_arguments(self, *, no_bias: str = "nullptr") -> tuple[str, ...]:
        """Shape and data of input, weights, bias and output, as TFLM's reference functions of sums take them."""
        node = self.node
        bias = node.optional_input(2)
        return (
            self.shape(node.input(0).shape),
            self.source(0, "input"),
            self.shape(node.input(1).shape),
            self.source(1, "weights"),
            self.shape(() if bias is None else bias.shape),
            self.optional_source(2, "bias", absent=no_bias),
            self.shape(node.output().shape),
            self.result(),
        )

    def clamp(self) -> tuple[int, int]:
        """The range of the integer output with its fused activation, both ends included."""
        output, activation = self.node.output(), self.node.option("fused_activation_function")
        return activation_range(activation, output.type, scale_of(output), zero_point_of(output))

    def constant(self, name: str, tensor: Tensor) -> str:
        """The array of a constant tensor. NotDirectError where its data are not one element after the other."""
        data = tensor.data or b""
        if tensor.type is TensorType.INT4 or len(data) != tensor.size_bytes:
            raise self.refuse(f"{tensor.label} is packed")
        return self.raw(name, tensor.type.c_type, tensor.elements, data, tensor.label)

    def int32s(self, name: str, values: Iterable[int], comment: str = "") -> str:
        """An array of int32_t."""
        found = tuple(values)
        if not all(value in _INT32 for value in found):
            raise self.refuse(f"has {name} beyond 32 bits")
        return self.raw(name, "int32_t", len(found), struct.pack(f"<{len(found)}i", *found), comment)

    def raw(self, name: str, c_type: str, elements: int, data: bytes, comment: str = "") -> str:
        """An array of any type."""
        text = f"layer {self.index}: {name}" + (f", {comment}" if comment else "")
        return self._constants.array(f"{name}_{self.index}", c_type, elements, data, text)

    def scratch(self, size: int, c_type: str = "uint8_t") -> str:
        """The local pointer to a scratch buffer of `size` bytes, "nullptr" for none. One a layer."""
        if size == 0:
            return "nullptr"
        assert self._scratch == 0, "one scratch buffer a layer"
        self._scratch = size
        self._pointers["scratch"] = Pointer("scratch", c_type, SCRATCH, written=True)
        return "scratch"

    def kernel_scratch(self) -> str:
        """The scratch buffer that TFLM's kernel asks for, the largest of all cores."""
        node = self.node
        asked = [library.scratch(node.model, node.subgraph, node.operator) for library in self.libraries]
        if any(len(sizes) > 1 for sizes in asked):
            raise self.refuse("needs several scratch buffers")
        return self.scratch(max(sum(sizes) for sizes in asked))

    # Structs

    def value(self, name: str, c_type: str, **fields: object) -> str:
        """A constant struct of this layer, initialised with designators; its name."""
        self._values.append(Value(name, c_type, tuple((key, str(value)) for key, value in fields.items())))
        return name

    def assigned(self, name: str, c_type: str, **fields: object) -> str:
        """A constant struct of C++ whose other fields are zero; `a__b` is the field b of the field a."""
        rows = tuple((key.replace("__", "."), str(value)) for key, value in fields.items())
        self._values.append(Value(name, c_type, rows, assigned=True))
        return name

    def scalar(self, name: str, c_type: str, value: str) -> str:
        """A constant number of this layer; its name."""
        self._values.append(Value(name, c_type, (("", value),)))
        return name

    def dims(self, *sizes: int) -> str:
        """The address of a cmsis_nn_dims of n, h, w, c."""
        fields = tuple(zip("nhwc", map(str, sizes), strict=True))
        name = "kDims" + "x".join(map(str, sizes))
        return "&" + self._constants.value(Value(name, "cmsis_nn_dims", fields, shared=True))

    def shape(self, sizes: Sequence[int]) -> str:
        """A tflite::RuntimeShape."""
        if not sizes:
            return "tflite::RuntimeShape()"
        name = "kShape" + "x".join(map(str, sizes))
        fields = tuple(("", str(size)) for size in sizes)
        self._constants.value(Value(name, "int32_t", fields, shared=True, array=True))
        return f"tflite::RuntimeShape({len(sizes)}, {name})"

    # Calls

    def cmsis(self, function: str, *arguments: str, returns: bool = True, runs: PixelRuns | None = None) -> None:
        """A call of a function of CMSIS-NN, which reads all inputs and writes all outputs."""
        self._headers.add(CMSIS_HEADER)
        self._functions.add(function)
        self._call(function, arguments, CMSIS_SUCCESS if returns else "", runs)

    def reference(self, header: str, function: str, *arguments: str) -> None:
        """A call of a function of TFLM's header tensorflow/lite/kernels/internal/`header`."""
        self._headers.add(f"tensorflow/lite/kernels/internal/{header}")
        self._call(function, arguments, "", None)

    def own(self, function: str, *arguments: str, header: str = "") -> None:
        """A call of a function of the C++ library, or of the generated code."""
        if header:
            self._headers.add(header)
        self._calls.append(Call(function, arguments, self._reads(), self._writes(), copies=True))

    def rows(self, place: int, size: int, at: int, rows: int, row: int) -> None:
        """Input `place`, `rows` rows of `size` bytes, copied to byte `at` of the output's rows of `row` bytes each."""
        source, output = self.node.input(place), self.node.output()
        given, result = self.source(place, f"input{place}"), self.result()
        target = f"{result} + {at // output.type.size_bytes}" if at else result
        self._headers.add("<cstring>")
        reads = () if source.is_constant else (Access(source.index, 0, rows * size),)
        if rows == 1:
            writes: tuple[Access, ...] = (Access(output.index, at, at + size),)
            self._calls.append(Call("std::memcpy", (target, given, str(size)), reads, writes, copies=True))
            return
        writes = tuple(Access(output.index, k * row + at, k * row + at + size) for k in range(rows))
        numbers = map(str, (size, row, size, rows))
        self._calls.append(Call("CopyRows", (given, target, *numbers), reads, writes, copies=True))

    def _call(self, function: str, arguments: tuple[str, ...], success: str, runs: PixelRuns | None) -> None:
        self._calls.append(Call(function, arguments, self._reads(), self._writes(), success, runs))

    def _reads(self) -> tuple[Access, ...]:
        """The planned inputs, input 0 first; each whole."""
        return tuple(
            Access(pointer.tensor, 0, self.node.subgraph.tensors[pointer.tensor].size_bytes)
            for pointer in self._pointers.values()
            if not pointer.written
        )

    def _writes(self) -> tuple[Access, ...]:
        return tuple(
            Access(pointer.tensor, 0, self.node.subgraph.tensors[pointer.tensor].size_bytes)
            for pointer in self._pointers.values()
            if pointer.written and pointer.tensor != SCRATCH
        )

    def build(self) -> Layer:
        """The layer as gathered so far."""
        node = self.node
        return Layer(
            operator=self.index,
            key=node.operator.key,
            title=title_of(node),
            pointers=tuple(self._pointers.values()),
            values=tuple(self._values),
            calls=tuple(self._calls),
            headers=tuple(sorted(self._headers)),
            functions=tuple(sorted(self._functions)),
            scratch_bytes=self._scratch,
            macs=macs(node),
        )


def title_of(node: Node) -> str:
    """Operator and shapes for a comment: "CONV_2D int8[1][48][48][8] * int8[16][1][1][8] -> int8[1][48][48][16]"."""

    def shown(tensor: Tensor) -> str:
        return tensor.type.value + "".join(f"[{size}]" for size in tensor.shape)

    tensors = node.subgraph.tensors
    given = ", ".join(shown(tensors[i]) for i in node.operator.inputs if i >= 0)
    taken = ", ".join(shown(tensors[i]) for i in node.operator.outputs if i >= 0)
    return f"{node.operator.key} {given} -> {taken}"

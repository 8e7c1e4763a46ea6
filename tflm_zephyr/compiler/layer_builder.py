# SPDX-License-Identifier: Apache-2.0
"""One operator on its way to a Layer: its tensors become pointers and constants, its parameters structs and calls."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from tflm_zephyr.compiler.fixed_point import activation_range
from tflm_zephyr.compiler.program import (
    SCRATCH,
    Access,
    Call,
    ConstantArray,
    Layer,
    Local,
    PixelRuns,
    Pointer,
    Value,
    View,
)
from tflm_zephyr.fast_kernels import Block
from tflm_zephyr.kernels import KernelLibrary, Node, macs, scale_of, zero_point_of
from tflm_zephyr.memory_planner import align_up
from tflm_zephyr.model import Tensor, TensorType
from tflm_zephyr.tflm import ALIGNMENT

CMSIS_NN = "cmsis_nn"
CMSIS_HEADER = "arm_nnfunctions.h"
PADDING = "padding"
"""The kind of the arrays in Constants that hold one value, over and over."""
CMSIS_SUCCESS = "ARM_CMSIS_NN_SUCCESS"
_INT32 = range(-(2**31), 2**31)
_MOST_LOOPS = 4


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

    def padding(self, value: int, size: int) -> str:
        """The name of the array of this value, which is as long as the longest one asked for."""
        name, key = f"padding_{value}".replace("-", "minus_"), (PADDING, bytes([value & 255]))
        size = max(size, self.arrays[key].elements if key in self.arrays else 0)
        self.arrays[key] = ConstantArray(name, "int8_t", size, key[1] * size, f"padding with {value}")
        return name

    def value(self, value: Value) -> str:
        """The name of a shared struct, which its content gives."""
        return self.shared.setdefault(value.name, value).name


@dataclass(frozen=True)
class Rows:
    """Where rows lie in a tensor, an input by place or an output by number: the first one's byte, and bytes a row."""

    tensor: int
    at: int
    row: int

    def accesses(self, tensor: int, rows: int, size: int) -> tuple[Access, ...]:
        """`size` bytes of each row."""
        if rows == 1 or self.row == size:
            return (Access(tensor, self.at, self.at + rows * size),)
        return tuple(Access(tensor, self.at + k * self.row, self.at + k * self.row + size) for k in range(rows))


class LayerBuilder:
    """The layer of `node`, the operator `index` of the running order, for kernels of all `libraries`.

    The libraries are of one name, for each kind of core that the code is compiled for. `core`: the first one's facts.
    """

    def __init__(self, node: Node, index: int, libraries: Sequence[KernelLibrary], constants: Constants) -> None:
        self.node, self.index, self.libraries, self._constants = unpacked(node), index, libraries, constants
        self._pointers: dict[str, Pointer] = {}
        self._values: list[Value] = []
        self._calls: list[Call] = []
        self._headers: set[str] = set()
        self._functions: set[str] = set()
        self._scratch = 0
        self._states: list[int] = []
        self._locals: list[Local] = []

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

    def state(self, place: int, name: str) -> str:
        """The local pointer to a variable, which the call reads and writes."""
        tensor = self.node.input(place)
        self._pointers[name] = Pointer(name, tensor.type.c_type, tensor.index, written=True)
        self._states.append(tensor.index)
        return name

    def contexts(self, **sizes: int) -> list[str]:
        """The addresses of CMSIS-NN's contexts by name, each with a scratch buffer of its own."""
        buffers = self.scratch_buffers(*sizes.values())
        for (name, size), buffer in zip(sizes.items(), buffers, strict=True):
            self._locals.append(Local(name, "const cmsis_nn_context", f"{{{buffer}, {size}}}"))
        return [f"&{name}" for name in sizes]

    def scratch_buffers(self, *sizes: int) -> list[str]:
        """The expressions of several scratch buffers, one behind the other."""
        firsts, at = [], 0
        for size in sizes:
            firsts.append(at)
            at = align_up(at + size, ALIGNMENT)
        scratch = self.scratch(at)
        return [_behind(scratch, first) for first in firsts]

    def local(self, name: str, c_type: str, *fields: str) -> str:
        """The address of a struct that the function fills anew at each run."""
        self._locals.append(Local(name, c_type, f"{{{', '.join(fields)}}}"))
        return f"&{name}"

    def integers(self, place: int) -> tuple[int, ...]:
        """The values of input `place`, a constant of int32 or int64. NotDirectError where it is none."""
        tensor = self.node.input(place)
        kind = {TensorType.INT32: "i", TensorType.INT64: "q"}.get(tensor.type)
        if tensor.data is None or kind is None or len(tensor.data) != tensor.size_bytes:
            raise self.refuse(f"has {tensor.label} that is computed, or no integers")
        return struct.unpack(f"<{tensor.elements}{kind}", tensor.data)

    def axis(self, value: int, rank: int) -> int:
        """An axis from 0 to rank - 1; negative ones count from the end."""
        found = value + (rank if value < 0 else 0)
        if not 0 <= found < rank:
            raise self.refuse(f"has an axis {value} of {rank} dimensions")
        return found

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
        return self.scratch(self.kernel_scratch_bytes())

    def kernel_scratch_bytes(self) -> int:
        """Bytes of that buffer. NotDirectError where it asks for several."""
        node = self.node
        asked = [library.scratch(node.model, node.subgraph, node.operator) for library in self.libraries]
        if any(len(sizes) > 1 for sizes in asked):
            raise self.refuse("needs several scratch buffers")
        return max(sum(sizes) for sizes in asked)

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

    def numbers(self, name: str, values: Sequence[int]) -> str:
        """A constant array of int32_t of this layer; its name."""
        self._values.append(Value(f"{name}[{len(values)}]", "int32_t", tuple(("", str(value)) for value in values)))
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

    def copy(self) -> None:
        """Input 0 copied to the output, which has its size."""
        self.result()
        self._copy_run(0, in_place=False)

    def elementwise(self, function: str, *arguments: str, header: str) -> None:
        """A call of the C++ library that goes through the elements as TFLM's kernel does, whose in-place rule holds."""
        self._headers.add(header)
        self._call(function, arguments, "", None)

    def fast(
        self,
        function: str,
        *arguments: str,
        header: str,
        blocks: tuple[Block, ...] = (),
        backwards: tuple[Block, ...] = (),
    ) -> None:
        """A call of one of our own kernels, of input 0, which goes through its `blocks`.

        Where there are blocks for the other direction, the function has it with a last template argument.
        """
        self._headers.add(header)
        call = Call(function, arguments, self._reads(), self._writes(), copies=True, blocks=blocks)
        if backwards:
            turned = replace(call, function=f"{function.removesuffix('>')}, true>", blocks=backwards)
            call = replace(call, reverse=turned)
        self._calls.append(call)

    def alias(self, name: str, c_type: str) -> None:
        """A name for a C++ type in the layer's function."""
        self._locals.append(Local(name, "using", c_type))

    def padding(self, value: int, size: int) -> str:
        """A constant array of at least `size` elements of int8_t that are `value`, one for the whole model."""
        return self._constants.padding(value, size)

    def helper(self, function: str, *arguments: str, headers: Sequence[str] = ()) -> None:
        """A call of a function of the generated code (parts/helpers.jinja) that does not work in place."""
        self._headers.update(headers)
        self._calls.append(Call(function, arguments, self._reads(), self._writes(), copies=True))

    def copy_rows(self, source: Rows, result: Rows, rows: int, size: int) -> None:
        """`rows` times `size` bytes of an input (by place), copied to an output (by number)."""
        given, taken = self.node.input(source.tensor), self.node.output(result.tensor)
        one = _behind(self.source(source.tensor, f"input{source.tensor}"), source.at // given.type.size_bytes)
        name = "output" if len(self.node.operator.outputs) == 1 else f"output{result.tensor}"
        other = _behind(self.result(name, result.tensor), result.at // taken.type.size_bytes)
        self._headers.add("<cstring>")
        reads = () if given.is_constant else source.accesses(given.index, rows, size)
        writes = result.accesses(taken.index, rows, size)
        if rows == 1 or source.row == result.row == size:
            arguments, view = (other, one, str(rows * size)), _view(given, source.at, taken, result.at, rows * size)
            self._calls.append(Call("std::memcpy", arguments, reads, writes, copies=True, view=view))
            return
        numbers = map(str, (source.row, result.row, size, rows))
        self._calls.append(Call("CopyRows", (one, other, *numbers), reads, writes, copies=True))

    def copy_elements(self, first: int, sizes: Sequence[int], steps: Sequence[int]) -> None:
        """Elements of input 0 in the output's order: nested loops of `sizes`, in `steps` of elements, from `first` on.

        TFLM's kernels read and write in the same order, so that their in-place rules hold.
        """
        given, taken = self.source(0, "input"), self.result()
        loops = merged_loops(sizes, steps)
        if len(loops) == 1 and loops[0][1] == 1:
            self._copy_run(first, in_place=True)
            return
        if len(loops) > _MOST_LOOPS:
            raise self.refuse(f"goes through its input in {len(loops)} nested loops")
        loops = [(1, 0)] * (_MOST_LOOPS - len(loops)) + loops
        counts = self.numbers("kSizes", [size for size, _ in loops])
        strides = self.numbers("kSteps", [step for _, step in loops])
        arguments = (_behind(given, first), taken, counts, strides)
        self._calls.append(Call("CopyElements", arguments, self._reads(), self._writes()))

    def gather(self, place: int, name: str, target: str, sizes: Sequence[int], steps: Sequence[int]) -> None:
        """Elements of input `place` into the layer's scratch buffer at `target`, in nested loops as above."""
        tensor = self.node.input(place)
        loops = [*zip((1,) * (_MOST_LOOPS - len(sizes)), itertools.repeat(0)), *zip(sizes, steps, strict=True)]
        counts = self.numbers(f"kSizes{place}", [size for size, _ in loops])
        strides = self.numbers(f"kSteps{place}", [step for _, step in loops])
        arguments = (self.source(place, name), target, counts, strides)
        reads = (Access(tensor.index, 0, tensor.size_bytes),)
        self._calls.append(Call("CopyElements", arguments, reads, (), copies=True))

    def _copy_run(self, first: int, *, in_place: bool) -> None:
        """The output is a run of input 0 that begins at element `first`."""
        source, size = self.node.input(0), self.node.output().size_bytes
        at = first * source.type.size_bytes
        reads = () if source.is_constant else (Access(source.index, at, at + size),)
        self._headers.add("<cstring>")
        arguments = ("output", _behind(self.source(0, "input"), first), str(size))
        function = "std::memmove" if in_place else "std::memcpy"
        view = _view(source, at, self.node.output(), 0, size)
        self._calls.append(Call(function, arguments, reads, self._writes(), copies=not in_place, view=view))

    def _call(self, function: str, arguments: tuple[str, ...], success: str, runs: PixelRuns | None) -> None:
        self._calls.append(Call(function, arguments, self._reads(), self._writes(), success, runs))

    def _reads(self) -> tuple[Access, ...]:
        """The planned inputs, input 0 first; each whole."""
        return tuple(
            Access(pointer.tensor, 0, self.node.subgraph.tensors[pointer.tensor].size_bytes)
            for pointer in self._pointers.values()
            if not pointer.written or pointer.tensor in self._states
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
            locals=tuple(self._locals),
            macs=macs(node),
        )


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


def merged_loops(sizes: Sequence[int], steps: Sequence[int]) -> list[tuple[int, int]]:
    """Nested loops, outermost first, as few as possible: neighbours are one where the outer steps over the inner."""
    found: list[tuple[int, int]] = []
    for size, step in zip(sizes, steps, strict=True):
        if size == 1:
            continue
        if found and found[-1][1] == size * step:
            found[-1] = found[-1][0] * size, step
        else:
            found.append((size, step))
    return found or [(1, 1)]


def _view(given: Tensor, at: int, taken: Tensor, first: int, size: int) -> View | None:
    """The view that a copy of `size` bytes can be: of the part that it copies whole."""
    if size == taken.size_bytes:
        return View(taken.index, given.index, at)
    return View(given.index, taken.index, first) if size == given.size_bytes else None


def _behind(pointer: str, elements: int) -> str:
    """The expression of a place `elements` elements behind `pointer`."""
    return f"{pointer} + {elements}" if elements else pointer


def title_of(node: Node) -> str:
    """Operator and shapes for a comment: "CONV_2D int8[1][48][48][8] * int8[16][1][1][8] -> int8[1][48][48][16]"."""

    def shown(tensor: Tensor) -> str:
        return tensor.type.value + "".join(f"[{size}]" for size in tensor.shape)

    tensors = node.subgraph.tensors
    given = ", ".join(shown(tensors[i]) for i in node.operator.inputs if i >= 0)
    taken = ", ".join(shown(tensors[i]) for i in node.operator.outputs if i >= 0)
    return f"{node.operator.key} {given} -> {taken}"

# SPDX-License-Identifier: Apache-2.0
"""A compiled model: constants, layers with their kernel calls, and each buffer's place in one arena.

Nothing here is C but the texts of arguments and fields, which are expressions; templates write the functions around.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tflm_zephyr.compiler.flattening import FlatModel
from tflm_zephyr.compiler.row_program import RowForm, RowSegment, StreamedInput
from tflm_zephyr.fast_kernels import Block
from tflm_zephyr.memory_planner import Plan, align_up
from tflm_zephyr.model import Model, TensorType

_NO_WORD = re.compile(r"[^A-Za-z0-9]+")  # custom operators have names of any characters
SCRATCH = -1
"""The tensor's index in a Pointer or an Access that is of the layer's scratch buffer."""


@dataclass(frozen=True)
class ConstantArray:
    """An array in flash: `data` is little-endian, `elements` of `c_type`. `comment` names tensor and layer.

    `as_in_models`: aligned to 16 bytes, as TFLM's models have their tensors; a user's kernel may rely on that.
    """

    name: str
    c_type: str
    elements: int
    data: bytes = field(repr=False)
    comment: str = ""
    as_in_models: bool = False

    @property
    def alignment(self) -> int:
        """Bytes to align it to."""
        return 16 if self.as_in_models else 8 if len(self.data) >= 8 else 4


@dataclass(frozen=True)
class Value:
    """A constant struct: its C type, and an expression for each field in the order of its declaration.

    A field without a name is the element of an array. `shared` values stand once in a file, the others in their layer.
    """

    name: str
    c_type: str
    fields: tuple[tuple[str, str], ...]
    shared: bool = False
    array: bool = False
    assigned: bool = False

    @property
    def text(self) -> str:
        """The initialiser without its braces: "1, 48". Fields are in the order of their struct, all of them."""
        return ", ".join(value for _, value in self.fields)


@dataclass(frozen=True)
class Pointer:
    """A local pointer of a layer's function into the arena: to a tensor of the main subgraph, or to SCRATCH."""

    name: str
    c_type: str
    tensor: int
    written: bool


@dataclass(frozen=True)
class Access:
    """Bytes first <= b < end of a tensor, or of the layer's SCRATCH, that a call reads or writes."""

    tensor: int
    first: int
    end: int


@dataclass(frozen=True)
class View:
    """A tensor, `part`, whose bytes are those of another one, `whole`, from its byte `first` on."""

    part: int
    whole: int
    first: int


@dataclass(frozen=True)
class PixelRuns:
    """A call that is made once for each run of pixels: `counts` pixels each, from the first to the last or `backwards`.

    With each run the pointer `source` moves by the run's pixels of `in_bytes` each, and `result` by those of
    `out_bytes`. `dims` is the argument that has the run's number of pixels as its width, `channels` its channels.
    """

    counts: tuple[int, ...]
    source: str
    in_bytes: int
    result: str
    out_bytes: int
    dims: str
    channels: int
    backwards: bool = False


@dataclass(frozen=True)
class Call:
    """A kernel's call. `reads` and `writes` are of the whole call; with `runs`, of all of them.

    `success`: the value that the function returns when its arguments are right; "" for one that returns nothing.
    `copies`: it is no kernel of TFLM's, so that the kernels' in-place distances do not hold for it. `view`: it copies a
    whole tensor into a run of another one, or out of it, and is not needed where the one lies in the other. `blocks`:
    it is one of our own kernels, which goes through them in their order; `reverse` is the same call backwards, for an
    output above its input.
    """

    function: str
    arguments: tuple[str, ...]
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    success: str = ""
    runs: PixelRuns | None = None
    copies: bool = False
    view: View | None = None
    blocks: tuple[Block, ...] = ()
    reverse: Call | None = None

    def steps(self) -> Iterator[tuple[tuple[Access, ...], tuple[Access, ...]]]:
        """Reads and writes of each time that the function is called, or of each of its blocks."""
        if self.blocks:
            (read,), (write,) = self.reads, self.writes
            for block in self.blocks:
                reads = Access(read.tensor, block.read_first, block.read_end)
                yield (reads,), (Access(write.tensor, block.write_first, block.write_end),)
            return
        if self.runs is None:
            yield self.reads, self.writes
            return
        step, done = self.runs, 0
        for count in step.counts:
            first = sum(step.counts) - done - count if step.backwards else done
            last = first + count
            read, *others = self.reads
            (write,) = self.writes
            yield (
                (Access(read.tensor, first * step.in_bytes, last * step.in_bytes), *others),
                (Access(write.tensor, first * step.out_bytes, last * step.out_bytes),),
            )
            done += count


@dataclass(frozen=True)
class FramedTensor:
    """A tensor as TFLM's own kernel sees it. `constant`, `scales` and `zero_points` name constant arrays, "" for none.

    `tensor` is its index in the main subgraph. The arrays of scales and zero points begin with their number.
    """

    tensor: int
    type: TensorType
    shape: tuple[int, ...]
    size_bytes: int
    constant: str
    scales: str
    zero_points: str
    dimension: int
    variable: bool


@dataclass(frozen=True)
class Framed:
    """TFLM's own kernel of an operator. `register`: the C++ expression of its registration.

    `inputs`, `outputs` and `intermediates` are places in `tensors`, -1 for an absent one. `options`: the C struct of a
    builtin operator's options with its fields; `custom_options` names the array of a custom operator's.
    `scratch_bytes` are the buffers that it requests, in its order, `persistent_bytes` all that it allocates, each
    rounded up to 16; where its kernel is not `known`, the latter is an allowance for both. `options_copy_bytes` is the
    size of the copy of the options in the arena, rounded up to 16, for a kernel whose Prepare changes them; else 0.
    """

    register: str
    tensors: tuple[FramedTensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    intermediates: tuple[int, ...]
    options: tuple[str, tuple[tuple[str, str], ...]] | None
    custom_options: str
    custom_bytes: int
    is_custom: bool
    scratch_bytes: tuple[int, ...]
    persistent_bytes: int
    known: bool
    options_copy_bytes: int = 0

    @property
    def name(self) -> str:
        """The registration function's name without its namespace: "Register_SVDF_INT8"."""
        return self.register.removesuffix("()").rpartition("::")[2]


@dataclass(frozen=True)
class Copy:
    """`size` bytes from a tensor, or the array `constant` where it has a name, to the tensor `target`."""

    source: int
    constant: str
    target: int
    size: int


@dataclass(frozen=True)
class Branch:
    """A run of a subgraph, with the copies before and after it."""

    before: tuple[Copy, ...]
    subgraph: int
    after: tuple[Copy, ...]


@dataclass(frozen=True)
class Control:
    """An operator that runs subgraphs. `kind` is its key, `condition` the tensor whose one byte decides.

    IF: the first branch where the condition holds, else the second. WHILE: `start`, the first branch, and as long as
    the condition holds the second and the first again. CALL_ONCE: the branch, unless the byte is set, which it then is.
    """

    kind: str
    condition: int
    start: tuple[Copy, ...]
    branches: tuple[Branch, ...]


@dataclass(frozen=True)
class Local:
    """A local struct of a layer's function that points into its scratch buffer: "const cmsis_nn_context"."""

    name: str
    c_type: str
    text: str


@dataclass(frozen=True)
class Layer:
    """An operator of the main subgraph as code.

    `operator` is its index in the running order. `title` names operator, types and shapes. `macs` is its work.
    `framed`: the one call is of TFLM's own kernel. `views` are the copies that it does not need; `locals` are
    CMSIS-NN's structs of its scratch buffers where there are several. `rows`: its form for some rows, or
    else `no_rows` says why it has none. `fast`: the call is of one of our own kernels; where that was asked for and is
    not so, `not_fast` says why. `leaner` are layers of the same outputs that need less scratch, or may have them nearer
    to their input, at more work each: `extra_work`, in multiply-accumulates, where their kernels were measured.

    The last layer of a `segment` has the code of all its `members`, and their row buffers as its scratch buffer; the
    others are `inside` it.
    """

    operator: int
    key: str
    title: str
    pointers: tuple[Pointer, ...]
    values: tuple[Value, ...]
    calls: tuple[Call, ...]
    headers: tuple[str, ...]
    functions: tuple[str, ...]
    scratch_bytes: int = 0
    macs: int = 0
    framed: Framed | None = None
    views: tuple[View, ...] = ()
    locals: tuple[Local, ...] = ()
    control: Control | None = None
    rows: RowForm | None = None
    no_rows: str = ""
    segment: RowSegment | None = None
    fast: bool = False
    not_fast: str = ""
    leaner: tuple[Layer, ...] = ()
    extra_work: float = 0.0
    members: tuple[Layer, ...] = ()
    inside: bool = False

    @property
    def has_code(self) -> bool:
        """Whether the layer has a function."""
        return bool(self.calls) or self.control is not None or self.segment is not None

    @property
    def runs(self) -> bool:
        """Whether the function runs the layer; that of a segment with streamed input takes in rows."""
        return self.has_code and (self.segment is None or self.segment.stream is None)

    @property
    def name(self) -> str:
        """The function's name: "Layer3Conv2d", or "Layers0To3" for a segment."""
        if self.segment is not None:
            return f"Layers{self.members[0].operator}To{self.operator}"
        return f"Layer{self.operator}" + "".join(word.capitalize() for word in _NO_WORD.split(self.key))

    def moves(self, pointer: str) -> bool:
        """Whether the pointer moves on between the runs of a call."""
        return any(
            call.runs is not None and len(call.runs.counts) > 1 and pointer in (call.runs.source, call.runs.result)
            for call in self.calls
        )


def _why_whole(layer: Layer) -> str:
    """Why a layer that is in no segment runs on whole tensors."""
    if layer.framed is not None:
        return "keeps TFLM's own kernel, which takes whole tensors"
    if layer.control is not None:
        return "runs other layers"
    return layer.no_rows or "would not make the model smaller"


def more_work(layers: Sequence[Layer]) -> float:
    """The estimated work of segments, runs of pixels and leaner layers beyond that of the model, as a share."""
    total = 0.0
    for layer in layers:
        total += layer.extra_work
        if layer.segment is not None:
            total += layer.segment.cost
        for call in layer.calls:
            if call.runs is not None:
                total += (len(call.runs.counts) - 1) * layer.macs / sum(call.runs.counts)
    work = sum(layer.macs for layer in layers)
    return total / work if work else 0.0


@dataclass(frozen=True)
class Place:
    """A buffer of the map: tensors (or a layer's scratch) in bytes first <= b < end of the arena, while layers run."""

    label: str
    first: int
    end: int
    born: int
    dead: int


class Chosen(Protocol):
    """The kernels of a model's layers, chosen by their costs: kernel_choice.Choice."""

    def functions(self, layers: Sequence[Layer]) -> dict[str, tuple[int, int]]:
        """Our functions that the planned `layers` call: estimated bytes of code, and by how much that may differ."""

    @property
    def cycles(self) -> int:
        """Estimated cycles of all layers with a choice of kernels."""

    @property
    def other_cycles(self) -> int:
        """The same with CMSIS-NN's kernels."""

    @property
    def call_bytes(self) -> int:
        """Bytes of the layers' functions that call them."""

    @property
    def complete(self) -> bool:
        """Whether all layers with our kernels were measured."""

    @property
    def more_flash_bytes(self) -> int:
        """Estimated bytes of flash that the choice takes more than CMSIS-NN's kernels do."""

    def remark(self, arena_bytes: int, slower: float) -> str:
        """The costs in words; `arena_bytes` is all RAM, `slower` the share of the work that smaller buffers add."""

    def report(self) -> dict[str, Any]:
        """The numbers of the whole model."""

    def layer_report(self, operator: int) -> dict[str, Any]:
        """The numbers of a layer; nothing where it had no choice."""


@dataclass(frozen=True)
class CompiledModel:
    """A model as code. `offsets` gives the arena offset of each tensor of the main subgraph that is not constant.

    `scratch` is each layer's scratch offset. `arena_bytes` is all RAM: tensors, scratch and state. `plan` is the packed
    plan behind it, `places` the buffer map for people. `shared` are the structs that layers have in common.
    `state_bytes` at the arena's end are those of TFLM's own kernels, with a pointer for each, on a 32-bit Arm core;
    while these prepare, TfLiteTensors take `prepare_bytes` at its beginning.

    A model with subgraphs or resource variables is flattened (`flat`, see flattening.FlatModel): `bodies` has the
    layers of each subgraph that runs, by operator, the main one's as 0; without, all layers are the main subgraph's.
    `steps` is the number of steps that `places` count. `owners` gives each buffer of `plan` its tensor of the main
    subgraph, the largest where several share it, or SCRATCH and its layer. `choice`: how kernels were chosen by their
    costs.
    """

    model: Model
    layers: tuple[Layer, ...]
    constants: tuple[ConstantArray, ...]
    shared: tuple[Value, ...]
    offsets: dict[int, int]
    scratch: dict[int, int]
    arena_bytes: int
    plan: Plan
    places: tuple[Place, ...]
    state_bytes: int = 0
    prepare_bytes: int = 0
    flat: FlatModel | None = None
    bodies: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    steps: int = 0
    owners: tuple[tuple[int, int], ...] = ()
    choice: Chosen | None = None

    @property
    def slower(self) -> float:
        """The estimated share of its work that the model takes more than it would by whole layers."""
        return more_work(self.layers)

    @property
    def main_layers(self) -> tuple[Layer, ...]:
        """The layers of the main subgraph, in their order."""
        return self.layers if not self.bodies else self.body(0)

    def body(self, subgraph: int) -> tuple[Layer, ...]:
        """The layers of a subgraph, in their order."""
        by_operator = {layer.operator: layer for layer in self.layers}
        return tuple(by_operator[operator] for operator in self.bodies[subgraph])

    @property
    def flags(self) -> tuple[int, ...]:
        """The tensors that tell whether a CALL_ONCE has run."""
        return () if self.flat is None else tuple(t for t in self.flat.flags.values() if t in self.offsets)

    @property
    def called(self) -> tuple[int, ...]:
        """The subgraphs that operators run, sorted."""
        return tuple(sorted(subgraph for subgraph in self.bodies if subgraph))

    @property
    def planned_bytes(self) -> int:
        """The arena without the state of TFLM's own kernels."""
        return self.arena_bytes - self.state_bytes

    @property
    def option_copies(self) -> dict[int, int]:
        """The place of each layer's copy of its kernel's options, behind the pointers to data, by operator."""
        found, end = {}, 0
        for layer in self.framed:
            assert layer.framed is not None
            if layer.framed.options_copy_bytes:
                found[layer.operator] = end
                end += layer.framed.options_copy_bytes
        return found

    @property
    def option_copies_bytes(self) -> int:
        """The size of all these copies."""
        return sum(layer.framed.options_copy_bytes for layer in self.framed if layer.framed is not None)

    @property
    def framed(self) -> tuple[Layer, ...]:
        """The layers that are TFLM's own kernels."""
        return tuple(layer for layer in self.layers if layer.framed is not None)

    @property
    def dims(self) -> tuple[tuple[int, ...], ...]:
        """Shapes, and places of tensors, that the frames of TFLM's own kernels need; each once, sorted."""
        found = set()
        for layer in self.framed:
            assert layer.framed is not None
            found |= {tensor.shape for tensor in layer.framed.tensors}
            found |= {layer.framed.inputs, layer.framed.outputs, layer.framed.intermediates}
        return tuple(sorted(found))

    @property
    def flash_bytes(self) -> int:
        """Bytes of the constant arrays."""
        return sum(len(constant.data) for constant in self.constants)

    def offset(self, layer: Layer, pointer: Pointer) -> int:
        """Where in the arena the pointer of `layer` points to; behind the last pixel where runs go backwards."""
        if pointer.tensor == SCRATCH:
            return self.scratch[layer.operator]
        offset = self.offsets[pointer.tensor]
        if layer.moves(pointer.name) and any(call.runs is not None and call.runs.backwards for call in layer.calls):
            offset += self.model.main.tensors[pointer.tensor].size_bytes
        return offset

    def scratch_buffers(self, layer: Layer) -> tuple[tuple[int, int], ...]:
        """Arena offset and bytes of each scratch buffer of TFLM's own kernel."""
        assert layer.framed is not None
        found, offset = [], self.scratch.get(layer.operator, 0)
        for size in layer.framed.scratch_bytes:
            found.append((offset, size))
            offset += align_up(size, 16)
        return tuple(found)

    @property
    def headers(self) -> tuple[str, ...]:
        """The headers that the layers' kernels are declared in, sorted."""
        return tuple(sorted({header for layer in self.layers for header in layer.headers}))

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions of CMSIS-NN that the layers call, sorted."""
        return tuple(sorted({name for layer in self.layers for name in layer.functions}))

    @property
    def called_functions(self) -> frozenset[str]:
        """All functions that the layers call."""
        found = {call.function for layer in self.layers for call in layer.calls}
        forms = [form for layer in self.segments if layer.segment for form in layer.segment.forms.values()]
        found |= {form.function for form in forms}
        return frozenset(found | {form.gathering.function for form in forms if form.gathering})

    def gathering_types(self, function: str) -> tuple[str, ...]:
        """The output types of the layers whose sums `function` takes in segments, sorted."""
        forms = [form for layer in self.segments if layer.segment for form in layer.segment.forms.values()]
        found = {form.output.c_type for form in forms if form.gathering and form.gathering.function == function}
        return tuple(sorted(found))

    @property
    def why_no_rows(self) -> dict[int, str]:
        """By operator with code, why it runs on whole tensors: it cannot run row by row, or would save nothing."""
        inside = {member.operator for layer in self.layers for member in layer.members}
        return {
            layer.operator: _why_whole(layer)
            for layer in self.layers
            if layer.operator not in inside and (layer.calls or layer.control is not None or layer.framed)
        }

    @property
    def unseen(self) -> frozenset[int]:
        """Tensors of layers inside segments, which are not there yet when their operator has its turn."""
        operators = self.model.main.operators
        return frozenset(i for layer in self.layers if layer.inside for i in operators[layer.operator].outputs)

    @property
    def longest_step(self) -> int:
        """The most rows of a step of any segment; 0 without segments."""
        loops = [loop for layer in self.segments if layer.segment for loop in layer.segment.loops]
        return max((count for loop in loops for _, count in loop.steps), default=0)

    @property
    def segments(self) -> tuple[Layer, ...]:
        """The layers that are segments."""
        return tuple(layer for layer in self.layers if layer.segment is not None)

    @property
    def streaming_layer(self) -> Layer | None:
        """The segment that takes in the rows of a streamed input."""
        return next((layer for layer in self.segments if layer.segment and layer.segment.stream), None)

    @property
    def stream(self) -> StreamedInput | None:
        """The input that comes row by row."""
        layer = self.streaming_layer
        return None if layer is None or layer.segment is None else layer.segment.stream

    @property
    def runs_rows(self) -> bool:
        """Whether a segment runs at once, on tensors that are there."""
        return any(layer.runs for layer in self.segments)

    @property
    def constant_offsets(self) -> tuple[tuple[ConstantArray, int], ...]:
        """Each constant array, and the first of its bytes in `constant_bytes`."""
        found, first = [], 0
        for constant in self.constants:
            found.append((constant, first))
            first += len(constant.data)
        return tuple(found)

    @property
    def constant_bytes(self) -> bytes:
        """The data of all constant arrays, one after the other."""
        return b"".join(constant.data for constant in self.constants)

    def report(self) -> dict[str, Any]:
        """The numbers of `generate --json`."""
        by_rows = {
            operator: [{"function": layer.segment.forms[operator].function, "times": times}]
            for layer in self.segments
            if layer.segment is not None
            for operator, times in layer.segment.calls.items()
        }
        return {
            "arena_bytes": self.arena_bytes,
            "constant_bytes": self.flash_bytes,
            "state_bytes": self.state_bytes,
            "layers": [
                {
                    "operator": layer.operator,
                    "key": layer.key,
                    "framed": layer.framed is not None,
                    "calls": [
                        {"function": call.function, "times": 1 if call.runs is None else len(call.runs.counts)}
                        for call in layer.calls
                    ]
                    or by_rows.get(layer.operator, []),
                    **({"fast": layer.fast, "not_fast": layer.not_fast} if layer.fast or layer.not_fast else {}),
                    **({} if self.choice is None else self.choice.layer_report(layer.operator)),
                }
                for layer in self.layers
            ],
            **({} if self.choice is None else {"choice": self.choice.report()}),
        }

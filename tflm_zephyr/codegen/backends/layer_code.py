# SPDX-License-Identifier: Apache-2.0
"""The parts of a compiled model's functions as C++ text, for templates/app/compiled to write the functions around."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tflm_zephyr.codegen.backends import cxx
from tflm_zephyr.compiler import (
    SCRATCH,
    CompiledModel,
    ControlLayer,
    FallbackLayer,
    KernelCall,
    KernelLayer,
    Layer,
    Library,
    RowForm,
    SegmentLayer,
    structs,
)
from tflm_zephyr.compiler import operands as ops
from tflm_zephyr.compiler import row_operands as rows
from tflm_zephyr.memory_planner import align_up
from tflm_zephyr.tflm import ALIGNMENT

_NO_WORD = re.compile(r"[^A-Za-z0-9]+")  # custom operators have names of any characters
_SWAPPED = (
    ("stride_width", "stride_height"),
    ("filter_width", "filter_height"),
    ("dilation_width_factor", "dilation_height_factor"),
)


@dataclass(frozen=True)
class Declaration:
    """A constant of a layer's function: `text` is its initialiser, or `rows` are assigned to what was zero."""

    type: str
    name: str
    text: str
    rows: tuple[tuple[str, str], ...] = ()


def layer_name(layer: Layer) -> str:
    """The name of a layer's function: "Layer3Conv2d", or "Layers0To3" for a segment."""
    if isinstance(layer, SegmentLayer):
        return f"Layers{layer.members[0].operator}To{layer.operator}"
    return f"Layer{layer.operator}" + "".join(word.capitalize() for word in _NO_WORD.split(layer.key))


def declared(value: structs.Parameter) -> Declaration:
    """The declaration of a constant."""
    if isinstance(value, structs.Numbers):
        values = ", ".join(map(str, value.values))
        return Declaration("int32_t", f"{value.name}[{len(value.values)}]", "{" + values + "}")
    if isinstance(value, structs.Scalar):
        return Declaration(value.type.c_type, value.name, cxx.number(value.value))
    if value.zeroed:
        return Declaration(value.type, value.name, "", tuple(cxx.assignments(value.fields)))
    return Declaration(value.type, value.name, "{" + cxx.braced(value.fields) + "}")


def local_text(value: structs.LocalStruct) -> str:
    """The declaration of a struct that points into the scratch buffer."""
    values = ", ".join(map(cxx.field, value.values))
    return f"{'const ' if value.constant else ''}{value.type} {value.name} = {{{values}}};"


def locals_of(layer: KernelLayer) -> list[str]:
    """The declarations behind the pointers of a layer's function."""
    kernels = dict.fromkeys(call.kernel for call in layer.calls)
    return [*map(local_text, layer.locals), *(text for kernel in kernels for text in cxx.aliases(kernel))]


def moves(layer: KernelLayer, pointer: str) -> bool:
    """Whether the pointer moves on between the runs of a call."""
    return any(
        call.runs is not None and len(call.runs.counts) > 1 and pointer in (call.runs.source, call.runs.result)
        for call in layer.calls
    )


# Rows


def row_locals(form: RowForm) -> list[str]:
    """The declarations behind the pointers of a layer's function for rows."""
    operands = form.call.operands
    found = dict.fromkeys(cxx.aliases(form.call.kernel))
    for kinds in (_ELEMENTS, rows.FlatRowShape, (rows.RowDims, rows.RowShape), rows.RowParameters):
        for operand in operands:
            if isinstance(operand, kinds):
                found.update(dict.fromkeys(_declares(operand, elements=kinds is _ELEMENTS)))
    return list(found)


_ELEMENTS = (rows.RowElements, rows.FlatRowShape, rows.RowEnd)


def _declares(operand: ops.Operand, *, elements: bool) -> Iterator[str]:
    """The locals that a row operand names; `elements`: the number of elements alone."""
    match operand:
        case rows.RowElements(each) | rows.FlatRowShape(each) | rows.RowEnd(_, each) if elements:
            yield f"const int32_t elements = count * {each};"
        case rows.FlatRowShape():
            yield "const tflite::RuntimeShape shape(1, &elements);"
        case rows.RowDims():
            yield f"const cmsis_nn_dims {cxx.row_name(operand.side, 'dims')} = {{{_sizes(operand)}}};"
        case rows.RowShape():
            sizes = cxx.row_name(operand.side, "sizes")
            yield f"const int32_t {sizes}[] = {{{_sizes(operand)}}};"
            yield f"const tflite::RuntimeShape {cxx.row_name(operand.side, 'shape')}(4, {sizes});"
        case rows.RowParameters():
            yield from _changed(operand.struct, operand.change)


def _sizes(operand: rows.RowDims | rows.RowShape) -> str:
    return f"1, {cxx.operand(operand.rows)}, {operand.pixels}, {operand.channels}"


def _changed(struct: structs.Struct, change: rows.Change) -> Iterator[str]:
    """The parameters for some rows: a copy of those for the whole tensor, and what differs."""
    name = struct.name
    yield f"{'auto' if struct.zeroed else struct.type} params = {name};"
    if change is rows.Change.PADDED:
        yield "params.left_padding[1] = std::min<int32_t>(window.padding, count);"
        yield "params.right_padding[1] = count - params.left_padding[1] - window.rows;"
    elif change is rows.Change.PADDING:
        yield f"params.{'padding_values.height' if struct.zeroed else 'padding.h'} = window.padding;"
    elif struct.zeroed:
        yield f"params.padding_values.width = {name}.padding_values.height;"
        yield "params.padding_values.height = window.padding;"
        for pair in _SWAPPED:
            if pair[0] in dict(struct.fields):
                yield from (f"params.{one} = {name}.{other};" for one, other in (pair, pair[::-1]))
    else:
        yield f"params.stride = {{{name}.stride.h, {name}.stride.w}};"
        yield f"params.padding = {{{name}.padding.h, window.padding}};"
        if "dilation" in dict(struct.fields):
            yield f"params.dilation = {{{name}.dilation.h, {name}.dilation.w}};"


def scratch_locals(form: RowForm) -> list[str]:
    """The structs of the scratch buffer that a call for rows names."""
    addresses = (one.value for one in form.call.operands if isinstance(one, ops.AddressOf))
    return [local_text(one) for one in addresses if isinstance(one, structs.LocalStruct)]


def reads_window(form: RowForm) -> bool:
    """Whether the call for rows, or what it declares, names the window's rows or padding."""
    direct = any(isinstance(one, rows.WindowRows | rows.WindowPadding) for one in form.call.operands)
    return direct or declares_window(form)


def declares_window(form: RowForm) -> bool:
    """Whether what the call declares names them."""
    return any(
        isinstance(one, rows.RowParameters)
        or (isinstance(one, rows.RowDims | rows.RowShape) and isinstance(one.rows, rows.WindowRows))
        for one in form.call.operands
    )


# Models


@dataclass(frozen=True)
class ModelCode:
    """A compiled model for the templates."""

    program: CompiledModel

    def kind(self, layer: Layer) -> str:
        """The kind of function that a layer has: "control", "segment", "fallback" or "calls"."""
        kinds = {ControlLayer: "control", SegmentLayer: "segment", FallbackLayer: "fallback"}
        return kinds.get(type(layer), "calls")

    def offset(self, layer: KernelLayer, pointer: structs.Pointer) -> int:
        """Where in the arena a pointer points to; behind the last pixel where runs go backwards."""
        program = self.program
        if pointer.tensor == SCRATCH:
            return program.scratch[layer.operator]
        offset = program.offsets[pointer.tensor]
        if moves(layer, pointer.name) and any(call.runs is not None and call.runs.backwards for call in layer.calls):
            offset += program.model.main.tensors[pointer.tensor].size_bytes
        return offset

    @property
    def shared(self) -> list[str]:
        """The constants that layers have in common."""
        return [shared_text(operand) for operand in self.program.shared]

    @property
    def constants(self) -> tuple[tuple[structs.ConstantArray, int], ...]:
        """Each constant array, and the first of its bytes in constant_bytes()."""
        found, first = [], 0
        for constant in self.program.constants:
            found.append((constant, first))
            first += len(constant.data)
        return tuple(found)

    @property
    def helpers(self) -> frozenset[str]:
        """The helpers of the generated code that the layers call."""
        return frozenset(kernel.name for kernel in self.program.kernels if kernel.library is Library.HELPER)

    @property
    def uses_no_context(self) -> bool:
        """Whether a call, of whole layers or of rows, has CMSIS-NN's context without a buffer."""
        calls = [call for layer in self.program.layers for call in layer.calls]
        calls += [form.call for layer in self.program.segments for form in layer.segment.forms.values()]
        return any(ops.NoContext() in call.operands for call in calls)

    def gathering_types(self, function: str) -> tuple[str, ...]:
        """The output types of the layers whose sums `function` takes in segments, sorted."""
        forms = [form for layer in self.program.segments for form in layer.segment.forms.values()]
        gathered = (form for form in forms if form.gathering and form.gathering.last.kernel.name == function)
        return tuple(sorted({form.output.type.c_type for form in gathered}))

    @property
    def longest_step(self) -> int:
        """The most rows of a step of any segment; 0 without segments."""
        loops = [loop for layer in self.program.segments for loop in layer.segment.loops]
        return max((count for loop in loops for _, count in loop.steps), default=0)

    @property
    def runs_rows(self) -> bool:
        """Whether a segment runs at once, on tensors that are there."""
        return any(layer.segment.stream is None for layer in self.program.segments)

    @property
    def has_loops(self) -> bool:
        """Whether segments have loops of steps."""
        return any(layer.segment.loops for layer in self.program.segments)

    @property
    def longest_hop(self) -> int:
        """The most rows of a call of a hop, or its most layers; 0 without hops."""
        hop = self.program.hop
        calls = () if hop is None else (*hop.pushed, *hop.invoked)
        return max((max(call.count, call.member) for call in calls), default=0)

    # TFLM's own kernels

    @property
    def dims(self) -> tuple[tuple[int, ...], ...]:
        """Shapes, and places of tensors, that the tables of TFLM's own kernels need; each once, sorted."""
        found = set()
        for layer in self.program.fallbacks:
            found |= {tensor.shape for tensor in layer.kernel.tensors}
            found |= {layer.kernel.inputs, layer.kernel.outputs, layer.kernel.intermediates}
        return tuple(sorted(found))

    def scratch_buffers(self, layer: FallbackLayer) -> tuple[tuple[int, int], ...]:
        """Arena offset and bytes of each scratch buffer of TFLM's own kernel."""
        found, offset = [], self.program.scratch.get(layer.operator, 0)
        for size in layer.kernel.scratch_bytes:
            found.append((offset, size))
            offset += align_up(size, ALIGNMENT)
        return tuple(found)

    @property
    def option_copies(self) -> dict[int, int]:
        """The place of each layer's copy of its kernel's options, behind the pointers to data, by operator."""
        found, end = {}, 0
        for layer in self.program.fallbacks:
            if layer.kernel.options_copy_bytes:
                found[layer.operator] = end
                end += layer.kernel.options_copy_bytes
        return found

    @property
    def option_copies_bytes(self) -> int:
        """The size of all these copies."""
        return sum(layer.kernel.options_copy_bytes for layer in self.program.fallbacks)

    def option_rows(self, layer: FallbackLayer) -> list[tuple[str, str]]:
        """The fields of a kernel's options."""
        return [] if layer.kernel.options is None else list(cxx.assignments(layer.kernel.options.fields))


def shared_text(operand: ops.Dims | ops.Shape) -> str:
    """The declaration of an operand that a file has once."""
    if isinstance(operand, ops.Shape):
        return f"int32_t {cxx.shape_name(operand)}[] = {{{', '.join(map(str, operand.sizes))}}}"
    fields = cxx.braced(tuple(zip("nhwc", operand.sizes, strict=True)))
    return f"cmsis_nn_dims {cxx.dims_name(operand)} = {{{fields}}}"


def list_name(values: Sequence[int]) -> str:
    """The name of a list of ints, by its content: "kList1_49_40", n for -1."""
    return "kList" + "_".join("n" if value < 0 else str(value) for value in values)


def constant_bytes(program: CompiledModel) -> bytes:
    """The data of all constant arrays, one after the other."""
    return b"".join(constant.data for constant in program.constants)


def constant_section(program: CompiledModel) -> bytes:
    """The section that the assembler makes of the constants: each aligned, an empty one with a byte of its own."""
    section = b""
    for constant in program.constants:
        section += bytes(-len(section) % constant.alignment) + (constant.data or b"\0")
    return section


def functions_of(program: CompiledModel) -> tuple[str, ...]:
    """The functions of CMSIS-NN that the layers call, sorted."""
    return tuple(sorted({kernel.name for kernel in program.kernels if kernel.library is Library.CMSIS_NN}))


def report(program: CompiledModel) -> dict[str, object]:
    """The numbers of `generate --json`."""
    return {
        "arena_bytes": program.arena_bytes,
        "constant_bytes": program.flash_bytes,
        "state_bytes": program.state_bytes,
        "layers": [
            {
                "operator": layer.operator,
                "key": layer.key,
                "fallback": isinstance(layer, FallbackLayer),
                "calls": [{"function": name, "times": times} for name, times in _calls(program, layer)],
                **({"fast": layer.fast, "not_fast": layer.not_fast} if layer.fast or layer.not_fast else {}),
                **({} if program.choice is None else program.choice.layer_report(layer.operator)),
            }
            for layer in program.layers
        ],
        **({} if program.choice is None else {"choice": program.choice.report()}),
    }


def _calls(program: CompiledModel, layer: Layer) -> Iterator[tuple[str, int]]:
    """A layer's kernels, and how often each is called; those of a segment's members are by rows."""

    def name(call: KernelCall) -> str:
        return cxx.kernel_name(call.kernel)

    yield from ((name(call), 1 if call.runs is None else len(call.runs.counts)) for call in layer.calls)
    for segment in (one.segment for one in program.segments):
        if layer.operator in segment.calls:
            yield name(segment.forms[layer.operator].call), segment.calls[layer.operator]

# SPDX-License-Identifier: Apache-2.0
"""Compiled code: each operator is a call of its kernel with constant parameters; no interpreter, no flatbuffer."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tflm_zephyr.arena import ArenaPlan
from tflm_zephyr.boards import CMSIS_NN, kernel_stack_bytes
from tflm_zephyr.codegen.backends import cxx, layer_code
from tflm_zephyr.codegen.backends.backend import (
    Backend,
    BackendSizes,
    BuildSetup,
    SizePart,
    SourceLists,
    canaries,
    prepared_once,
)
from tflm_zephyr.codegen.backends.compiled_sizes import measured_code, savings, without_interpreter
from tflm_zephyr.codegen.backends.fallback_kernels import registrations, remark, untyped_names
from tflm_zephyr.codegen.backends.interpreter_model import interpreter_model, linked_names
from tflm_zephyr.codegen.custom_operators import custom_operator
from tflm_zephyr.codegen.prepared_model import AppKernels, PreparedModel
from tflm_zephyr.codegen.spec import AppSpec, ArenaSpec, ModelSpec, Runtime, StreamSpec, TensorSpec
from tflm_zephyr.compiler import FAST_KEYS, OPERATORS, CompiledModel, CompilerOptions, Kernel, Search
from tflm_zephyr.errors import AppError
from tflm_zephyr.kernels import RESOLVER_ENTRY_BYTES, KernelLibrary, same_cmsis_nn
from tflm_zephyr.memory_planner import align_up
from tflm_zephyr.model import Model, Operator, Tensor, TensorType
from tflm_zephyr.options import COMPILED, AppConfig, ModelConfig, refuse_foreign
from tflm_zephyr.tflm import TflmRevision, op_resolver, sources

_ROW_BUFFER_BYTES = 20
_SEGMENT_FRAME_BYTES, _STREAM_FRAME_BYTES = 96, 144
_FAST_STACK_BYTES = 256  # GCC 12.2 takes 176 at -O2, and the layer's function at most 40
_MOST_LISTED = 4  # layers with the same reason in a remark
_KINDS = tuple(TensorType)  # in the order of the schema's numbers


@dataclass(frozen=True)
class CompiledSpec:
    """A model as compiled code. `data` is the .tflite file that TFLM on the host runs in its place.

    `registrations` are TFLM's functions whose kernels call the same functions, for the bound of the stack: no layer
    goes deeper than TFLM's kernel of its operator. `linked` are those of operators whose kernels are not all ours.
    `custom_headers` declare the registrations of the user's operators.
    """

    data: bytes
    program: CompiledModel
    cores: tuple[str, ...]
    registrations: tuple[str, ...] = ()
    custom_headers: tuple[str, ...] = ()
    linked: tuple[str, ...] = ()

    @property
    def flash_bytes(self) -> int:
        """Bytes of weights and parameters."""
        return self.program.flash_bytes

    @property
    def kernel_names(self) -> tuple[str, ...]:
        """The kernels' functions, sorted."""
        return tuple(sorted({cxx.listed_name(kernel) for kernel in self.program.kernels}))

    @property
    def fixed_head_bytes(self) -> int | None:
        """All RAM of the model."""
        return self.program.arena_bytes

    @property
    def extra_stack_bytes(self) -> int:
        """Bytes of stack of the largest segment's function, between its caller and its layers' functions.

        GCC 12.2 took 36 bytes beside the row buffers at -Os and -O2, in one frame, and 76 at -O0 in two; where rows of
        the input are taken in, 60 in one frame, and 140 at -O0 in three.
        """
        segments = [layer.segment for layer in self.program.segments]
        frames = [_SEGMENT_FRAME_BYTES if segment.stream is None else _STREAM_FRAME_BYTES for segment in segments]
        buffers = [len(one.buffers) if one.hop is None else 2 * len(one.hop.buffers) for one in segments]
        sizes = [_ROW_BUFFER_BYTES * count + frame for count, frame in zip(buffers, frames, strict=True)]
        return max((align_up(size, 16) for size in sizes), default=0)

    @property
    def stream(self) -> StreamSpec | None:
        """See Runtime."""
        found, main = self.program.stream, self.program.model.main
        if found is None:
            return None
        element_bytes = main.tensors[main.inputs[found.input]].type.size_bytes
        hop = None if self.program.hop is None else self.program.hop.every
        return StreamSpec(found.input, found.rows, found.row_bytes // element_bytes, found.row_bytes, hop)

    @property
    def own_memory(self) -> str:
        """See Runtime."""
        return "a memory plan that is compiled in"

    def identity(self) -> bytes:
        """The arena's size."""
        return str(self.program.arena_bytes).encode()

    def report(self) -> dict[str, Any]:
        """The layers and their kernels."""
        return layer_code.report(self.program)


def runtime_of(model: ModelSpec) -> CompiledSpec:
    """The CompiledSpec of a model of an app with this backend."""
    return _own(model.runtime)


def _own(runtime: Runtime) -> CompiledSpec:
    assert isinstance(runtime, CompiledSpec), "the model is of another backend"
    return runtime


def core_of(library: KernelLibrary) -> str:
    """The kind of a library's core as CMSIS-NN tells them apart: plain, dsp or helium."""
    return "helium" if library.core.mve else "dsp" if library.core.dsp else "plain"


class Compiled(Backend):
    """Kernel calls with constant parameters, in one arena that the compiler plans."""

    name: ClassVar[str] = COMPILED
    templates: ClassVar[str] = "compiled"
    cmake_include: ClassVar[str] = "cmake/compiled.cmake"
    zephyr_modules: ClassVar[tuple[str, ...]] = ("tflite-micro",)
    answers_host: ClassVar[bool] = True
    measured_base: ClassVar[bool] = True
    prepares_on_device: ClassVar[bool] = False

    def prepare(self, config: ModelConfig, model: Model, setup: BuildSetup) -> PreparedModel:
        """See Backend. The order of the operators is that of the interpreter's arena."""
        _check_library(config, setup)
        refuse_foreign([setup.app, config], COMPILED, config.label)
        return prepared_once(config, model, setup)

    def build(self, item: PreparedModel, setup: BuildSetup) -> tuple[Runtime, ArenaSpec]:
        """See Backend."""
        program = _compiled(item, setup)
        cores = tuple(sorted({core_of(library) for library in setup.own.libraries}))
        layers = len(program.layers)
        note = f"tensors and scratch of {layers} {'layer' if layers == 1 else 'layers'}"
        if program.stream is not None:
            note += f", input {program.stream.input} in {program.stream.rows:,} rows"
        if program.hop is not None:
            note += f", {program.hop.every:,} of them new in each window"
        if program.fallbacks:
            note += f", {program.state_bytes} bytes for TFLM's own kernels of {len(program.fallbacks)} of them"
        unknown = tuple(dict.fromkeys(layer.key for layer in program.fallbacks if not layer.kernel.known))
        interpreted, _ = interpreter_model(item, setup)
        headers = tuple(sorted({custom.header for custom in item.config.custom_operators}))
        wholly_own = {layer.key for layer in program.layers if layer.fast}
        wholly_own -= {layer.key for layer in program.layers if not layer.fast}
        linked = interpreted.registrations if not wholly_own else linked_names(item, setup, without=wholly_own)
        bounds = interpreted.registrations if item.refusal is None else ("",)  # none of TFLM's kernels is as deep
        runtime = CompiledSpec(item.data, program, cores, bounds, headers, linked)
        return runtime, ArenaSpec(program.arena_bytes, "planned", note, unknown=unknown)

    def sources(self, prepared: Sequence[PreparedModel], runtimes: Sequence[Runtime], setup: BuildSetup) -> SourceLists:
        """CMSIS-NN's functions that the layers call, what TFLM's reference functions call, and TFLM's own kernels."""
        programs = [_own(runtime).program for runtime in runtimes]
        functions = {name for program in programs for name in layer_code.functions_of(program)}
        (library,) = setup.kernels
        table = setup.tflm.sources[library]
        tflm = set(sources.REFERENCE_SUPPORT) if any(map(uses_tflm, programs)) else set()
        kept = (untyped_names(item, program) for item, program in zip(prepared, programs, strict=True))
        tflm |= set(table.select_kernels(set().union(*kept)))
        arm = {*table.select_entry_points(functions), *table.select_functions(tflm)}
        return SourceLists({library: tuple(sorted(tflm))}, tuple(sorted(arm)), sources.INCLUDE_DIRS)

    def notes(self, app: AppSpec) -> tuple[str, ...]:
        """The operators that run TFLM's own kernels, and what that costs; the layers with fast kernels, and without."""
        (library,) = app.kernels
        found = [
            remark(runtime_of(model).program, model.name, library, app.boards, app.tflm.revision)
            for model in app.models
        ]
        found += [fast_remark(model.name, runtime_of(model).program) for model in app.models]
        return tuple(filter(None, found))

    def sizes(self, app: AppSpec) -> BackendSizes:
        """Constants and arenas, and the bytes that layers take less than TFLM's interpreter and kernels."""
        runtimes = [runtime_of(model) for model in app.models]
        distinct = tuple(sorted({name for runtime in runtimes for name in runtime.linked}))
        cores = {core for runtime in runtimes for core in runtime.cores}
        programs = [runtime.program for runtime in runtimes]
        names = {board.core for board in app.boards}
        layers = measured_code(programs, names, app.kernels[0], same_cmsis_nn(app.tflm.cmsis_nn_revision))
        less = savings(programs, plain=cores == {"plain"}) if layers is None else without_interpreter()
        distinct = distinct if layers is None else ()
        own = own_functions(programs)
        code, unsure = (sum(sizes) for sizes in zip((0, 0), *(own or {}).values(), strict=True))
        code += sum(one.program.choice.call_bytes for one in runtimes if one.program.choice is not None)
        whys = (
            (len(runtimes) > 1, "several compiled models in one app were not measured"),
            (app.kernels != (CMSIS_NN,), "compiled code with reference kernels was not measured"),
            (own is None, "some of these layers' own kernels were not measured"),
        )
        return BackendSizes(
            models=tuple(
                (
                    SizePart(f"constants of {model.ident}", model.runtime.flash_bytes, 0),
                    SizePart(f"arena of {model.ident}", 0, model.arena.bytes),
                )
                for model in app.models
            ),
            app=(
                SizePart("without the interpreter", -less.flash_bytes, -less.ram_bytes),
                *([SizePart("layers and their kernels", layers, 0)] if layers is not None else []),
                *([SizePart("fast kernels", code, 0)] if own else []),
                canaries(len(app.models)),
            ),
            registrations=distinct,
            table_bytes=-RESOLVER_ENTRY_BYTES * len(distinct),  # there is no resolver
            unsure_flash_bytes=less.unsure_flash_bytes + unsure,
            unsure_ram_bytes=less.unsure_ram_bytes,
            unmeasured=tuple(why for applies, why in whys if applies),
        )

    def conditions(self) -> Mapping[str, Callable[[AppSpec], bool]]:
        """See Backend."""
        return {
            "src/fast_kernels.hpp.j2": has_fast_kernels,
            "src/tflm_kernel.cpp.j2": has_fallbacks,
            "src/tflm_kernel.hpp.j2": has_fallbacks,
            "src/models/model_weights.S.j2": lambda app: app.model_data == "binary",
            "src/models/model_weights.cpp.j2": lambda app: app.model_data == "array",
        }

    def template_values(self, app: AppSpec, model: ModelSpec | None) -> Mapping[str, object]:
        """See Backend."""
        if model is None:
            fallbacks = has_fallbacks(app)
            return {
                "uses_tflm": fallbacks or any(uses_tflm(runtime_of(one).program) for one in app.models),
                "has_fallbacks": fallbacks,
                "fast_kernels": has_fast_kernels(app),
                # A release prints no names of tensor types, unless operators of the user's do.
                "nameless_types": fallbacks and not app.tflm.debug and not app.custom.sources,
            }
        runtime = runtime_of(model)
        program = runtime.program
        as_laid = layer_code.constant_section if app.model_data == "binary" else layer_code.constant_bytes
        constants = as_laid(program)
        code = layer_code.ModelCode(program)
        return {
            "program": program,
            "code": code,
            "layer_name": layer_code.layer_name,
            "declared": layer_code.declared,
            "locals_of": layer_code.locals_of,
            "moves": layer_code.moves,
            "row_locals": layer_code.row_locals,
            "scratch_locals": layer_code.scratch_locals,
            "reads_window": layer_code.reads_window,
            "declares_window": layer_code.declares_window,
            "call_of": cxx.call,
            "success": cxx.SUCCESS,
            "constants": code.constants,
            "constants_size": len(constants),
            "constants_alignment": max((constant.alignment for constant in program.constants), default=1),
            "constants_crc32": zlib.crc32(constants),
            "cores": runtime.cores,
            "stack_bytes": layers_stack_bytes(app, runtime),
            "uses_cmsis_nn": bool(layer_code.functions_of(program)),
            "uses_no_context": code.uses_no_context,
            "copies_rows": "CopyRows" in code.helpers,
            "step_type": "uint16_t" if code.longest_step > 255 else "uint8_t",
            "inputs": _placed(model.inputs, program.model.main.inputs, program),
            "outputs": _placed(model.outputs, program.model.main.outputs, program),
            "resets": _resets(program),
            "flags": tuple(program.offsets[flag] for flag in program.flags),
            "custom_headers": runtime.custom_headers,
            "fallback_numbers": {layer.operator: number for number, layer in enumerate(program.fallbacks)},
            "most_tensors": max((len(layer.kernel.tensors) for layer in program.fallbacks), default=0),
            "list_name": layer_code.list_name,
            **_link_values(program),
        }

    def raw_files(self, app: AppSpec, model: ModelSpec) -> Mapping[str, bytes]:
        """The constants that the assembler takes in."""
        data = layer_code.constant_bytes(runtime_of(model).program)
        return {f"src/models/{model.ident}_weights.bin": data} if app.model_data == "binary" else {}


def layers_stack_bytes(app: AppSpec, runtime: CompiledSpec) -> int | None:
    """Bytes of stack that no layer exceeds: the deepest of TFLM's kernels of the operators, by their machine code.

    They call the same functions as the layers, from frames that are no smaller; a segment's function, which calls those
    of its layers, has its row buffers there besides. None where a core or a kernel was not measured, and for operators
    that keep TFLM's own kernels, which the layers call through a frame of their own.
    """
    if runtime.program.fallbacks or app.tflm.debug:
        return None
    found = kernel_stack_bytes(runtime.registrations, app.kernels, app.boards, revision=app.tflm.revision)
    own = _FAST_STACK_BYTES if any(layer.fast for layer in runtime.program.layers) else 0
    return None if found is None else max(found, own) + runtime.extra_stack_bytes


def fast_remark(name: str, program: CompiledModel) -> str:
    """The layers with one of our own kernels, and why others of their kinds have none; "" where none was asked for.

    Where kernels were chosen by their costs: the costs, and the RAM where it is more than without them.
    """
    asked = [layer for layer in program.layers if layer.fast or layer.not_fast]
    if not asked:
        return ""
    number = sum(layer.fast for layer in asked)
    without: dict[str, list[str]] = {}
    for layer in asked:
        if layer.key in FAST_KEYS and not layer.fast:
            without.setdefault(layer.not_fast, []).append(f"{layer.operator} ({layer.key})")
    costs = "" if program.choice is None else program.choice.remark(program.arena_bytes, program.slower)
    return f"{name}: fast kernels in {number} of {len(asked)} layers{costs}" + "".join(
        f"; {_listed(layers, len(asked))} {why}" for why, layers in without.items()
    )


def _listed(layers: Sequence[str], all_layers: int) -> str:
    """The layers by name, the first of many; `generate --json` has all, each with its reason."""
    if len(layers) > _MOST_LISTED:
        return f"{len(layers)} of {all_layers} layers, {', '.join(layers[: _MOST_LISTED - 1])} and so on,"
    return f"{'layer' if len(layers) == 1 else 'layers'} {', '.join(layers)}"


def own_functions(programs: Sequence[CompiledModel]) -> dict[Kernel, tuple[int, int]] | None:
    """Our functions that the programs share: bytes of code and their error; None where they were not all measured."""
    found: dict[Kernel, tuple[int, int]] = {}
    for program in programs:
        if program.choice is not None and program.choice.complete:
            found.update(program.choice.functions(program.layers))
        elif any(layer.fast for layer in program.layers):
            return None
    return found


def more_flash_bytes(app: AppSpec) -> int | None:
    """Estimated bytes of flash that fast kernels take more than CMSIS-NN's; None where none were chosen by costs."""
    runtimes = [model.runtime for model in app.models]
    found = [one.program.choice for one in runtimes if isinstance(one, CompiledSpec)]
    chosen = [choice.more_flash_bytes for choice in found if choice is not None]
    return sum(chosen) if chosen else None


def has_fast_kernels(app: AppSpec) -> bool:
    """Whether a layer of the app's models calls one of our own kernels."""
    return any(layer.fast for model in app.models for layer in runtime_of(model).program.layers)


def has_fallbacks(app: AppSpec) -> bool:
    """Whether a model of the app has operators that run TFLM's own kernels."""
    return any(runtime_of(model).program.fallbacks for model in app.models)


def _compiled(item: PreparedModel, setup: BuildSetup) -> CompiledModel:
    """The model as calls; the user's operators go before TFLM's own of the same name."""
    declared = frozenset(custom.name for custom in item.config.custom_operators)
    libraries = tuple(library.without(declared) for library in setup.own.libraries)
    app = setup.app
    options = CompilerOptions(
        slower=None if app.slower is None else app.slower / 100,
        rows=app.rows,
        ram=app.ram,
        stream=app.stream_input or app.hop is not None,
        hop=app.hop,
        fast=app.fast_kernels,
        pick=not app.every_fast_kernel,
        more_flash=app.larger,
    )
    names = registrations(item, setup)

    def search() -> Search:
        return Search(item.running, libraries, names)

    key = (id(item.running), id(setup.own), declared, tuple(sorted(names.items())))  # shared work keeps both objects
    return setup.shared.once("search", key, search).best(options)


def compiled_beside(
    app: AppConfig, config: ModelConfig, plan: ArenaPlan, kernels: AppKernels, tflm: TflmRevision
) -> CompiledModel:
    """The model of `plan`, which is for the interpreter, as compiled code in the plan's order.

    The interpreter's own options are left out of account.

    Raises AppError, ModelError and PlanError where it cannot be compiled.
    """
    setup = BuildSetup(app, tflm, kernels)
    _check_library(config, setup)
    customs = tuple(map(custom_operator, config.custom_operators))
    resolver = op_resolver.resolve(plan.head.graph, tflm.operators, customs, OPERATORS)
    return _compiled(PreparedModel(config, plan.model, resolver, plan, b""), setup)


def _resets(program: CompiledModel) -> tuple[tuple[int, int, int], ...]:
    """Arena offset, bytes and first value of the variables' bytes, as MicroInterpreterGraph::ResetTensorData has it."""
    tensors = program.model.main.tensors
    variables = [tensor for tensor in tensors if tensor.is_variable and tensor.index not in program.flags]
    return tuple(
        (program.offsets[tensor.index], tensor.size_bytes, _first_value(tensor))
        for tensor in variables
        if tensor.index in program.offsets
    )


def _first_value(tensor: Tensor) -> int:
    zero_points = tensor.quantization.zero_points if tensor.quantization is not None else ()
    return zero_points[0] if tensor.type is TensorType.INT8 and zero_points else 0


def uses_tflm(program: CompiledModel) -> bool:
    """Whether layers call functions of TFLM's headers."""
    return any(header.startswith("tensorflow/") for header in program.headers)


def _check_library(config: ModelConfig, setup: BuildSetup) -> None:
    """AppError unless the app has one kernel library."""
    if len(setup.kernels) > 1:
        what = f"compiled code is for one kernel library, and these boards take {' and '.join(setup.kernels)}"
        raise AppError(what, where=config.label, hint="Use the backend interpreter, or name the kernels")


def _placed(
    specs: Sequence[TensorSpec], tensors: Sequence[int], program: CompiledModel
) -> tuple[tuple[TensorSpec, int | None], ...]:
    """Inputs or outputs with their arena offsets; None for an input that comes row by row."""
    stream = program.stream
    hidden = -1 if stream is None else program.model.main.inputs[stream.input]
    places = {tensor: at for tensor, at in program.offsets.items() if tensor != hidden}
    return tuple((spec, places.get(tensor)) for spec, tensor in zip(specs, tensors, strict=True))


@dataclass(frozen=True)
class LinkTensor:
    """A tensor as the link to a host describes it; `offset` is None where it has no bytes in the arena."""

    index: int
    name: str
    name_bytes: int
    shape: tuple[int, ...]
    type: int
    variable: bool
    quantized: bool
    scale: float
    zero_point: int
    offset: int | None
    bytes: int
    streamed: bool = False


@dataclass(frozen=True)
class LinkOperator:
    """An operator as the link to a host describes it; `position` is its number in the subgraph."""

    code: int
    custom: str | None
    outputs: tuple[int, ...]
    subgraph: int
    position: int


def _link_values(program: CompiledModel) -> dict[str, object]:
    main, flat = program.model.main, program.flat
    if flat is None:
        operators = [_link_operator(operator, 0, operator.index, 0) for operator in main.operators]
        return {
            "link_tensors": [_link_tensor(tensor, program) for tensor in main.tensors],
            "link_operators": operators,
            "link_inputs": main.inputs,
            "link_outputs": main.outputs,
            "link_first": (),
        }
    first = {subgraph: number for number, (subgraph, tensor) in enumerate(flat.keys) if tensor == 0}
    return {
        "link_tensors": [_link_tensor(tensor, program) for tensor in main.tensors[: len(flat.keys)]],
        "link_operators": [
            _link_operator(operator, *origin, first[origin[0]])
            for operator, origin in zip(main.operators, flat.origins, strict=True)
        ],
        "link_inputs": main.inputs,
        "link_outputs": main.outputs,
        "link_first": (*first.values(), len(flat.keys)),
    }


def _link_tensor(tensor: Tensor, program: CompiledModel) -> LinkTensor:
    quantization = tensor.quantization
    seen = tensor.index in program.offsets and tensor.index not in program.unseen
    streamed = program.stream is not None and program.model.main.inputs[program.stream.input] == tensor.index
    return LinkTensor(
        tensor.index,
        tensor.name,
        len(tensor.name.encode()),
        tensor.shape,
        _KINDS.index(tensor.type),
        tensor.is_variable,
        quantization is not None,
        0.0 if quantization is None else quantization.scales[0],
        0 if quantization is None else quantization.zero_points[0],
        program.offsets[tensor.index] if seen else None,
        tensor.size_bytes if seen or streamed else 0,
        streamed,
    )


def _link_operator(operator: Operator, subgraph: int, position: int, first: int) -> LinkOperator:
    outputs = tuple(tensor - first for tensor in operator.outputs)
    return LinkOperator(operator.builtin_code, operator.custom_code, outputs, subgraph, position)

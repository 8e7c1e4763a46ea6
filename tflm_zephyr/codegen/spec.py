# SPDX-License-Identifier: Apache-2.0
"""AppSpec: everything that the templates of an app need, whichever backend runs its models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tflm_zephyr.boards import Board
from tflm_zephyr.tflm import ZephyrVersion

_SHOWN = frozenset(("float32", "int8", "uint8", "int16", "uint16", "int32"))


@dataclass(frozen=True)
class TensorSpec:
    """An input or output: `bytes` = elements x element size; scale is None when it is not quantised."""

    name: str
    type: str
    c_type: str
    tflite_type: str
    shape: tuple[int, ...]
    elements: int
    bytes: int
    scale: float | None = None
    zero_point: int = 0

    @property
    def element_bytes(self) -> int:
        """Bytes of one element."""
        return self.bytes // self.elements if self.elements else 0

    @property
    def shown_scale(self) -> float:
        """Scale of an element where it is printed for people; 0 where it is not printed."""
        if self.type not in _SHOWN or not self.elements:
            return 0.0
        return 1.0 if self.scale is None else self.scale


@dataclass(frozen=True)
class ArenaSpec:
    """The arena's bytes, the origin of that number ("estimated", "measured", "given"), and a note on it in one line.

    floor_bytes: below it, TFLM is known to write through null pointers instead of failing; 0 where not measured.
    unknown: operators whose kernels' requests are not known, so that `bytes` may be too few. by_target: the bytes by
    kind of core (tflm.TARGETS), as far as the app's kernels run there; {} where `bytes` holds on all of them.
    """

    bytes: int
    source: str
    note: str
    floor_bytes: int = 0
    unknown: tuple[str, ...] = ()
    by_target: Mapping[str, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class GoldenSpec:
    """A run's input and reference output bytes, in the model's order of tensors."""

    inputs: tuple[bytes, ...]
    outputs: tuple[bytes, ...]


@dataclass(frozen=True)
class StreamSpec:
    """An input that comes row by row: its place in the model's inputs, its rows, and elements and bytes of each.

    `hop`: the new rows of a window that follows another one; None where each window comes whole.
    """

    input: int
    rows: int
    row_elements: int
    row_bytes: int
    hop: int | None = None

    @property
    def hop_bytes(self) -> int:
        """Bytes of a hop's rows; of all rows where each window comes whole."""
        return self.row_bytes * (self.rows if self.hop is None else self.hop)


class Runtime(Protocol):
    """A model as its backend runs it: the interface of the backend's value to the rest of the toolkit.

    `data` is the .tflite that TFLM on the host runs to compute the app's outputs. `registrations` are TFLM's
    functions ("Register_CONV_2D_INT8") whose kernels are linked.
    """

    @property
    def data(self) -> bytes:
        """The model that runs on the host in place of the app."""

    @property
    def flash_bytes(self) -> int:
        """Bytes of the model's constants in flash: a flatbuffer, or weights."""

    @property
    def kernel_names(self) -> tuple[str, ...]:
        """One name for each kind of operator, for people: "AddConv2D INT8"."""

    @property
    def registrations(self) -> tuple[str, ...]:
        """TFLM's functions whose kernels the model needs, sorted."""

    @property
    def fixed_head_bytes(self) -> int | None:
        """The head's bytes where a table in the app places all buffers; None where TFLM's planner does."""

    @property
    def extra_stack_bytes(self) -> int:
        """Bytes of stack that the model's own code takes besides its kernels' needs."""

    @property
    def stream(self) -> StreamSpec | None:
        """The input that comes row by row; None where all inputs are whole tensors."""

    @property
    def own_memory(self) -> str:
        """The reason why this model shares no arena and cannot be recorded, in words; "" where it can."""

    def identity(self) -> bytes:
        """Everything of the model that a measured arena size depends on."""

    def report(self) -> dict[str, Any]:
        """The backend's part of `generate --json`."""


@dataclass(frozen=True)
class ModelSpec:
    """One model of an app, whichever backend runs it. `sha256` is that of the user's file.

    `runtime` is the backend's own value. `operators` is the number in all subgraphs, `tensors` that in the main one.
    """

    name: str
    ident: str
    sha256: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    arena: ArenaSpec
    runtime: Runtime
    golden: tuple[GoldenSpec, ...] = ()
    golden_source: str = ""
    operators: int = 0
    tensors: int = 0

    @property
    def stream(self) -> StreamSpec | None:
        """The input that comes row by row."""
        return self.runtime.stream

    def pushed(self, run: int) -> tuple[bytes, ...]:
        """The bytes that a golden run gives the model: of the streamed input those that a hop adds to the last run."""
        inputs, stream = self.golden[run].inputs, self.stream
        if stream is None or run == 0:
            return inputs
        return tuple(data[-stream.hop_bytes :] if k == stream.input else data for k, data in enumerate(inputs))


@dataclass(frozen=True)
class LibrarySpec:
    """The choices of a model's library that an app has not: see `library.render_library`.

    `labels` name the elements of output 0; none where they are not known. `arena_section` is the arena's linker
    section, "" for the linker's choice.
    """

    labels: tuple[str, ...] = ()
    arena_section: str = ""


@dataclass(frozen=True)
class TflmBuild:
    """TFLM and CMSIS-NN as an app builds them. `sources` has TFLM's by kernel library; paths in the modules.

    `form` is "selected" (only sources that the models need) or "module" (Zephyr's library); `debug` keeps TFLM's
    messages and asserts. `cmsis_nn_revision` is empty without CMSIS-NN or where it is not known.
    """

    form: str
    revision: str
    sources: Mapping[str, tuple[str, ...]]
    include_dirs: tuple[str, ...] = ()
    debug: bool = False
    cmsis_nn_sources: tuple[str, ...] = ()
    cmsis_nn_revision: str = ""

    @property
    def shared_sources(self) -> tuple[str, ...]:
        """TFLM's sources that every library of the app has, sorted."""
        lists = list(self.sources.values())
        return tuple(sorted(set(lists[0]).intersection(*lists[1:]))) if lists else ()

    def own_sources(self, library: str) -> tuple[str, ...]:
        """TFLM's sources of `library` besides the shared ones, sorted."""
        return tuple(sorted(set(self.sources.get(library, ())) - set(self.shared_sources)))


@dataclass(frozen=True)
class CustomCode:
    """The code of custom operators: its paths from the app's folder, and a SHA-256 of it, "" without any."""

    sources: tuple[str, ...] = ()
    include_dirs: tuple[str, ...] = ()
    sha256: str = ""


@dataclass(frozen=True)
class ProgramSpec:
    """The job of an app's program; the self-test where nothing else is asked for.

    `measure`: it searches for the smallest arena of each model, and prints its stacks' use, as with `stack_use`.
    `record`: it prints TFLM's allocations. `host_link`: it answers a host (docs/protocol.md) instead of testing itself.
    """

    measure: bool = False
    stack_use: bool = False
    record: bool = False
    host_link: bool = False


@dataclass(frozen=True)
class AppSpec:
    """The values that the templates use.

    `kernels` names the kernel libraries, sorted: with both, the build takes CMSIS-NN on a Cortex-M. `west_modules` are
    Zephyr's modules for the manifest, none for all of them. `model_data` is "binary" (the assembler includes the
    model's file) or "array" (C++). `shared_arena` is the one arena of all models, None where each has its own.
    `overlap_kernels`: the kinds of kernels that the plans' in-place pairs hold for, see kernels.kind_of; empty without
    such pairs. `backend`: the backend's name, see codegen.backends. `library`: the one model is for a user's own app,
    None for an app of its own.
    """

    name: str
    models: tuple[ModelSpec, ...]
    boards: tuple[Board, ...]
    kernels: tuple[str, ...]
    tflm: TflmBuild
    zephyr: ZephyrVersion
    west_modules: tuple[str, ...] = ()
    main_stack_bytes: int = 4096
    model_data: str = "binary"
    custom: CustomCode = CustomCode()
    shared_arena: ArenaSpec | None = None
    program: ProgramSpec = ProgramSpec()
    overlap_kernels: tuple[str, ...] = ()
    backend: str = "interpreter"
    library: LibrarySpec | None = None

    @property
    def cmsis_nn(self) -> bool:
        """Whether the app is built with CMSIS-NN's kernels, at least on Cortex-M."""
        return "cmsis_nn" in self.kernels

    @property
    def mixed(self) -> bool:
        """Whether the build decides which kernels it takes."""
        return len(self.kernels) > 1

    @property
    def twister_boards(self) -> tuple[str, ...]:
        """Boards that twister can run the app on."""
        return tuple(board.name for board in self.boards if board.twister)

    @property
    def build_only_boards(self) -> tuple[str, ...]:
        """Boards that twister can only build for."""
        return tuple(board.name for board in self.boards if not board.twister)

    @property
    def float_outputs(self) -> bool:
        """Whether an output is float32; without one, the self-test's float code compiles to nothing."""
        return any(tensor.type == "float32" for model in self.models for tensor in model.outputs)

    @property
    def streams(self) -> bool:
        """Whether a model's input comes row by row."""
        return any(model.stream is not None for model in self.models)

    @property
    def hops(self) -> bool:
        """Whether windows of a model's input overlap."""
        return any(model.stream is not None and model.stream.hop is not None for model in self.models)

    @property
    def emulated(self) -> bool:
        """Whether every board is emulated."""
        return bool(self.boards) and all(board.qemu is not None for board in self.boards)

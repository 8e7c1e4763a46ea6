# SPDX-License-Identifier: Apache-2.0
"""AppSpec: everything that the templates of an app need, whichever backend runs its models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tflm_zephyr.boards import Board

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
        """What an element is multiplied with for people to read; 0 where it is not shown."""
        if self.type not in _SHOWN or not self.elements:
            return 0.0
        return 1.0 if self.scale is None else self.scale


@dataclass(frozen=True)
class ArenaSpec:
    """The arena's bytes, where that number is from ("estimated", "measured", "given"), and one line on how.

    floor_bytes: below it, TFLM is known to write through null pointers instead of failing; 0 where not measured.
    unknown: operators of which it is not known what their kernels ask for, so that `bytes` may not do.
    """

    bytes: int
    source: str
    note: str
    floor_bytes: int = 0
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class GoldenSpec:
    """A run's input and reference output bytes, in the model's order of tensors."""

    inputs: tuple[bytes, ...]
    outputs: tuple[bytes, ...]


class Runtime(Protocol):
    """How an app runs one model: the value of its backend, of which the rest of the toolkit knows just this.

    `data` is the .tflite that TFLM on the host runs to compute what the app computes. `registrations` are TFLM's
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
        """Bytes of tensors and scratch buffers where a table in the app places them; None where TFLM plans."""

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

    `runtime` is the backend's own value. `operators` counts those of all subgraphs, `tensors` those of the main one.
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


@dataclass(frozen=True)
class LibrarySpec:
    """The choices of a model's library that an app has not: see `library.render_library`.

    `labels` name the elements of output 0; none where they are not known. `arena_section` is the arena's linker
    section, "" for the linker's choice.
    """

    labels: tuple[str, ...] = ()
    arena_section: str = ""


@dataclass(frozen=True)
class AppSpec:
    """All that the templates need.

    `kernels` names the kernel libraries, sorted: with both, the build takes CMSIS-NN on a Cortex-M. `tflm_sources`
    has TFLM's sources by library.

    `zephyr_revision` is what the manifest pins, the release's tag where empty; `cmsis_nn_revision` is empty without
    CMSIS-NN or where it is not known. `west_modules` are Zephyr's modules for the manifest, none for all of them.
    `tflm` is "selected" (only what the models need) or "module" (Zephyr's library); `debug` keeps TFLM's messages
    and asserts. `model_data` is "binary" (the assembler takes the model's file in) or "array" (C++). `shared_arena`
    is the one arena of all models, None where each has its own. `measure`: the app looks for the smallest arena of
    each model. `record`: it prints what TFLM allocated. `host_link`: it answers a host (docs/protocol.md) instead
    of testing itself. `custom_sha256`: of custom operators' code, "" without. `overlap_kernels`: what the plans'
    overlaps hold for, see kernels.kind_of; empty where nothing overlaps. `backend` names what runs the models,
    see codegen.backends. `library`: the one model is for a user's own app, None for an app of its own.
    """

    name: str
    models: tuple[ModelSpec, ...]
    boards: tuple[Board, ...]
    kernels: tuple[str, ...]
    tflm: str
    tflm_revision: str
    tflm_sources: Mapping[str, tuple[str, ...]]
    tflm_include_dirs: tuple[str, ...]
    zephyr_version: str
    west_modules: tuple[str, ...]
    main_stack_bytes: int = 4096
    debug: bool = False
    model_data: str = "binary"
    cmsis_nn_sources: tuple[str, ...] = ()
    custom_sources: tuple[str, ...] = ()
    custom_include_dirs: tuple[str, ...] = ()
    shared_arena: ArenaSpec | None = None
    measure: bool = False
    record: bool = False
    host_link: bool = False
    zephyr_revision: str = ""
    cmsis_nn_revision: str = ""
    custom_sha256: str = ""
    overlap_kernels: tuple[str, ...] = ()
    backend: str = "interpreter"
    library: LibrarySpec | None = None

    @property
    def cmsis_nn(self) -> bool:
        """Whether the app is built with CMSIS-NN's kernels, on Cortex-M at least."""
        return "cmsis_nn" in self.kernels

    @property
    def mixed(self) -> bool:
        """Whether the build decides which kernels it takes."""
        return len(self.kernels) > 1

    @property
    def shared_sources(self) -> tuple[str, ...]:
        """TFLM's sources that every library of the app has, sorted."""
        lists = list(self.tflm_sources.values())
        return tuple(sorted(set(lists[0]).intersection(*lists[1:]))) if lists else ()

    def own_sources(self, library: str) -> tuple[str, ...]:
        """TFLM's sources that `library` has beside the shared ones, sorted."""
        return tuple(sorted(set(self.tflm_sources.get(library, ())) - set(self.shared_sources)))

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
        """Whether an output is float32: otherwise the self-test's code for such compiles to nothing."""
        return any(tensor.type == "float32" for model in self.models for tensor in model.outputs)

    @property
    def emulated(self) -> bool:
        """Whether every board is emulated."""
        return bool(self.boards) and all(board.qemu is not None for board in self.boards)

# SPDX-License-Identifier: Apache-2.0
"""The MicroInterpreter: TFLM walks the flatbuffer at run time and plans, or is given, the arena."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from tflm_zephyr.codegen.backends.backend import (
    Backend,
    BackendSizes,
    BuildSetup,
    SizePart,
    SourceLists,
    canaries,
    prepared_once,
)
from tflm_zephyr.codegen.backends.interpreter_model import interpreter_model, registrations
from tflm_zephyr.codegen.backends.interpreter_spec import InterpreterSpec, StaticPlan
from tflm_zephyr.codegen.preallocated_buffers import check_symbols
from tflm_zephyr.codegen.prepared_model import PreparedModel
from tflm_zephyr.codegen.shared_arena import share_arena
from tflm_zephyr.codegen.spec import AppSpec, ArenaSpec, ModelSpec, Runtime
from tflm_zephyr.kernels import RESOLVER_ENTRY_BYTES
from tflm_zephyr.memory_planner import align_up
from tflm_zephyr.model import Model
from tflm_zephyr.options import INTERPRETER, ModelConfig
from tflm_zephyr.tflm import sources

# An app with a static plan does not link TFLM's planner; GreedyMemoryPlanner alone is 916 bytes (Cortex-M3, -Os).
_PLANNER_BYTES = 1024


def runtime_of(model: ModelSpec) -> InterpreterSpec:
    """The InterpreterSpec of a model of an app with this backend."""
    assert isinstance(model.runtime, InterpreterSpec), f"{model.name} is of another backend"
    return model.runtime


def slot_type(app: AppSpec) -> str:
    """The C++ type that holds every size and offset of the static plans, in units of 16 bytes."""
    plans = (runtime_of(model).static_plan for model in app.models)
    most = max((plan.head_bytes for plan in plans if plan), default=0)
    return "uint16_t" if most // 16 < 1 << 16 else "uint32_t"


class Interpreter(Backend):
    """TFLM's MicroInterpreter."""

    name: ClassVar[str] = INTERPRETER
    templates: ClassVar[str] = "interpreter"
    cmake_include: ClassVar[str] = "cmake/tflm.cmake"
    zephyr_modules: ClassVar[tuple[str, ...]] = ("tflite-micro",)
    answers_host: ClassVar[bool] = True
    arena_is_measurable: ClassVar[bool] = True
    records_allocations: ClassVar[bool] = True
    measured_base: ClassVar[bool] = True

    def prepare(self, config: ModelConfig, model: Model, setup: BuildSetup) -> PreparedModel:
        """See Backend. Raises ModelError where TFLM lacks an operator."""
        item = prepared_once(config, model, setup)
        if item.refusal is not None:
            raise item.refusal
        return item

    def build(self, item: PreparedModel, setup: BuildSetup) -> tuple[Runtime, ArenaSpec]:
        """See Backend."""
        return interpreter_model(item, setup)

    def check(self, models: Sequence[ModelSpec], name: str) -> None:
        """AppError when one symbol is to hold two tensors."""
        check_symbols(map(runtime_of, models), name)

    def sources(self, prepared: Sequence[PreparedModel], runtimes: Sequence[Runtime], setup: BuildSetup) -> SourceLists:
        """TFLM's interpreter and the models' kernels; none with Zephyr's own library, which has every kernel."""
        tables = [(name, setup.tflm.sources[name]) for name in setup.kernels if setup.app.tflm == "selected"]
        selected = {name: table.select(registrations(prepared)) for name, table in tables}
        cmsis_nn = tuple(path for name, table in tables for path in table.select_functions(selected[name]))
        return SourceLists(selected, cmsis_nn, sources.INCLUDE_DIRS)

    def share_arena(
        self, models: Sequence[ModelSpec], prepared: Sequence[PreparedModel], setup: BuildSetup, name: str
    ) -> tuple[tuple[ModelSpec, ...], ArenaSpec]:
        """See Backend."""
        return share_arena(models, prepared, name)

    def sizes(self, app: AppSpec) -> BackendSizes:
        """Flatbuffers, static plans, the app's own buffers, arenas and op resolvers."""
        runtimes = [runtime_of(model) for model in app.models]
        distinct = tuple(sorted({name for runtime in runtimes for name in runtime.registrations}))
        shared = app.shared_arena
        whys = (
            (shared is not None, "the code for a shared arena was not measured"),
            (any(runtime.static_plan for runtime in runtimes), "the code that reads a static plan was not measured"),
            (any(runtime.preallocated for runtime in runtimes), "the code for preallocated tensors was not measured"),
        )
        return BackendSizes(
            models=tuple(_parts(app, model) for model in app.models),
            app=(canaries(len(app.models)),)
            if shared is None
            else (SizePart("arena of all models", 0, shared.bytes), canaries(1)),
            registrations=distinct,
            # An entry for each of the app's distinct operators counts as the kernels'.
            table_bytes=RESOLVER_ENTRY_BYTES * (sum(runtime.resolver.size for runtime in runtimes) - len(distinct)),
            unsure_flash_bytes=_PLANNER_BYTES if any(runtime.static_plan for runtime in runtimes) else 0,
            # Buffers in a section of the user's choice may lie in another memory, or nowhere.
            unsure_ram_bytes=sum(item.bytes for runtime in runtimes for item in runtime.preallocated if item.section),
            unmeasured=tuple(why for applies, why in whys if applies),
        )

    def conditions(self) -> Mapping[str, Callable[[AppSpec], bool]]:
        """See Backend."""
        return {
            "src/measure.cpp.j2": lambda app: app.program.measure,
            "src/measure.hpp.j2": lambda app: app.program.measure,
            "src/models/model_data.S.j2": lambda app: app.model_data == "binary",
            "src/models/model_data.cpp.j2": lambda app: app.model_data == "array",
            "src/preallocated.hpp.j2": lambda app: any(runtime_of(model).preallocated for model in app.models),
            "src/shared_arena.cpp.j2": lambda app: app.shared_arena is not None,
            "src/shared_arena.hpp.j2": lambda app: app.shared_arena is not None,
            "src/static_planner.hpp.j2": lambda app: any(runtime_of(model).static_plan for model in app.models),
        }

    def template_values(self, app: AppSpec, model: ModelSpec | None) -> Mapping[str, object]:
        """See Backend."""
        recorded, measured = app.program.record, app.program.measure
        arena = "shared" if app.shared_arena else "recorded" if recorded else "measured" if measured else "own"
        values: dict[str, object] = {}
        if model is not None:
            runtime = runtime_of(model)
            values["constants_crc32"] = zlib.crc32(runtime.data)
            values["plan_crc32"] = None if runtime.static_plan is None else _plan_crc32(app, runtime.static_plan)
        return {
            **values,
            "arena_template": f"parts/model_{arena}_arena.jinja",
            "slot_type": slot_type(app),
            # A release prints no names of tensor types, unless operators of the user's do.
            "nameless_types": app.tflm.form == "selected" and not app.tflm.debug and not app.custom.sources,
        }

    def raw_files(self, app: AppSpec, model: ModelSpec) -> Mapping[str, bytes]:
        """The flatbuffer that the assembler takes in."""
        return {f"src/models/{model.ident}.tflite": model.runtime.data} if app.model_data == "binary" else {}


def _plan_crc32(app: AppSpec, plan: StaticPlan) -> int:
    """CRC-32 of the plan's table with its last, empty slot, as a little-endian core has it."""
    units = [value // 16 for slot in (*plan.slots, (0, 0)) for value in slot]
    return zlib.crc32(struct.pack(f"<{len(units)}{'H' if slot_type(app) == 'uint16_t' else 'I'}", *units))


def _parts(app: AppSpec, model: ModelSpec) -> tuple[SizePart, ...]:
    runtime = runtime_of(model)
    parts = [SizePart(f"model {model.ident}", runtime.flash_bytes, 0)]
    if runtime.static_plan is not None:
        slot_bytes = 2 * (2 if slot_type(app) == "uint16_t" else 4)
        parts.append(SizePart(f"plan of {model.ident}", slot_bytes * len(runtime.static_plan.slots), 0))
    if runtime.preallocated:
        held = sum(align_up(item.bytes, item.alignment) for item in runtime.preallocated)
        parts.append(SizePart(f"buffers of {model.ident}", 0, held))
    if app.shared_arena is None:
        parts.append(SizePart(f"arena of {model.ident}", 0, model.arena.bytes))
    return tuple(parts)

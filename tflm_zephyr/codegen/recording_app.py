# SPDX-License-Identifier: Apache-2.0
"""The app that prints TFLM's allocations in the tail of each model's arena, section by section.

It has TFLM's RecordingMicroAllocator, whose own objects are larger and which links TFLM's messages. Hence it is a
separate app, made from the user's AppSpec with larger arenas.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tflm_zephyr.boards import DEBUG_BYTES, Board
from tflm_zephyr.codegen.derived_apps import moved, with_arenas, write_copy
from tflm_zephyr.codegen.spec import AppSpec, ArenaSpec, ProgramSpec
from tflm_zephyr.errors import AppError

MORE_BYTES = 512
"""Additional arena bytes for the recording allocator and its records."""
_SOURCES = (
    "tensorflow/lite/micro/arena_allocator/recording_single_arena_buffer_allocator.cc",
    "tensorflow/lite/micro/recording_micro_allocator.cc",
)


def recording_app(spec: AppSpec, board: Board, app: Path, folder: Path) -> AppSpec:
    """`spec`, which is for the folder `app`, as a recording app in `folder`. AppError for an app that cannot record."""
    for model in spec.models:
        if model.runtime.own_memory or spec.shared_arena is not None:
            what = "TFLM's recording allocator needs TFLM's planner and an arena of its own that holds every tensor"
            hint = "Record with plan: packed, without preallocated tensors and without shared_arena"
            raise AppError(what, where=model.name, hint=hint)
    arenas = [_roomier(model.arena) for model in spec.models]
    sources = {
        library: tuple(sorted({*paths, *_SOURCES})) if spec.tflm.form == "selected" else paths
        for library, paths in spec.tflm.sources.items()
    }
    return replace(
        with_arenas(moved(spec, board, app, folder), arenas),
        tflm=replace(spec.tflm, sources=sources),
        program=ProgramSpec(record=True),
        main_stack_bytes=spec.main_stack_bytes + DEBUG_BYTES,
    )


def folder_of(app: Path, board: Board) -> Path:
    """The folder of the recording app of the app in folder `app`; its `build` subfolder has the build."""
    return app / "build" / "record" / board.file_stem


def write_recording_app(spec: AppSpec, board: Board, app: Path) -> Path:
    """Write the recording app and return its folder. Raises AppError."""
    folder = folder_of(app, board)
    write_copy(folder, recording_app(spec, board, app, folder))
    return folder


def _roomier(arena: ArenaSpec) -> ArenaSpec:
    there = {target: size + MORE_BYTES for target, size in arena.by_target.items()}
    return ArenaSpec(arena.bytes + MORE_BYTES, arena.source, "with room to record", by_target=there)

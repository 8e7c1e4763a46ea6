# SPDX-License-Identifier: Apache-2.0
"""The backend of an app: the one that it names, or for "auto" the compiled one where that is sure to be smaller."""

from __future__ import annotations

from collections.abc import Sequence

from tflm_zephyr.boards import AUTO
from tflm_zephyr.codegen.backends import backend_of
from tflm_zephyr.codegen.backends.backend import Backend, BuildSetup
from tflm_zephyr.codegen.backends.compiled import CompiledSpec
from tflm_zephyr.errors import AppError, ModelError, PlanError
from tflm_zephyr.model import Model
from tflm_zephyr.options import COMPILED, INTERPRETER, ModelConfig


def chosen_backend(
    name: str, models: Sequence[tuple[ModelConfig, Model]], setup: BuildSetup
) -> tuple[Backend, tuple[str, ...]]:
    """The backend called `name`, and remarks on a choice by AUTO. AppError when there is none of that name.

    AUTO is compiled where every operator of every model has direct code, the arenas take fewer bytes than the
    interpreter's, and the constants no more than the flatbuffers; else the interpreter. Streamed input is compiled.
    """
    if name != AUTO:
        return backend_of(name), ()
    compiled = backend_of(COMPILED)
    if setup.app.stream_input:
        return compiled, ("backend auto: compiled, as the input comes row by row",)
    try:
        why = _why_not(compiled, models, setup)
    except (AppError, ModelError, PlanError) as error:
        why = error.what
    if why:
        _check_ram(models, setup, why)
        return backend_of(INTERPRETER), (f"backend auto: interpreter, as {why}",)
    return compiled, ("backend auto: compiled, as every operator has direct code and takes less memory",)


def _check_ram(models: Sequence[tuple[ModelConfig, Model]], setup: BuildSetup, why: str) -> None:
    """AppError where a model is to fit in RAM that the interpreter exceeds, and compiled code is out for `why`."""
    interpreter, ram = backend_of(INTERPRETER), setup.app.ram
    for config, model in models if ram is not None else ():
        _, arena = interpreter.build(interpreter.prepare(config, model, setup), setup)
        if ram is not None and arena.bytes > ram:
            what = f"{ram:,} bytes of RAM are too few: the interpreter takes {arena.bytes:,}; compiled code: {why}"
            raise AppError(what, where=config.label, hint="Allow more with --ram, or take a smaller model")


def _why_not(compiled: Backend, models: Sequence[tuple[ModelConfig, Model]], setup: BuildSetup) -> str:
    """Why the compiled backend is not the better one, "" where it is. Raises what its own methods raise."""
    interpreter = backend_of(INTERPRETER)
    arenas, constants = [0, 0], [0, 0]
    for config, model in models:
        for way, backend in enumerate((compiled, interpreter)):
            runtime, arena = backend.build(backend.prepare(config, model, setup), setup)
            if isinstance(runtime, CompiledSpec) and runtime.program.framed:
                first = runtime.program.framed[0]
                return f"{first.key} (operator {first.operator} of {config.label}) has no direct code"
            arenas[way] += arena.bytes
            constants[way] += runtime.flash_bytes
    if arenas[0] >= arenas[1]:
        return f"compiled code takes {arenas[0]:,} bytes of RAM and the interpreter {arenas[1]:,}"
    if constants[0] > constants[1]:
        return f"compiled code has {constants[0]:,} bytes of constants and the flatbuffer {constants[1]:,}"
    return ""

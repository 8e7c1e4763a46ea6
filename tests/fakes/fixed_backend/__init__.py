# SPDX-License-Identifier: Apache-2.0
"""A backend whose models give the same bytes whatever their inputs are: no interpreter, no flatbuffer, no TFLM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tflm_zephyr.codegen.backends.backend import Backend, BackendSizes, BuildSetup, SizePart, SourceLists
from tflm_zephyr.codegen.prepared_model import PreparedModel, prepare
from tflm_zephyr.codegen.spec import AppSpec, ArenaSpec, Runtime, StreamSpec
from tflm_zephyr.model import Model
from tflm_zephyr.options import ModelConfig


@dataclass(frozen=True)
class FixedOutputs:
    """Every byte of every output is `value`."""

    data: bytes
    value: int
    flash_bytes: int = 0
    kernel_names: tuple[str, ...] = ("memset",)
    registrations: tuple[str, ...] = ()
    fixed_head_bytes: int | None = None
    own_memory: str = "outputs that nothing computes"
    extra_stack_bytes: int = 0
    stream: StreamSpec | None = None

    def identity(self) -> bytes:
        """The one value."""
        return bytes((self.value,))

    def report(self) -> dict[str, Any]:
        """The one value."""
        return {"value": self.value}


class FixedBackend(Backend):
    """All that a backend must have, and nothing else."""

    name: ClassVar[str] = "fixed"
    templates: ClassVar[str] = str(Path(__file__).parent)
    cmake_include: ClassVar[str] = "cmake/fixed.cmake"

    def prepare(self, config: ModelConfig, model: Model, setup: BuildSetup) -> PreparedModel:
        """As for the MicroInterpreter: the inputs and outputs are read from it."""
        return prepare(config, model, setup.tflm, setup.own)

    def build(self, item: PreparedModel, setup: BuildSetup) -> tuple[Runtime, ArenaSpec]:
        """An arena of 64 bytes."""
        return FixedOutputs(item.data, 42), ArenaSpec(64, "given", "nothing is planned")

    def sources(self, prepared: Sequence[PreparedModel], runtimes: Sequence[Runtime], setup: BuildSetup) -> SourceLists:
        """None."""
        return SourceLists({})

    def sizes(self, app: AppSpec) -> BackendSizes:
        """Arenas alone."""
        return BackendSizes(tuple((SizePart(model.ident, 0, model.arena.bytes),) for model in app.models))

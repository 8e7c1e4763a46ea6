# SPDX-License-Identifier: Apache-2.0
"""A backend: the way in which an app runs its models, with everything that only this way needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from tflm_zephyr.codegen.prepared_model import AppKernels, PreparedModel, prepare
from tflm_zephyr.codegen.shared_work import SharedWork
from tflm_zephyr.codegen.spec import AppSpec, ArenaSpec, ModelSpec, Runtime
from tflm_zephyr.errors import AppError
from tflm_zephyr.model import Model
from tflm_zephyr.options import AppConfig, ModelConfig
from tflm_zephyr.tflm import TflmRevision


@dataclass(frozen=True)
class BuildSetup:
    """The choices that hold for all models of an app, and the work that its ways share."""

    app: AppConfig
    tflm: TflmRevision
    own: AppKernels
    shared: SharedWork = field(default_factory=SharedWork, compare=False)

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernel libraries' names."""
        return self.own.choice.names


@dataclass(frozen=True)
class SourceLists:
    """Sources of an app from its workspace: TFLM's by kernel library, and CMSIS-NN's; paths in the modules."""

    tflm: Mapping[str, tuple[str, ...]]
    cmsis_nn: tuple[str, ...] = ()
    tflm_include_dirs: tuple[str, ...] = ()


@dataclass(frozen=True)
class SizePart:
    """One summand of an app's estimated size, bytes of flash and RAM."""

    name: str
    flash_bytes: int
    ram_bytes: int


def canaries(arenas: int) -> SizePart:
    """The canaries before and behind arenas, 16 bytes each (templates/app/common/src/integrity.hpp.j2)."""
    return SizePart("canaries", 0, 2 * 16 * arenas)


@dataclass(frozen=True)
class BackendSizes:
    """The backend's share of an app's size, before a build.

    `models` has the parts of each model, its constants first; `app` those of the app as a whole. `registrations` are
    TFLM's functions whose kernels are linked. `table_bytes` of RAM are added to the kernels'. The real size may differ
    by `unsure_flash_bytes` and `unsure_ram_bytes` either way. `unmeasured` names in words the parts not counted at all.
    """

    models: tuple[tuple[SizePart, ...], ...]
    app: tuple[SizePart, ...] = ()
    registrations: tuple[str, ...] = ()
    table_bytes: int = 0
    unsure_flash_bytes: int = 0
    unsure_ram_bytes: int = 0
    unmeasured: tuple[str, ...] = ()


class Backend(ABC):
    """A way for an app to run its models. Stateless: the methods are functions of their arguments.

    `templates` is the folder below templates/app that mirrors this backend's part of an app's tflm/; an absolute path
    for a folder elsewhere. The templates in templates/app/common and templates/app/user include its `parts/`. Paths of
    generated files are below tflm/.
    `cmake_include` is the generated file that brings in the libraries; it sets TFLM_REVISION and defines TFLM_KERNELS
    for the target `app`. `zephyr_modules` are the modules that twister looks for.

    The C++ interface of a model to the rest of an app is in templates/app/common/src/models/model.hpp.j2.
    """

    name: ClassVar[str]
    templates: ClassVar[str]
    cmake_include: ClassVar[str]
    zephyr_modules: ClassVar[tuple[str, ...]] = ()
    answers_host: ClassVar[bool] = False
    """Each model has a kLinkModel for the link to a host (docs/protocol.md)."""
    arena_is_measurable: ClassVar[bool] = False
    """Each model has UseArena(), and src/measure.cpp finds its smallest arena by trying."""
    records_allocations: ClassVar[bool] = False
    """An app can print the arena's allocations, section by section."""
    prepares_on_device: ClassVar[bool] = True
    """TFLM's own Prepare runs when the app starts, and refuses a model that it cannot run."""
    measured_base: ClassVar[bool] = False
    """The boards' size tables, measured on apps with the MicroInterpreter, hold for apps of this backend."""

    @abstractmethod
    def prepare(self, config: ModelConfig, model: Model, setup: BuildSetup) -> PreparedModel:
        """Check and plan one model. Raises ModelError, PlanError or AppError."""

    @abstractmethod
    def build(self, item: PreparedModel, setup: BuildSetup) -> tuple[Runtime, ArenaSpec]:
        """The model as this backend runs it, and its arena. Raises AppError."""

    @abstractmethod
    def sources(self, prepared: Sequence[PreparedModel], runtimes: Sequence[Runtime], setup: BuildSetup) -> SourceLists:
        """The sources that all models of an app need, `runtimes` as `build` returned them.

        Raises BuildError for a kernel that the sources lack.
        """

    @abstractmethod
    def sizes(self, app: AppSpec) -> BackendSizes:
        """The backend's share of the size of an app."""

    def notes(self, app: AppSpec) -> tuple[str, ...]:
        """Remarks for the user on how the app's models run."""
        return ()

    def check(self, models: Sequence[ModelSpec], name: str) -> None:
        """Raise AppError when the models cannot be together in the app called `name`; any can, unless overridden."""
        return

    def share_arena(
        self, models: Sequence[ModelSpec], prepared: Sequence[PreparedModel], setup: BuildSetup, name: str
    ) -> tuple[tuple[ModelSpec, ...], ArenaSpec]:
        """The models, each with the shared arena, and that arena. Raises AppError where models cannot share one."""
        raise AppError(f"models of the backend {self.name} share no arena", where=name, hint="Use shared_arena: false")

    def conditions(self) -> Mapping[str, Callable[[AppSpec], bool]]:
        """Templates of files that only some apps have, by path below `templates`."""
        return {}

    def template_values(self, app: AppSpec, model: ModelSpec | None) -> Mapping[str, object]:
        """Values that this backend's templates use besides `app`, `model`, `backend` and `sources`."""
        return {}

    def raw_files(self, app: AppSpec, model: ModelSpec) -> Mapping[str, bytes]:
        """Files of a model that no template makes, by path below the app's tflm/."""
        return {}


def prepared_once(config: ModelConfig, model: Model, setup: BuildSetup) -> PreparedModel:
    """The model, checked and planned for TFLM: once for all ways of the app. Raises as prepare()."""
    key = (config, id(model), id(setup.own))  # shared work keeps both objects
    return setup.shared.once("plan", key, lambda: prepare(config, model, setup.tflm, setup.own))

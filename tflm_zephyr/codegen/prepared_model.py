# SPDX-License-Identifier: Apache-2.0
"""ModelConfig -> PreparedModel: a model checked against TFLM, and planned for all kernels of an app."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tflm_zephyr.arena import (
    ArenaPlan,
    Constraints,
    HeadPlan,
    LibraryArena,
    PlanRequest,
    load_plan,
    on_target,
    plan,
    preallocated_tensors,
)
from tflm_zephyr.boards import Board, KernelChoice, choose, kernel_libraries
from tflm_zephyr.codegen.custom_operators import custom_operator
from tflm_zephyr.codegen.tensor_interface import check_interface
from tflm_zephyr.compiler import OPERATORS, runs_legacy
from tflm_zephyr.errors import ModelError
from tflm_zephyr.kernels import HINTS, KernelLibrary, check_types, cmsis_nn_work, miscomputed, other_kernels
from tflm_zephyr.model import Model, planned
from tflm_zephyr.options import ONLINE, AppConfig, ModelConfig, refuse_exclusions
from tflm_zephyr.tflm import ARM, ILP32, LP64, TARGETS, StructSizes, TflmRevision, op_resolver


@dataclass(frozen=True)
class AppKernels:
    """The kernels of an app: the libraries' names, each library for each kind of core, and TFLM's struct sizes.

    `in_place`: the in-place rules hold for these kernels' revisions.
    """

    choice: KernelChoice
    libraries: tuple[KernelLibrary, ...]
    sizes: StructSizes
    in_place: bool


@dataclass(frozen=True)
class PreparedModel:
    """A model, checked and planned; `data` is the model as the app compiles it in.

    `refusal`: why TFLM does not run the model, which compiled code alone does.
    """

    config: ModelConfig
    model: Model
    resolver: op_resolver.ResolvedOperators
    plan: ArenaPlan
    data: bytes
    refusal: ModelError | None = None

    @property
    def arenas(self) -> tuple[LibraryArena, ...]:
        """The arena with each kernel library, the largest first."""
        return self.plan.arenas

    @property
    def head(self) -> HeadPlan:
        """The head in the largest arena."""
        return self.plan.head

    @property
    def running(self) -> Model:
        """The model with its operators in the order of the app."""
        return self.plan.running

    @property
    def order(self) -> tuple[int, ...] | None:
        """The operators' indices in the file, in the order of the app; None for the file's order."""
        return self.plan.order

    @property
    def planned(self) -> bool:
        """Whether `data` carries an offline plan."""
        return self.plan.offsets is not None


def app_kernels(config: AppConfig, models: Sequence[Model], boards: Sequence[Board], tflm: TflmRevision) -> AppKernels:
    """The kernels of the app `config` with `models`, in its order, for `boards`. Raises AppError."""
    cores = {board.core for board in boards}
    faults = zip(config.models, (miscomputed(model, tflm.revision, cores) for model in models), strict=True)
    wrong = next((f"{item.label}: {what}" for item, what in faults if what), "")
    work = sum(cmsis_nn_work(model, tflm.revision) for model in models)
    choice = choose(config.kernels, boards, tflm.sources, work=work, wrong=wrong)
    libraries = kernel_libraries(
        choice.names,
        boards,
        transpose_conv=config.tflm == "selected",  # Zephyr's own library takes the reference kernel
        revision=tflm.facts,
        cmsis_nn=tflm.cmsis_nn_revision,
    )
    sizes = tflm.struct_sizes(static_memory=config.tflm == "selected").on(_target(boards))
    return AppKernels(choice, libraries, sizes, not other_kernels(tflm.revisions(choice.names)))


def _target(boards: Sequence[Board]) -> str:
    """The kind of core whose arena is shown: that of all boards, Arm where they differ or none is known."""
    bits = {LP64 if "64" in board.name or board.arch == "arm64" else ILP32 for board in boards if not board.cortex_m}
    others = all(board.cortex_m is False for board in boards)
    return bits.pop() if others and len(bits) == 1 else ARM


def plan_request(config: ModelConfig, model: Model, kernels: AppKernels) -> PlanRequest:
    """The request for the arena of `model` in an app with `kernels`. Raises AppError and PlanError."""
    refuse_exclusions(config, config.label)
    preallocated = preallocated_tensors(model, [item.tensor for item in config.preallocated])
    sizes = kernels.sizes.preallocating() if preallocated else kernels.sizes
    declared = frozenset(item.name for item in config.custom_operators)
    return PlanRequest(
        libraries=tuple(library.without(declared) for library in kernels.libraries),
        sizes=sizes,
        in_place=config.in_place and kernels.in_place,
        scheduling=config.order,
        offline="never" if config.plan == ONLINE else "auto",
        constraints=Constraints(preallocated=preallocated),
        given=None if config.plan_file is None else load_plan(config.plan_file),
        arena_bytes=config.arena,
    )


def bytes_by_target(plans: Sequence[ArenaPlan], size: Callable[[Sequence[ArenaPlan]], int]) -> dict[str, int]:
    """The arena's bytes by kind of core, as `size` has them of `plans` there; {} where one kind alone can run them."""
    found = {}
    for target in TARGETS:
        there = [new for new in (on_target(plan, target) for plan in plans) if new is not None]
        if len(there) == len(plans):
            found[target] = size(there)
    return found if len(found) > 1 else {}


def prepare(config: ModelConfig, model: Model, tflm: TflmRevision, kernels: AppKernels) -> PreparedModel:
    """Check and plan one model. Raises ModelError for what no backend can run, naming operator or tensor."""
    check_interface(model)
    refusal = _checked(model, frozenset(item.name for item in config.custom_operators), tflm.revision)
    found = plan(model, plan_request(config, model, kernels))
    customs = tuple(map(custom_operator, config.custom_operators))
    resolver = op_resolver.resolve(found.head.graph, tflm.operators, customs, OPERATORS)
    refusal = refusal or resolver.refusal
    return PreparedModel(config, model, resolver, found, planned(found.running, found.offsets), refusal)


def _checked(model: Model, declared: frozenset[str], revision: str) -> ModelError | None:
    """Why TFLM's kernels do not take the model's types, where compiled code does. ModelError where neither does."""
    try:
        check_types(model, declared, revision=revision)
    except ModelError as error:
        check_types(model, declared, revision=revision, besides=runs_legacy)
        return ModelError(error.what, where=error.where, hint=f"Use the backend compiled. {HINTS['uint8']}")
    return None

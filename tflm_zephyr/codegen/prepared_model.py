# SPDX-License-Identifier: Apache-2.0
"""ModelConfig -> PreparedModel: a model read, checked against TFLM, and planned for all kernels of an app."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tflm_zephyr.arena import (
    HeadPlan,
    Need,
    better_order,
    load_plan,
    needs,
    needs_of_plan,
    preallocated_tensors,
    reordered,
)
from tflm_zephyr.boards import CMSIS_NN, PINNED_ZEPHYR, ZephyrVersion
from tflm_zephyr.codegen.app_file import ModelConfig
from tflm_zephyr.codegen.custom_operators import custom_operator
from tflm_zephyr.codegen.tensor_interface import check_interface
from tflm_zephyr.errors import AppError
from tflm_zephyr.kernels import KernelLibrary, other_kernels
from tflm_zephyr.model import Model, load_model, planned
from tflm_zephyr.tflm import CORTEX_M, StructSizes, check_types, op_resolver, sources


@dataclass(frozen=True)
class Tflm:
    """The TFLM that an app is generated for: its op resolver's calls, and its sources by kernel library.

    `typed`: see typed_registrations. `cmsis_nn_revision`: of the CMSIS-NN that its kernels call, "" when not known.
    `zephyr`: the Zephyr around it.
    """

    operators: op_resolver.OperatorTable
    sources: Mapping[str, sources.SourceTable]
    revision: str
    typed: tuple[str, ...] = ()
    cmsis_nn_revision: str = ""
    zephyr: ZephyrVersion = PINNED_ZEPHYR

    def revisions(self, kernels: Iterable[str]) -> dict[str, str]:
        """Of what has the kernels of these libraries, by name."""
        cmsis_nn = {"CMSIS-NN": self.cmsis_nn_revision} if CMSIS_NN in kernels else {}
        return {"TFLM": self.revision, **cmsis_nn}


@dataclass(frozen=True)
class PreparedModel:
    """A model, checked and planned; `data` is what the app compiles in. `needs`: see heads.needs.

    `running` is the model with the operators' order in the app, `order` their indices in the file, None for its own.
    """

    config: ModelConfig
    model: Model
    resolver: op_resolver.ResolvedOperators
    needs: tuple[Need, ...]
    data: bytes
    running: Model
    order: tuple[int, ...] | None

    @property
    def head(self) -> HeadPlan:
        """That of the kernels that need the largest arena."""
        return self.needs[0].head

    @property
    def planned(self) -> bool:
        """Whether `data` carries an offline plan."""
        return self.head.offsets is not None


def prepare(
    config: ModelConfig, tflm: Tflm, libraries: Sequence[KernelLibrary], sizes: StructSizes = CORTEX_M
) -> PreparedModel:
    """Read, check and plan one model. Raises ModelError for what TFLM cannot run, naming operator or tensor."""
    model = load_model(config.model)
    check_interface(model)
    declared = frozenset(item.name for item in config.custom_operators)
    check_types(model, declared, revision=tflm.revision)
    preallocated = preallocated_tensors(model, [item.tensor for item in config.preallocated])
    known = [library.without(declared) for library in libraries]
    if config.plan_file is not None and config.plan != "packed":
        raise AppError("plan: online leaves to TFLM what plan_file places", where=config.label, hint="Drop one of them")
    overlap = config.overlap == "auto" and not other_kernels(tflm.revisions(item.name for item in libraries))
    if config.plan_file is not None:
        mine = load_plan(config.plan_file)
        mine.check_use(model, {library.name for library in known})
        order, running = mine.order, reordered(model, known[0], mine.order)
        found = needs_of_plan(
            running, known, mine.offsets, preallocated, arena_bytes=config.arena, overlap=overlap, sizes=sizes
        )
    else:

        def planned_with(one: Model) -> tuple[Need, ...]:
            offline = "auto" if config.plan == "packed" else "never"
            return needs(one, known, offline=offline, preallocated=preallocated, overlap=overlap, sizes=sizes)

        order, running, found = None, model, planned_with(model)
        better = None
        if config.order == "auto":
            better = better_order(model, found[0].library, overlap=overlap, preallocated=preallocated)
        if better is not None:
            others = planned_with(better[0])
            if others[0].arena.bytes < found[0].arena.bytes:
                running, order, found = better[0], better[1].operators, others
    head = found[0].head
    resolver = op_resolver.resolve(head.graph, tflm.operators, tuple(map(custom_operator, config.custom_operators)))
    return PreparedModel(config, model, resolver, found, planned(running, head.offsets), running, order)

# SPDX-License-Identifier: Apache-2.0
"""PreparedModel -> InterpreterSpec: the op resolver's calls, the registrations behind them, buffers and tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from tflm_zephyr.arena import ArenaPlan, ArenaSize, static_arena
from tflm_zephyr.boards import CMSIS_NN
from tflm_zephyr.codegen.backends.backend import BuildSetup
from tflm_zephyr.codegen.backends.interpreter_spec import CallSpec, InterpreterSpec, ResolverSpec, StaticPlan
from tflm_zephyr.codegen.escape import c_string
from tflm_zephyr.codegen.preallocated_buffers import buffer_specs
from tflm_zephyr.codegen.prepared_model import PreparedModel, bytes_by_target
from tflm_zephyr.codegen.spec import ArenaSpec
from tflm_zephyr.kernels import typed_registration, uses_of
from tflm_zephyr.model import planned
from tflm_zephyr.options import STATIC
from tflm_zephyr.tflm import op_resolver

Call = op_resolver.ResolverCall | op_resolver.CustomOperator


def interpreter_model(item: PreparedModel, setup: BuildSetup) -> tuple[InterpreterSpec, ArenaSpec]:
    """The model in the MicroInterpreter, and its arena. Raises AppError."""
    typed = typed_names(item, setup)
    runtime = InterpreterSpec(
        data=item.data,
        planned=item.planned,
        resolver=ResolverSpec(tuple(CallSpec(_expression(call, typed)) for call in item.resolver.calls)),
        registrations=tuple(sorted(_registration(call, typed) for call in item.resolver.calls)),
        resource_variables=item.head.graph.resource_variables,
        custom_headers=tuple(sorted({custom.header for custom in item.config.custom_operators})),
        preallocated=buffer_specs(item.model, item.config),
    )
    if item.config.plan == STATIC:
        return _with_static_plan(runtime, item)
    return runtime, _arena(item)


def _with_static_plan(runtime: InterpreterSpec, item: PreparedModel) -> tuple[InterpreterSpec, ArenaSpec]:
    """`runtime` with a table instead of an offline plan, and its arena.

    The app answers TFLM's requests from the table's sizes and offsets, and refuses any other. Raises PlanError, as
    arena.static_arena does.
    """
    arena = static_arena(item.plan)
    slots = tuple(zip(arena.plan.problem.sizes, arena.plan.offsets, strict=True))
    table = StaticPlan(slots, arena.plan.size_bytes)
    data = planned(item.running, None)
    size = arena.size
    return (
        replace(runtime, data=data, planned=False, static_plan=table),
        ArenaSpec(size.bytes, size.source, size.note, by_target=_by_target(item, lambda plan: static_arena(plan).size)),
    )


def linked_names(item: PreparedModel, setup: BuildSetup, *, without: Collection[str]) -> tuple[str, ...]:
    """The registration functions of all builtin operators but those `without`, by key, and of custom ones."""
    typed = typed_names(item, setup)
    calls = item.resolver.calls
    kept = [
        call for call in calls if isinstance(call, op_resolver.CustomOperator) or call.custom or call.key not in without
    ]
    return tuple(sorted(_registration(call, typed) for call in kept))


def registrations(prepared: Sequence[PreparedModel]) -> tuple[str, ...]:
    """TFLM's functions behind the op resolvers' calls, untyped and sorted, which its source tables are keyed by."""
    calls = [call for item in prepared for call in item.resolver.calls]
    return tuple(sorted({call.register for call in calls if isinstance(call, op_resolver.ResolverCall)}))


def _arena(item: PreparedModel) -> ArenaSpec:
    size = item.plan.size
    libraries = {one.library.name for one in item.arenas}
    which = f" ({item.arenas[0].library.name} kernels, which need the most)" if len(libraries) > 1 else ""
    there = _by_target(item, lambda plan: plan.size)
    return ArenaSpec(size.bytes, size.source, f"{size.note}{which}", unknown=size.unknown, by_target=there)


def _by_target(item: PreparedModel, size: Callable[[ArenaPlan], ArenaSize]) -> dict[str, int]:
    if item.config.arena is not None:
        return {}
    return bytes_by_target([item.plan], lambda plans: size(plans[0]).bytes)


def typed_names(item: PreparedModel, setup: BuildSetup) -> dict[str, str]:
    """By operator, the CMSIS-NN kernel's registration for only the types that the model uses, where there is one."""
    if CMSIS_NN not in setup.kernels or setup.app.tflm != "selected":
        return {}
    found = {
        key: typed_registration(key, uses, setup.tflm.typed, asserts=setup.app.debug, revision=setup.tflm.revision)
        for key, uses in uses_of(item.model).items()
    }
    return {key: name for key, name in found.items() if name}


def _registration(call: Call, typed: Mapping[str, str]) -> str:
    """The registration function's name; for a user's custom operator, a name that no table has."""
    if isinstance(call, op_resolver.CustomOperator):
        return f"{call.register}()"
    return ("" if call.custom else typed.get(call.key, "")) or call.register


def _expression(call: Call, typed: Mapping[str, str]) -> str:
    if isinstance(call, op_resolver.CustomOperator):
        return f"AddCustom({c_string(call.name)}, {call.register}())"
    register = "" if call.custom else typed.get(call.key, "")
    return f"{call.method}({f'tflite::{register}()' if register else ''})"

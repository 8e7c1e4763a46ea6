# SPDX-License-Identifier: Apache-2.0
"""The work of an app's models by the tables of costs, whichever backend runs them."""

from __future__ import annotations

from dataclasses import dataclass

from tflm_zephyr.boards import kernel_libraries
from tflm_zephyr.codegen.backends.compiled import CompiledSpec
from tflm_zephyr.codegen.backends.interpreter_spec import InterpreterSpec
from tflm_zephyr.codegen.spec import AppSpec, Runtime
from tflm_zephyr.compiler import ModelWork, compiled_work, interpreter_work
from tflm_zephyr.costs import Costs, costs_of
from tflm_zephyr.model import parse_model


@dataclass(frozen=True)
class EstimatedWork:
    """The work of an inference of every model of an app, one after the other, the mean of its boards' cores.

    `cycles` is None where a model runs subgraphs or custom operators. `slower` is the share that smaller buffers add,
    which is part of it. `stand_ins` are what was priced by something else, as nobody measured it.
    """

    cycles: int | None
    slower: float
    stand_ins: tuple[str, ...] = ()


def estimated_work(app: AppSpec) -> EstimatedWork:
    """The work of all models."""
    costs = app_costs(app)
    works = [runtime_work(model.runtime, costs) for model in app.models]
    programs = [model.runtime.program for model in app.models if isinstance(model.runtime, CompiledSpec)]
    return EstimatedWork(
        None if any(work.unknown for work in works) else sum(work.cycles for work in works),
        max((program.slower for program in programs), default=0.0),
        tuple(sorted({why for work in works for why in work.stand_ins.values()})),
    )


def app_costs(app: AppSpec) -> Costs:
    """The costs on the cores of the app's boards."""
    return costs_of(
        kernel_libraries(
            app.kernels,
            app.boards,
            transpose_conv=False,
            revision=app.tflm.revision,
            cmsis_nn=app.tflm.cmsis_nn_revision,
        )
    )


def runtime_work(runtime: Runtime, costs: Costs) -> ModelWork:
    """The work of a model, operator by operator."""
    if isinstance(runtime, CompiledSpec):
        return compiled_work(runtime.program, costs)
    assert isinstance(runtime, InterpreterSpec)
    return interpreter_work(parse_model(runtime.data), costs)

# SPDX-License-Identifier: Apache-2.0
"""One model of an app: prepared, given its golden runs, and built by the app's backend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from tflm_zephyr.arena import SLACK_BYTES
from tflm_zephyr.codegen.backends.backend import Backend, BuildSetup
from tflm_zephyr.codegen.golden import GoldenRuns, dump_golden, golden_runs, path_of
from tflm_zephyr.codegen.identifiers import identifier
from tflm_zephyr.codegen.prepared_model import PreparedModel
from tflm_zephyr.codegen.spec import ModelSpec
from tflm_zephyr.codegen.tensor_interface import tensor_spec
from tflm_zephyr.errors import ModelError
from tflm_zephyr.host import OnRun, available
from tflm_zephyr.model import Model, conversion_bytes
from tflm_zephyr.options import ModelConfig

_WORTH_A_REMARK = 1024  # bytes of inputs and outputs
_NO_RUNS = GoldenRuns((), "", "", {})


@dataclass(frozen=True)
class BuiltModel:
    """A model of an app with its PreparedModel, remarks for the user, and the files of its golden runs by path."""

    spec: ModelSpec
    prepared: PreparedModel
    notes: tuple[str, ...] = ()
    golden_files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class GoldenRequest:
    """Options of golden runs: `app` is the app's folder; see `generate` for the rest."""

    app: Path
    keep: bool = False
    wanted: bool = True
    on_run: OnRun | None = None


def built_model(
    config: ModelConfig, model: Model, setup: BuildSetup, backend: Backend, golden: GoldenRequest
) -> BuiltModel:
    """`model` of `config` as a part of the app. Raises ModelError, PlanError or AppError."""
    item = backend.prepare(config, model, setup)
    # The golden runs of windows that overlap are by the rows of the compiled model.
    built = None if setup.app.hop is None else backend.build(item, setup)
    runs = _NO_RUNS
    if golden.wanted:
        stream = None if built is None else built[0].stream
        run = partial(
            golden_runs, item.model, config, golden.app, stream=stream, keep=golden.keep, on_run=golden.on_run
        )
        runs = setup.shared.once("golden", (config, id(item.model), golden.app, golden.keep, stream), run)
        if item.refusal is not None:  # as it must; LiteRT is the reference
            custom = any(operator.custom_code for one in model.subgraphs for operator in one.operators)
            alone = not runs.runs and available("litert") and not custom
            runs = replace(runs, refusal=item.refusal.what if alone else "", warning="", hopeless=alone)
        if runs.hopeless:
            hint = "LiteRT does not run it either: convert it again"
            raise ModelError(runs.refusal, where=model.where, hint=hint)
        if runs.refusal and not backend.prepares_on_device:
            hint = "Convert it again; compiled code would run it without TFLM's checks"
            raise ModelError(runs.refusal, where=model.where, hint=hint)
    runtime, arena = backend.build(item, setup) if built is None else built
    main = item.model.main
    spec = ModelSpec(
        name=config.label,
        ident=identifier(config.label),
        sha256=item.model.sha256,
        inputs=tuple(tensor_spec(main.tensors[i]) for i in main.inputs),
        outputs=tuple(tensor_spec(main.tensors[i]) for i in main.outputs),
        arena=arena,
        runtime=runtime,
        golden=runs.runs,
        golden_source=runs.source,
        operators=sum(len(subgraph.operators) for subgraph in item.model.subgraphs),
        tensors=len(main.tensors),
    )
    files = {path_of(spec.ident): dump_golden(runs, item.model.sha256)} if runs.runs else {}
    return BuiltModel(spec, item, tuple(_notes(item, runs, golden)), files)


def _notes(item: PreparedModel, runs: GoldenRuns, golden: GoldenRequest) -> Iterator[str]:
    label, given = item.config.label, item.config.arena
    yield from (f"{label}: {remark}" for remark in runs.notes)
    need = item.plan.largest.size.bytes
    if given is not None and given < need - SLACK_BYTES:
        yield f"{label}: {given} bytes are too few; the estimate is {need}"
    fewer = conversion_bytes(item.model)
    if fewer >= _WORTH_A_REMARK:
        yield f"{label}: io: int8 leaves out the conversions at its ends: {fewer:,} bytes fewer of inputs and outputs"
    if runs.warning:
        yield f"warning: {label}: {runs.warning}"
    if golden.wanted and not runs.runs:
        yield f"{label}: the self-test carries no reference"

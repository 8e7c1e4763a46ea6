# SPDX-License-Identifier: Apache-2.0
"""The golden runs of an app's self-test, and the file that keeps them beside the app.

`tflm/golden/<model>.json` in an app holds the inputs and the reference's outputs in hex, their origin, and the SHA-256
of the model. They are reused as long as new runs would be the same. Where no reference is installed, they are reused as
long as model and inputs are the same, so that the app can be generated and checked there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tflm_zephyr.codegen.app_folder import OWN, as_generated, own_path
from tflm_zephyr.codegen.identifiers import identifier
from tflm_zephyr.codegen.spec import GoldenSpec, StreamSpec
from tflm_zephyr.errors import AppError
from tflm_zephyr.host import OnRun, golden_outputs
from tflm_zephyr.model import Model
from tflm_zephyr.options import ModelConfig
from tflm_zephyr.plain_values import load_json, plain_values, read_values
from tflm_zephyr.tensors import load_dataset, quantise

# TFLM's package has another revision than the app's TFLM and knows other operators: a hint, no proof.
_ADVICE = "the app's TFLM, of another revision, may refuse it too: run its self-test in QEMU or on a board"


@dataclass(frozen=True)
class GoldenRuns:
    """Runs with their outputs (none when no reference runs the model), the engines that made them, and remarks.

    `inputs` names the inputs' origin, `outputs` the engines that gave the outputs, `engines` the version of each engine
    that ran the model. `warning` says that TFLM on the host did not run it, `refusal` why, as far as it should have.
    `hopeless`: TFLM crashed on the model and LiteRT did not run it either.
    """

    runs: tuple[GoldenSpec, ...]
    inputs: str
    outputs: str
    engines: Mapping[str, str]
    notes: tuple[str, ...] = ()
    warning: str = ""
    refusal: str = ""
    hopeless: bool = False

    @property
    def source(self) -> str:
        """The runs' origin for generated files; empty without runs."""
        return f"{self.outputs}; {self.inputs}" if self.runs else ""


@dataclass(frozen=True)
class _GoldenFile:
    """The file's keys: `inputs` and `outputs` name the origin of the runs' inputs and outputs; see GoldenRuns."""

    sha256: str
    inputs: str
    outputs: str
    engines: Mapping[str, str]
    runs: tuple[GoldenSpec, ...]


def path_of(ident: str) -> str:
    """Where an app keeps the golden runs of the model `ident`, below its tflm/."""
    return f"golden/{ident}.json"


def golden_runs(
    model: Model,
    config: ModelConfig,
    app: Path,
    *,
    stream: StreamSpec | None = None,
    keep: bool = False,
    on_run: OnRun | None = None,
) -> GoldenRuns:
    """The golden runs of `model`: those kept in the folder `app` when they fit, or new ones.

    The inputs are the first `runs` of the config's file, or seeded random ones without a file. Kept runs fit when
    new runs would be the same: same inputs, made by the engines that are installed here. With `keep`, or where no
    engine is installed, runs of any engines fit. `on_run`: see golden_outputs.attempt.
    With a `stream` whose windows overlap the runs are a first window and `runs` hops. AppError where the file has
    other windows.
    """
    hops = stream is not None and stream.hop is not None
    count = config.runs + hops
    inputs = None if config.inputs is None else _given(model, config.inputs, count)
    origin = "seeded random inputs" if config.inputs is None else f"inputs from {config.inputs.name}"
    if stream is not None and hops:
        seeded = [golden_outputs.seeded_inputs(model, seed) for seed in range(count)]
        inputs = _signal(seeded, stream) if inputs is None else _checked(inputs, stream, str(config.inputs))
    kept = _kept(app, path_of(identifier(config.label)), model)
    if (
        kept is not None
        and (kept.inputs, len(kept.runs)) == (origin, count)
        and inputs in (None, [run.inputs for run in kept.runs])
        and (keep or golden_outputs.installed() in ({}, kept.engines))
    ):
        return kept
    found = golden_outputs.attempt(model, inputs, count, on_run)
    notes, warning = found.notes, ""
    if found.refusal and config.custom_operators:
        notes += (found.refusal,)  # as it must, without them
    elif found.refusal:
        warning = f"{found.refusal}; {_ADVICE}"
    runs = tuple(GoldenSpec(run.inputs, run.outputs) for run in found.golden)
    refusal = "" if config.custom_operators else found.refusal
    return GoldenRuns(
        runs, origin, found.source, found.engines, notes, warning, refusal, found.hopeless and bool(refusal)
    )


def _signal(runs: Sequence[tuple[bytes, ...]], stream: StreamSpec) -> list[tuple[bytes, ...]]:
    """The runs with the streamed input as windows of one signal: each ends with the first rows of its own."""
    found = list(runs[:1])
    for run in runs[1:]:
        last = found[-1][stream.input]
        window = last[stream.hop_bytes :] + run[stream.input][: stream.hop_bytes]
        found.append((*run[: stream.input], window, *run[stream.input + 1 :]))
    return found


def _checked(runs: list[tuple[bytes, ...]], stream: StreamSpec, where: str) -> list[tuple[bytes, ...]]:
    """The runs. AppError unless each is a window of the signal that the one before is."""
    for number, (one, other) in enumerate(pairwise(runs)):
        if one[stream.input][stream.hop_bytes :] != other[stream.input][: -stream.hop_bytes]:
            what = f"input {number + 1} is not the window {stream.hop} rows behind input {number}"
            raise AppError(
                what, where=where, hint="Give the windows of one signal in their order, or leave out --inputs"
            )
    return runs


def _given(model: Model, path: Path, runs: int) -> list[tuple[bytes, ...]]:
    """The first `runs` inputs in the file `path`."""
    rows = quantise(model, load_dataset(path))
    if len(rows) < runs:
        raise AppError(
            f"holds {len(rows)} inputs, {runs} runs were requested",
            where=str(path),
            hint="Ask for fewer with --runs",
        )
    return list(rows[:runs])


def dump_golden(golden: GoldenRuns, sha256: str) -> bytes:
    """The text of the file that keeps the golden runs of the model whose SHA-256 in hex is given."""
    engines = dict(sorted(golden.engines.items()))
    kept = _GoldenFile(sha256, golden.inputs, golden.outputs, engines, golden.runs)
    return (json.dumps(plain_values(kept), indent=1, ensure_ascii=False) + "\n").encode()


def _kept(app: Path, path: str, model: Model) -> GoldenRuns | None:
    if not as_generated(app, f"{OWN}/{path}"):
        return None  # absent, or edited: its outputs are not a reference's
    try:
        kept = read_values(_GoldenFile, load_json(own_path(app, path)))
    except (OSError, ValueError):
        return None  # damaged: new runs replace it
    if kept.sha256 != model.sha256 or not kept.runs or not all(_fits(run, model) for run in kept.runs):
        return None
    return GoldenRuns(kept.runs, kept.inputs, kept.outputs, kept.engines)


def _fits(run: GoldenSpec, model: Model) -> bool:
    """Whether a run's byte strings are as long as the model's inputs and outputs."""
    main = model.main
    return all(
        [len(data) for data in given] == [main.tensors[index].size_bytes for index in indices]
        for given, indices in ((run.inputs, main.inputs), (run.outputs, main.outputs))
    )

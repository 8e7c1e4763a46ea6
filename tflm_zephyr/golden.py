# SPDX-License-Identifier: Apache-2.0
"""The golden runs of an app's self-test, and the file that keeps them beside the app.

`golden/<model>.json` in an app holds the inputs and the reference's outputs in hex, where they are from, and
the SHA-256 of the model. As long as model and inputs are the same they are taken from there, so that an app
can be generated and checked again where no reference is installed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tflm_zephyr import reference
from tflm_zephyr.app import GoldenSpec, ModelSpec, identifier
from tflm_zephyr.app_files import as_generated
from tflm_zephyr.appfile import ModelConfig
from tflm_zephyr.dataset import load_dataset, quantise
from tflm_zephyr.errors import AppError
from tflm_zephyr.model import Model


@dataclass(frozen=True)
class GoldenRuns:
    """Runs with their outputs (none when no reference runs the model), the outputs' source, and remarks."""

    runs: tuple[GoldenSpec, ...]
    source: str
    notes: tuple[str, ...] = ()


def path_of(ident: str) -> str:
    """Where an app keeps the golden runs of the model `ident`."""
    return f"golden/{ident}.json"


def golden_runs(model: Model, config: ModelConfig, app: Path) -> GoldenRuns:
    """The golden runs of `model`: those that the app in folder `app` keeps when they fit, or new ones.

    The inputs are the first `runs` of the config's file; without one, seeded random ones.
    """
    inputs = _given(model, config)
    kept = _kept(app, path_of(identifier(config.label)), model, inputs)
    if kept is not None:
        return kept
    runs: list[GoldenSpec] = []
    source, notes = "", dict[str, None]()
    for given in inputs:
        attempt = reference.attempt(model, given)
        notes.update(dict.fromkeys(attempt.notes))
        if attempt.golden is None:
            return GoldenRuns((), "", tuple(notes))
        runs.append(GoldenSpec(attempt.golden.inputs, attempt.golden.outputs))
        source = attempt.golden.source
    made_from = "seeded random inputs" if config.inputs is None else f"inputs from {config.inputs.name}"
    return GoldenRuns(tuple(runs), f"{source}; {made_from}", tuple(notes))


def _given(model: Model, config: ModelConfig) -> list[tuple[bytes, ...] | None]:
    """The inputs of each run; None leaves the choice of a seed to the reference."""
    if config.inputs is not None:
        rows = quantise(model, load_dataset(config.inputs))
        if len(rows) < config.runs:
            raise AppError(
                f"holds {len(rows)} inputs, {config.runs} runs were asked for",
                where=str(config.inputs),
                hint="Ask for fewer with --runs",
            )
        return list(rows[: config.runs])
    more = [reference.seeded_inputs(model, seed) for seed in range(1, config.runs)]
    return [None, *more]


def dump(model: ModelSpec) -> bytes:
    """The text of the file that keeps `model`'s golden runs."""
    raw = {
        "sha256": model.sha256,
        "source": model.golden_source,
        "runs": [
            {"inputs": [data.hex() for data in run.inputs], "outputs": [data.hex() for data in run.outputs]}
            for run in model.golden
        ],
    }
    return (json.dumps(raw, indent=1) + "\n").encode()


def _kept(app: Path, path: str, model: Model, inputs: Sequence[tuple[bytes, ...] | None]) -> GoldenRuns | None:
    if not as_generated(app, path):
        return None  # absent, or edited: what it says is not what a reference gave
    try:
        raw: dict[str, Any] = json.loads((app / path).read_text(encoding="utf-8"))
        runs = tuple(
            GoldenSpec(tuple(map(bytes.fromhex, run["inputs"])), tuple(map(bytes.fromhex, run["outputs"])))
            for run in raw["runs"]
        )
        source, sha256 = str(raw["source"]), raw["sha256"]
    except (OSError, ValueError, TypeError, KeyError):
        return None  # damaged: made anew
    same = len(runs) == len(inputs) and all(
        given in (None, run.inputs) for given, run in zip(inputs, runs, strict=True)
    )
    if sha256 != model.sha256 or not runs or not same or not all(_fits(run, model) for run in runs):
        return None
    return GoldenRuns(runs, source)


def _fits(run: GoldenSpec, model: Model) -> bool:
    """Whether a run's byte strings are as long as the model's inputs and outputs."""
    main = model.main
    return all(
        [len(data) for data in given] == [main.tensors[index].size_bytes for index in indices]
        for given, indices in ((run.inputs, main.inputs), (run.outputs, main.outputs))
    )

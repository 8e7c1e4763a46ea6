# SPDX-License-Identifier: Apache-2.0
"""The files that an app is generated from, as the app holds them in its tflm/: models, inputs and plans of memory.

With them an app can be copied, cloned, checked and generated elsewhere. Sources of custom operators are code of the
user's, and stay where they are.
"""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

from tflm_zephyr.codegen.app_folder import own_path
from tflm_zephyr.codegen.identifiers import identifier
from tflm_zephyr.errors import AppError
from tflm_zephyr.options import AppConfig, ModelConfig, app_file
from tflm_zephyr.tensors import load_dataset

MOST_INPUT_BYTES = 1 << 20
"""Bytes of a file of inputs that an app holds whole; of a larger one it holds the first samples."""


def hold(config: AppConfig, app: Path) -> tuple[AppConfig, dict[str, bytes]]:
    """`config` with the paths of the copies in the folder `app`, and the copies by path below its tflm/.

    Raises AppError for a file that cannot be read.
    """
    models, files = [], {}
    for item in config.models:
        held = _held(item, app)
        models.append(held)
        for source, copy in ((item.model, held.model), (item.plan_file, held.plan_file)):
            if source is not None and copy is not None:
                files[_name(copy, app)] = _bytes(source)
        if item.inputs is not None and held.inputs is not None:
            files[_name(held.inputs, app)] = (
                _bytes(item.inputs) if _same(item.inputs, held.inputs) else _first_samples(item.inputs, item.runs)
            )
    return replace(config, models=tuple(models)), files


def with_held(config: AppConfig, app: Path) -> AppConfig:
    """`config` with the app's own copies in place of files that are not there."""

    def there(path: Path | None, copy: Path | None) -> Path | None:
        return copy if path is not None and copy is not None and not path.exists() and copy.is_file() else path

    models = []
    for item in config.models:
        held = _held(item, app)
        model = there(item.model, held.model) or item.model
        inputs, plan_file = there(item.inputs, held.inputs), there(item.plan_file, held.plan_file)
        name = held.name if model != item.model else item.name
        models.append(replace(item, model=model, name=name, inputs=inputs, plan_file=plan_file))
    return replace(config, models=tuple(models))


def load_config(app: Path) -> AppConfig:
    """The config of the app in folder `app`. Raises AppError."""
    return with_held(app_file.load_app_file(own_path(app, app_file.NAME)), app)


def _held(item: ModelConfig, app: Path) -> ModelConfig:
    """`item` with paths in the app, and a name where the copy's does not say it."""
    top, ident = own_path(app.resolve()), identifier(item.label)
    return replace(
        item,
        model=top / "models" / f"{ident}.tflite",
        name="" if ident == item.label else item.label,
        inputs=None if item.inputs is None else top / "inputs" / ident / item.inputs.name,
        plan_file=None if item.plan_file is None else top / "plans" / f"{ident}.json",
    )


def _name(copy: Path, app: Path) -> str:
    return copy.relative_to(own_path(app.resolve())).as_posix()


def _same(path: Path, other: Path) -> bool:
    return path.resolve() == other.resolve()


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as err:
        raise AppError(f"cannot be read: {err.strerror or err}", where=str(path), hint="Name a file") from None


def _first_samples(path: Path, runs: int) -> bytes:
    """The file's bytes; of a large one, in a file of its kind, as many of its first samples as fit, `runs` at least."""
    data = _bytes(path)
    if len(data) <= MOST_INPUT_BYTES:
        return data
    import numpy

    dataset = load_dataset(path)
    arrays = (*dataset.inputs, *(() if dataset.y is None else (dataset.y,)))
    rows = max(runs, MOST_INPUT_BYTES // max(1, sum(array[:1].nbytes for array in arrays)))
    stream = io.BytesIO()
    if path.suffix == ".npy":
        numpy.save(stream, dataset.inputs[0][:rows])
        return stream.getvalue()
    names = ["x"] if len(dataset.inputs) == 1 else [f"x{index}" for index in range(len(dataset.inputs))]
    kept = dict(zip([*names, "y"], (array[:rows] for array in arrays), strict=False))
    numpy.savez(stream, **kept)
    return stream.getvalue()

# SPDX-License-Identifier: Apache-2.0
"""An app that takes new models: which model of the app a file is for, and the app before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from tflm_zephyr.cli.commands.app_writing import manifest_of
from tflm_zephyr.codegen import AppManifest, Generated, ModelChange, app_folder, identifier, model_changes, own_path
from tflm_zephyr.errors import AppError, ToolError
from tflm_zephyr.files import read_if_there
from tflm_zephyr.footprint import BoardFit
from tflm_zephyr.model import parse_model
from tflm_zephyr.options import AppConfig, ModelConfig
from tflm_zephyr.tensors import Dataset, load_dataset, with_class_numbers

if TYPE_CHECKING:
    from tflm_zephyr.validation import Accuracy, Deviation

MOST_SAMPLES = 1000
"""Samples of labelled data that the old and the new model run on this machine."""


@dataclass(frozen=True)
class PreviousApp:
    """An app before it is generated again: its manifest, and its models' .tflite by identifier."""

    manifest: AppManifest
    models: Mapping[str, bytes]


@dataclass(frozen=True)
class Quality:
    """A model on `count` of the `available` samples of labelled data, in TFLM on this machine.

    `was` is None where the old model cannot run on them; `why` tells why the new one could not, "" where it did.
    """

    model: str
    data: str
    count: int
    available: int
    was: Accuracy | Deviation | None = None
    now: Accuracy | Deviation | None = None
    why: str = ""


@dataclass(frozen=True)
class AppUpdate:
    """The models that changed, the estimated flash by board as it was and is, and the models' quality."""

    models: tuple[ModelChange, ...]
    flash: Mapping[str, tuple[int, int]]
    quality: tuple[Quality, ...]


def with_new_models(config: AppConfig, given: Sequence[Path], app: Path) -> AppConfig:
    """`config` with the files `given` (FILE, or MODEL=FILE) for its models, which keep their names and options.

    A file is for the model that it is named after, and for the only model of an app. Raises AppError.
    """
    models = {identifier(item.label): item for item in config.models}
    for path in given:
        name, file = _named(path)
        ident = identifier(name or file.stem)
        if ident not in models and not name and len(models) == len(given) == 1:
            (ident,) = models
        if ident not in models:
            raise AppError(
                f"the app has no model {name or file.stem} but {', '.join(models)}",
                where=str(path),
                hint=f"Write MODEL={file} for one of them, or add it under models: in {own_path(app, 'app.yaml')}",
            )
        item = models[ident]
        models[ident] = replace(item, model=file.parent.resolve() / file.name, name=item.label)
    return replace(config, models=tuple(models.values()))


def _named(path: Path) -> tuple[str, Path]:
    """The model's name and the file of MODEL=FILE; no name where that is a file's own name."""
    name, sign, file = str(path).partition("=")
    return (name, Path(file)) if sign and "/" not in name and not path.exists() else ("", path)


def previous_app(app: Path) -> PreviousApp | None:
    """The app as it is in the folder `app`; None where there is none."""
    manifest = app_folder.load_manifest_if_any(app)
    if manifest is None:
        return None
    found = {ident: read_if_there(own_path(app, f"models/{ident}.tflite")) for ident in manifest.models}
    return PreviousApp(manifest, {ident: data for ident, data in found.items() if data is not None})


def update_of(before: PreviousApp, made: Generated, fits: Sequence[BoardFit], config: AppConfig) -> AppUpdate:
    """The differences between the app `before` and `made` of `config`."""
    now = manifest_of(made, fits)
    changed = model_changes(before.manifest.models, now.models)
    flash = {
        board: (before.manifest.flash[board], size)
        for board, size in now.flash.items()
        if before.manifest.flash.get(board, size) != size
    }
    entries = {identifier(item.label): item for item in config.models}
    retrained = [
        change.ident for change in changed if change.now and change.was and change.now.sha256 != change.was.sha256
    ]
    models = {model.ident: model.runtime.data for model in made.spec.models}
    found = [_quality(entries[ident], models[ident], _old_bytes(before, ident)) for ident in retrained]
    return AppUpdate(changed, flash, tuple(item for item in found if item is not None))


def _old_bytes(before: PreviousApp, ident: str) -> bytes | None:
    """The model that the app was generated from; None where a new one lies in its place already."""
    data = before.models.get(ident)
    same = data is not None and parse_model(data).sha256 == before.manifest.sha256[ident]
    return data if same else None


def _quality(item: ModelConfig, new: bytes, old: bytes | None) -> Quality | None:
    """The models on the labelled inputs of `item`; None without labels."""
    if item.inputs is None:
        return None
    data = load_dataset(item.inputs)
    if data.y is None:
        return None
    count = min(len(data), MOST_SAMPLES)
    first = Dataset(data.where, tuple(array[:count] for array in data.inputs), data.y[:count])
    said = Quality(identifier(item.label), item.inputs.name, count, len(data))
    try:
        now = _evaluated(new, first)
    except ToolError as err:
        return replace(said, why=str(err))
    try:
        was = None if old is None else _evaluated(old, first)
    except ToolError:  # another interface
        was = None
    return replace(said, was=was if type(was) is type(now) else None, now=now)


def _evaluated(model: bytes, data: Dataset) -> Accuracy | Deviation:
    from tflm_zephyr.validation import evaluate_host

    main = parse_model(model).main
    data = with_class_numbers(data, prod(main.tensors[main.outputs[0]].shape))
    return evaluate_host(model, data)

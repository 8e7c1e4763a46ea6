# SPDX-License-Identifier: Apache-2.0
"""Options as they were given: put into a config, and refused where the backend or another option rules them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from tflm_zephyr.boards import AUTO
from tflm_zephyr.errors import AppError
from tflm_zephyr.options.option import Row, rows_of
from tflm_zephyr.options.table import COMPILED, INTERPRETER, AppConfig, LibraryConfig, ModelConfig

_Config = TypeVar("_Config", AppConfig, ModelConfig, LibraryConfig)


def options_of(command: str) -> tuple[Row, ...]:
    """The options that a command takes as flags."""
    kinds = (AppConfig, ModelConfig, LibraryConfig)
    rows = [row for kind in kinds for row in rows_of(kind).values()]
    return tuple(row for row in rows if command in row.option.commands.split())


def with_given(config: AppConfig, values: Mapping[str, Any]) -> AppConfig:
    """`config` with the options in `values` that are not None, by Row.dest; those of models for each model."""
    given = {key: value for key, value in values.items() if value is not None}
    models = tuple(
        filled(model, {key: value for key, value in given.items() if key != "name"}) for model in config.models
    )
    return replace(filled(config, given), models=models)


def filled(config: _Config, given: Mapping[str, Any]) -> _Config:
    """`config` with those of the values in `given` that are its options' on the command line, paths absolute."""
    rows = [row for row in rows_of(type(config)).values() if row.option.commands and row.dest in given]
    return replace(config, **{row.name: _value(row, given[row.dest]) for row in rows})


def _value(row: Row, value: Any) -> Any:
    if row.kind is bool:
        return bool(value) != bool(row.default)
    if isinstance(value, Path):
        return value.parent.resolve() / value.name  # `..` then means the same wherever it is read again
    return tuple(value) if isinstance(value, list) else value


def implied_backend(config: AppConfig) -> str:
    """The backend of an app that names none: AUTO, or the one that alone has the options that are given."""
    if config.backend != AUTO or config.flash is not None or config.optimize:
        return config.backend
    return COMPILED if foreign_options(config, INTERPRETER) else AUTO


def foreign_options(config: AppConfig | ModelConfig, backend: str) -> tuple[Row, ...]:
    """The options of `config` that are given and that another backend than `backend` alone has."""
    rows = rows_of(type(config)).values()
    return tuple(row for row in rows if row.option.backend not in ("", backend) and row.given(config))


def refuse_exclusions(config: AppConfig | ModelConfig, where: str) -> None:
    """AppError for two options of an app, or of a model, that exclude each other."""
    rows = rows_of(type(config))
    for row in rows.values():
        for name in row.option.excludes:
            if row.given(config) and rows[name].given(config):
                value = getattr(config, name)
                other = f"{name}: {value}" if isinstance(value, str) else name
                what = f"{row.name} and {other} exclude each other"
                why = f": {row.option.why}" if row.option.why else ""
                raise AppError(f"{what}{why}", where=where, hint="Drop one of them")


def refuse_foreign(configs: Sequence[AppConfig | ModelConfig], backend: str, where: str) -> None:
    """AppError for options that another backend than `backend` alone has."""
    foreign = [row for config in configs for row in foreign_options(config, backend)]
    if foreign:
        names = [row.name for row in foreign]
        other = foreign[0].option.backend
        what = f"{listed(names)} {'is' if len(names) == 1 else 'are'} the {other} backend's"
        hint = f"Use the backend {other}, or drop the option{'s' * (len(names) > 1)}"
        raise AppError(what, where=where, hint=hint)


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: "a, b and c"."""
    *most, last = names
    return f"{', '.join(most)}{' and ' if most else ''}{last}"

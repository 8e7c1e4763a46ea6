# SPDX-License-Identifier: Apache-2.0
"""An option as a value: what stands at the field that declares it, and the rows that are read from these fields."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from types import NoneType
from typing import Any


@dataclass(frozen=True)
class Option:
    """The mark of a field that is an option; the field has its name, type, accepted values and default.

    The name is the app file's key; with dashes the flag, in capitals the word of tflm_model().
    `commands` take it as a flag, `basic` are those of them whose short help shows it; separated by spaces. `backend` is
    the only backend that has it, "" for all. `implies` is an option that it turns on; `excludes` are options that
    cannot be given with it, `why` says the reason where it is not plain. `flag` is its name on the command line where
    that is another, `short` a letter besides; `metavar` its value. `word`: an option of `library` that is a word of
    tflm_model().
    """

    help: str
    commands: str = ""
    basic: str = ""
    backend: str = ""
    implies: str = ""
    excludes: tuple[str, ...] = ()
    why: str = ""
    flag: str = ""
    short: str = ""
    metavar: str = ""
    word: bool = True


@dataclass(frozen=True)
class Row:
    """An option with its field: `hint` is the field's type with its marks, `kind` the type alone, without None."""

    name: str
    hint: Any
    kind: Any
    default: Any
    option: Option

    @property
    def dest(self) -> str:
        """Its attribute in parsed arguments: "fast_kernels", or "no_in_place" for a switch that is on by default."""
        return self.option.flag or f"{'no_' if self.default is True else ''}{self.name}"

    @property
    def flag(self) -> str:
        """Its form on the command line: "--fast-kernels"."""
        return f"--{self.dest.replace('_', '-')}"

    def given(self, config: object) -> bool:
        """Whether `config` has another value than the default."""
        return bool(getattr(config, self.name) != self.default)


def rows_of(kind: type) -> Mapping[str, Row]:
    """The options among the fields of a dataclass, by name; those of base classes come last."""
    return _rows(kind)


@cache
def _rows(kind: type) -> Mapping[str, Row]:
    hints, found = typing.get_type_hints(kind, include_extras=True), {}
    for field in sorted(fields(kind), key=lambda item: item.kw_only is True):
        hint = hints[field.name]
        option = next((mark for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, Option)), None)
        if option is not None:
            default = () if field.default is MISSING else field.default
            found[field.name] = Row(field.name, hint, _bare(hint), default, option)
    return found


def _bare(hint: Any) -> Any:
    """The type without marks and None; of a tuple the type of its items."""
    inside = typing.get_args(hint)
    if typing.get_origin(hint) is typing.Annotated:
        return _bare(inside[0])
    if typing.get_origin(hint) is tuple:
        return inside
    rest = [part for part in inside if part is not NoneType]
    return rest[0] if rest else hint

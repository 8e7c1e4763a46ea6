# SPDX-License-Identifier: Apache-2.0
"""The tables of the TensorFlow Lite schema (version 3c) as data: each field with its slot.

data/schema.json is derived from the `tflite` package by scripts/schema_json.py. Importing that package takes 0.3 to
0.8 s, as it loads all its modules and numpy, and reading a model takes a few milliseconds: so it is imported only to
name an operator that is newer than the tables.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tflm_zephyr.resources import package_data

FORMATS: Mapping[str, str] = {
    "bool": "?", "i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q",
    "f32": "f", "f64": "d",
}  # fmt: skip
"""struct's letter for each kind of scalar; all are little-endian."""

WIDTHS: Mapping[str, int] = {
    "bool": 1, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "i64": 8, "u64": 8, "f32": 4,
    "f64": 8,
}  # fmt: skip
"""Bytes for each kind of scalar."""


@dataclass(frozen=True)
class Field:
    """A table's field.

    `kind` is a scalar of FORMATS, "str", a table's name, or a union's name with "|" before it; `vector` says
    that the field is a vector of them. A union's number stands in the slot before its value.
    """

    name: str
    slot: int
    kind: str
    vector: bool
    default: int

    @property
    def is_scalar(self) -> bool:
        """Stored in the table itself rather than through an offset."""
        return not self.vector and self.kind in FORMATS


@functools.cache
def fields(table: str) -> Mapping[str, Field]:
    """The fields of a table by name, in slot order, without deprecated ones. KeyError for an unknown one."""
    found = {}
    for slot, word in enumerate(_schema()["tables"][table].split()):
        if word == "-":
            continue
        name, _, rest = word.partition(":")
        kind, _, default = rest.partition("=")
        found[name] = Field(name, slot, kind.strip("[]"), kind.startswith("["), int(default or 0))
    return found


def operator_name(code: int) -> str:
    """The schema's name of a builtin operator; BUILTIN_<code> for one newer than the schema."""
    names = _schema()["operators"]
    return str(names[code]) if 0 <= code < len(names) else newer_operators().get(code, f"BUILTIN_{code}")


@functools.cache
def newer_operators() -> Mapping[int, str]:
    """Builtin operators of the installed `tflite` package, which may be newer than schema.json, by number."""
    import tflite

    return {number: name for name, number in vars(tflite.BuiltinOperator).items() if isinstance(number, int)}


def type_name(code: int) -> str | None:
    """The schema's name of a tensor type in lower case, None for one newer than the schema."""
    names = _schema()["tensor_types"]
    return str(names[code]).lower() if 0 <= code < len(names) else None


def union_member(union: str, number: int) -> str | None:
    """The table behind a union's number; None for NONE (0) and for one newer than the schema."""
    members = _schema()["unions"][union]
    return str(members[number]) if 0 < number < len(members) else None


@functools.cache
def _schema() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(package_data("schema.json"))
    return loaded

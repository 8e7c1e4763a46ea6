# SPDX-License-Identifier: Apache-2.0
"""Frozen dataclasses from the plain values of a JSON or YAML file, and back.

`read_values(kind, raw)` checks `raw` against the types of the dataclass `kind`: a text is a `str`, a whole number an
`int` (never a bool, never a float), a list a `tuple`, a mapping a `Mapping` or another dataclass, a text a `Path`, a
text of hexadecimal digits `bytes`. Limits and choices stand at the type as `Annotated[int, Limits(1, 8)]`. An error is
a ValuesError, whose text is one line that begins with the path to the wrong value: "models[0].arena wants a whole
number from 1 to 2147483647, not 'big'". Unknown keys are errors too, with the known key that comes closest.

`read_size` and `read_percent` take bytes and percentages as people write them, in files and on the command line.

Why not a library: dacite names neither the index in a list nor a limit; cattrs and mashumaro turn "3" into 3 and report
errors as trees; pydantic brings 9 MB of compiled code. Each takes longer to import (80 to 300 ms on one core) than
`tflm-zephyr` takes to start, and the texts of errors would still be written here.
"""

from __future__ import annotations

import json
import math
import re
import types
import typing
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

_T = TypeVar("_T")
_LONGEST_SHOWN = 40
A_SIZE = "a size in bytes: write it as 4096, 4k or 4KiB"
A_PERCENTAGE = "a percentage: write it as 3, 3% or 0.5%"
MOST_PERCENT = 100_000.0
_DIGITS = 20  # Python refuses to read thousands of them
_SIZE = re.compile(r"(0[xX][0-9a-fA-F]+|\d+)(?: ?([kKmM])(?:i?[bB])?)?", re.ASCII)
_PERCENT = re.compile(r"(\d+(?:\.\d*)?|\.\d+) ?%?", re.ASCII)
_UNITS = {"": 1, "k": 1024, "m": 1024 * 1024}
_WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", Path: "a path"}


class ValuesError(ValueError):
    """A value that is not of its type; the text is one line, the path to the value first."""


@dataclass(frozen=True)
class Limits:
    """A number from `low` to `high`, both included."""

    low: int
    high: int

    def accepts(self, value: Any) -> bool:
        """Whether it is within the limits."""
        return bool(self.low <= value <= self.high)

    @property
    def wants(self) -> str:
        """The limits in words."""
        return f"a whole number from {self.low} to {self.high}"


@dataclass(frozen=True)
class OneOf:
    """One of these texts."""

    choices: tuple[str, ...]

    def accepts(self, value: Any) -> bool:
        """Whether it is one of them."""
        return value in self.choices

    @property
    def wants(self) -> str:
        """The choices in words."""
        return " or ".join(choice for choice in self.choices if choice)


@dataclass(frozen=True)
class Check:
    """A value for which `accepts` is true; `wants` says in words which ones are."""

    accepts: Callable[[Any], object]
    wants: str


@dataclass(frozen=True)
class Key:
    """The field's key in the file, where that is not the field's name."""

    name: str


@dataclass(frozen=True)
class NotInFile:
    """A field that is no key of the file and keeps its default."""


@dataclass(frozen=True)
class Alias:
    """`word` in the file stands for `value`: "auto" for None."""

    word: str | bool
    value: Any


@dataclass(frozen=True)
class Spelled:
    """A text is read by `read`, which raises ValueError for one that is not `wants`: "20k" for 20480."""

    read: Callable[[str], object]
    wants: str


@dataclass(frozen=True)
class Short:
    """A text alone stands for a mapping with that text under the key `key`."""

    key: str


@dataclass(frozen=True)
class OneAlone:
    """A value that is no list stands for a list of it."""


@dataclass(frozen=True)
class Rules:
    """Rules that hold for a whole file.

    `null_is_default`: null under a key counts as if the key was left out. `ignored`: keys at the top that are passed
    over. `ignore_unknown`: all unknown keys are passed over. `text`: a check on every text. `folder`: relative paths
    are below it. `renamed`: keys that there were once, with what to write instead.
    """

    null_is_default: bool = False
    ignored: Collection[str] = ()
    ignore_unknown: bool = False
    text: Check | None = None
    folder: Path = Path()
    renamed: Mapping[str, str] | None = None


def load_json(path: Path) -> Any:
    """The value in a JSON file. Raises OSError, and ValueError with a text of one line for a file that is no JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as err:
        raise ValuesError(f"no JSON: {_one_line(err)}") from None


def load_yaml(path: Path) -> Any:
    """The value in a YAML file. Raises OSError, and ValueError with a text of one line for a file that is no YAML."""
    try:
        text = path.read_text(encoding="utf-8")
    except ValueError as err:
        raise ValuesError(f"no YAML: {_one_line(err)}") from None
    return parse_yaml(text)


def parse_yaml(text: str) -> Any:
    """The value in a YAML document. Raises ValueError with a text of one line where it is none."""
    import yaml

    class Loader(yaml.SafeLoader):
        """YAML's own, which refuses a key that stands twice in a mapping."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            """See SafeConstructor."""
            seen: set[tuple[str, str]] = set()
            for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
                if isinstance(key, yaml.ScalarNode) and (key.tag, key.value) in seen:
                    raise ValuesError(f"line {key.start_mark.line + 1} has the key {shown(key.value)} a second time")
                seen.add((key.tag, str(key.value)))
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, Loader)
    except ValuesError:
        raise
    except (ValueError, RecursionError, yaml.YAMLError) as err:  # ValueError: 2020-99-99 looks like a date and is none
        raise ValuesError(f"no YAML: {_one_line(err)}") from None


def read_values(kind: type[_T], raw: object, rules: Rules | None = None, *, name: str = "the file") -> _T:
    """A `kind`, which is a dataclass, from plain values; `name` stands for the whole in errors. Raises ValuesError."""
    found: _T = _Reader(rules or Rules(), name).read(kind, raw, "")
    return found


def plain_values(
    value: object, write_path: Callable[[Path], str] = str, *, defaults: Collection[str] | None = None
) -> Any:
    """A dataclass as values that JSON and YAML can hold, which `read_values` reads back.

    With `defaults`, fields that have their default are left out, but for those named there.
    """
    if isinstance(value, Path):
        return write_path(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {key: plain_values(item, write_path, defaults=defaults) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain_values(item, write_path, defaults=defaults) for item in value]
    if is_dataclass(value):
        return {
            field.name: plain_values(item, write_path, defaults=defaults)
            for field in sorted(fields(value), key=_is_keyword)
            for item in (getattr(value, field.name),)
            if defaults is None or field.default is MISSING or item != field.default or field.name in defaults
        }
    return value


def read_word(hint: Any, text: str) -> Any:
    """A word of a command line as a value of the type `hint`, as `read_values` reads it. Raises ValuesError."""
    marks = getattr(hint, "__metadata__", ())
    spelled = any(isinstance(mark, Spelled) for mark in marks)
    number = any(isinstance(mark, Limits) for mark in marks) and not spelled
    raw = int(text[:_DIGITS]) if number and text.isascii() and text.isdigit() else text
    return _Reader(Rules(), "").read(hint, raw, "")


def _is_keyword(item: Field[Any]) -> bool:
    """The order of __init__'s arguments: keywords, as of base classes, come last."""
    return item.kw_only is True


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)


def _key(hint: Any, name: str) -> str | None:
    """The key in the file of a field of the type `hint`; None for a field that is not in the file."""
    marks = getattr(hint, "__metadata__", ())
    if any(isinstance(mark, NotInFile) for mark in marks):
        return None
    return next((mark.name for mark in marks if isinstance(mark, Key)), name)


class _Reader:
    """Reads values of one file; `at` is the path to a value, "" for the whole."""

    def __init__(self, rules: Rules, name: str) -> None:
        self._rules, self._name = rules, name

    def read(self, hint: Any, raw: object, at: str) -> Any:
        """`raw` as the type `hint`."""
        marks: tuple[Any, ...] = ()
        if typing.get_origin(hint) is typing.Annotated:
            hint, *rest = typing.get_args(hint)
            marks = tuple(rest)
        for mark in marks:
            if isinstance(mark, Alias) and type(raw) is type(mark.word) and raw == mark.word:
                return mark.value
            if isinstance(mark, Short) and isinstance(raw, str):
                raw = {mark.key: raw}
            if isinstance(mark, Spelled) and isinstance(raw, str):
                raw = self._spelled(mark, raw, at)
            if isinstance(mark, OneAlone) and not isinstance(raw, (list, Mapping)):
                raw = [raw]
        value = self._typed(hint, raw, at)
        for mark in marks:
            if isinstance(mark, (Limits, OneOf, Check)) and value is not None and not mark.accepts(value):
                raise self._error(at, mark.wants, raw, mark.choices if isinstance(mark, OneOf) else ())
        return value

    def _spelled(self, mark: Spelled, raw: str, at: str) -> object:
        try:
            return mark.read(raw)
        except ValueError:
            raise self._error(at, mark.wants, raw) from None

    def _typed(self, hint: Any, raw: object, at: str) -> Any:
        origin = typing.get_origin(hint)
        if origin in (typing.Union, types.UnionType):
            return self._union(typing.get_args(hint), raw, at)
        if origin in (tuple, list):
            return self._list(origin, typing.get_args(hint), raw, at)
        if origin is not None and issubclass(origin, Mapping):
            return self._mapping(typing.get_args(hint), raw, at)
        if is_dataclass(hint):
            return self._dataclass(hint, raw, at)
        return self._scalar(hint, raw, at)

    def _scalar(self, hint: Any, raw: object, at: str) -> Any:
        if hint in (str, Path, bytes):
            if not isinstance(raw, str):
                raise self._error(at, _WORDS.get(hint, "a text of hexadecimal digits"), raw)
            if self._rules.text is not None and not self._rules.text.accepts(raw):
                raise self._error(at, self._rules.text.wants, raw)
            if hint is bytes:
                try:
                    return bytes.fromhex(raw)
                except ValueError:
                    raise self._error(at, "a text of hexadecimal digits", raw) from None
            return raw if hint is str else self._rules.folder / raw
        if hint is float and type(raw) in (int, float) and math.isfinite(typing.cast(float, raw)):
            return float(typing.cast(float, raw))
        if hint is float or type(raw) is not hint:
            raise self._error(at, _WORDS[hint], raw)
        return raw

    def _union(self, kinds: tuple[Any, ...], raw: object, at: str) -> Any:
        if raw is None and types.NoneType in kinds:
            return None
        kinds = tuple(kind for kind in kinds if kind is not types.NoneType)
        if len(kinds) == 1:
            return self.read(kinds[0], raw, at)
        fitting = next((kind for kind in kinds if type(raw) is kind), None)
        if fitting is None:
            raise self._error(at, " or ".join(_WORDS[kind] for kind in kinds), raw)
        return self.read(fitting, raw, at)

    def _list(self, origin: Any, kinds: tuple[Any, ...], raw: object, at: str) -> Any:
        if not isinstance(raw, list):
            raise self._error(at, "a list", raw)
        if origin is tuple and kinds[-1] is not Ellipsis:
            if len(raw) != len(kinds):
                raise self._error(at, f"a list of {len(kinds)}", raw)
        else:
            kinds = (kinds[0],) * len(raw)
        return origin(
            self.read(kind, item, f"{at}[{index}]") for index, (kind, item) in enumerate(zip(kinds, raw, strict=True))
        )

    def _mapping(self, kinds: tuple[Any, ...], raw: object, at: str) -> dict[Any, Any]:
        if not isinstance(raw, Mapping):
            raise self._error(at, "a mapping", raw)
        found = {}
        for key, item in raw.items():
            place = f"{at}[{shown(key)}]"
            number = int(key) if kinds[0] is int and isinstance(key, str) and key.isdecimal() and len(key) < 20 else key
            found[self.read(kinds[0], number, place)] = self.read(kinds[1], item, place)
        return found

    def _dataclass(self, kind: Any, raw: object, at: str) -> Any:
        hints = _hints(kind)
        keys = {
            key: field
            for field in sorted(fields(kind), key=_is_keyword)
            if (key := _key(hints[field.name], field.name)) is not None
        }
        if not isinstance(raw, Mapping):
            raise self._error(at, f"a mapping with the keys {', '.join(keys)}", raw)
        for key in raw:
            if key not in keys and not self._rules.ignore_unknown and not (not at and key in self._rules.ignored):
                new = (self._rules.renamed or {}).get(key) if isinstance(key, str) else None
                hint = did_you_mean(key, keys) or f"the keys are {', '.join(keys)}"
                raise ValuesError(f"{_joined(at, shown(key))} {f'is now {new}' if new else f'is no key here; {hint}'}")
        values = {}
        for key, field in keys.items():
            absent = key not in raw or (raw[key] is None and self._rules.null_is_default)
            if absent and field.default is MISSING and field.default_factory is MISSING:
                hint = did_you_mean(key, raw)
                raise ValuesError(f"{at or self._name} wants the key {key}{f'; {hint}' if hint else ''}")
            if not absent:
                values[field.name] = self.read(hints[field.name], raw[key], _joined(at, key))
        try:
            return kind(**values)
        except ValuesError:
            raise
        except ValueError as err:  # a check of the dataclass itself, on several fields
            raise ValuesError(f"{at or self._name}: {err}") from None

    def _error(self, at: str, wants: str, raw: object, choices: Collection[str] = ()) -> ValuesError:
        hint = did_you_mean(raw, choices)
        return ValuesError(f"{at or self._name} wants {wants}, not {shown(raw)}{f'; {hint}' if hint else ''}")


def read_size(text: str) -> int:
    """Bytes of a text: 4096, 0x1000, 4k, 4KB and 4KiB are 4096, 1M is 1048576. ValueError for 0 and anything else."""
    found = _SIZE.fullmatch(text)
    digits = found[1][:_DIGITS] if found is not None else "0"
    value = int(digits, 16 if digits[:2] in ("0x", "0X") else 10)
    if found is None or value == 0:
        raise ValueError(A_SIZE)
    return value * _UNITS[(found[2] or "").lower()]


def read_percent(text: str) -> float:
    """The percentage in a text, with or without its sign: 3, 3%, 0.5 and 0.5%. ValueError for anything else.

    A whole number is an int, so that it is written as one.
    """
    found = _PERCENT.fullmatch(text)
    if found is None:
        raise ValueError(A_PERCENTAGE)
    value = float(found[1][:_DIGITS])
    return int(value) if value.is_integer() else value


def shown(raw: object) -> str:
    """A value for a message: in one line, short."""
    if raw is None or isinstance(raw, bool):
        return "null" if raw is None else str(raw).lower()
    if isinstance(raw, (Mapping, list)):
        return "a mapping" if isinstance(raw, Mapping) else "a list"
    text = repr(raw) if isinstance(raw, (str, int, float)) else f"a {type(raw).__name__}"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."


def _joined(at: str, key: str) -> str:
    return f"{at}.{key}" if at else key


def did_you_mean(word: object, known: Collection[Any]) -> str:
    """A question for the known word that `word` is most like; "" where none is."""
    if not isinstance(word, str):
        return ""
    import difflib

    found = difflib.get_close_matches(word[:100], [item for item in known if isinstance(item, str)], 1, 0.7)
    return f"did you mean {shown(found[0])}?" if found else ""


def _one_line(err: BaseException) -> str:
    return " ".join(str(err).split()) or type(err).__name__

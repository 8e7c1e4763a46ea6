# SPDX-License-Identifier: Apache-2.0
"""The reader of dataclasses: types, limits, paths in errors, and the way back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import pytest

from tests.helpers.marks import rest_slow
from tflm_zephyr.plain_values import (
    Alias,
    Check,
    Key,
    Limits,
    NotInFile,
    OneAlone,
    OneOf,
    Rules,
    Short,
    ValuesError,
    load_json,
    load_yaml,
    plain_values,
    read_percent,
    read_size,
    read_values,
)


@dataclass(frozen=True)
class Part:
    name: str
    size: Annotated[int | None, Alias("auto", None), Limits(1, 9)] = None
    kind: Annotated[str, OneOf(("", "big", "small"))] = ""
    at: Path | None = None


@dataclass(frozen=True)
class Whole:
    parts: Annotated[tuple[Annotated[Part, Short("name")], ...], Check(bool, "a part at least")]
    title: Annotated[str, Key("called")] = ""
    ratio: float = 0.5
    on: bool = False
    data: bytes = b""
    pair: tuple[str, int] = ("", 0)
    tags: Annotated[tuple[str, ...], OneAlone()] = ()
    by_number: Mapping[int, float] = field(default_factory=dict)
    which: str | int = 0
    hidden: Annotated[int, NotInFile()] = 0

    def __post_init__(self) -> None:
        if self.which == "none":
            raise ValueError("which of them?")


def test_every_kind_of_value() -> None:
    raw = {
        "parts": ["a", {"name": "b", "size": "auto", "kind": "big", "at": "x/y"}], "called": "t", "ratio": 1,
        "on": True, "data": "00ff", "pair": ["p", 2], "tags": "one", "by_number": {"3": 0.25}, "which": 7,
    }  # fmt: skip
    assert read_values(Whole, raw, Rules(folder=Path("/f"))) == Whole(
        parts=(Part("a"), Part("b", None, "big", Path("/f/x/y"))),
        title="t",
        ratio=1.0,
        on=True,
        data=b"\0\xff",
        pair=("p", 2),
        tags=("one",),
        by_number={3: 0.25},
        which=7,
    )


WRONG: dict[str, tuple[Any, str]] = {
    "no mapping": (3, "the file wants a mapping with the keys parts, called, ratio, .*, not 3"),
    "missing": ({}, "the file wants the key parts"),
    "missing, misspelt": ({"part": []}, "'part' is no key here; did you mean 'parts'?"),
    "missing below": ({"parts": [{"nam": "a"}]}, r"parts\[0\].'nam' is no key here; did you mean 'name'\?"),
    "renamed": ({"parts": ["a"], "title": "x"}, "'title' is no key here; the keys are parts, called,"),
    "not in the file": ({"parts": ["a"], "hidden": 1}, "'hidden' is no key here"),
    "null": ({"parts": None}, "parts wants a list, not null"),
    "empty": ({"parts": []}, "parts wants a part at least, not a list"),
    "limit": ({"parts": ["a", {"name": "b", "size": 10}]}, r"parts\[1\].size wants a whole number from 1 to 9, not 10"),
    "bool for a number": ({"parts": [{"name": "b", "size": True}]}, r"parts\[0\].size wants a whole number, not true"),
    "choice": (
        {"parts": [{"name": "b", "kind": "bigg"}]},
        r"parts\[0\].kind wants big or small, not 'bigg'; did you mean 'big'\?",
    ),
    "path": ({"parts": [{"name": "b", "at": 1}]}, r"parts\[0\].at wants a path, not 1"),
    "number": ({"parts": ["a"], "ratio": float("nan")}, "ratio wants a number, not nan"),
    "truth": ({"parts": ["a"], "on": 1}, "on wants true or false, not 1"),
    "hex": ({"parts": ["a"], "data": "0g"}, "data wants a text of hexadecimal digits, not '0g'"),
    "length": ({"parts": ["a"], "pair": ["x"]}, "pair wants a list of 2, not a list"),
    "key": ({"parts": ["a"], "by_number": {"x": 1}}, r"by_number\['x'\] wants a whole number, not 'x'"),
    "one of two types": ({"parts": ["a"], "which": []}, "which wants a text or a whole number, not a list"),
    "of several fields": ({"parts": ["a"], "which": "none"}, "the file: which of them?"),
    "long": ({"parts": ["a"], "ratio": "x" * 99}, r"ratio wants a number, not 'x{36}\.\.\.$"),
    "two lines": ({"parts": ["a"], "a\nb": 1}, r"'a\\nb' is no key here"),
}


@pytest.mark.parametrize(("raw", "says"), WRONG.values(), ids=WRONG)
def test_wrong_values_are_named_by_their_path(raw: Any, says: str) -> None:
    with pytest.raises(ValuesError, match=rf"^{says}") as caught:
        read_values(Whole, raw)
    assert "\n" not in str(caught.value)


def test_rules_hold_for_the_whole_file() -> None:
    raw = {"parts": [{"name": "a", "kind": None}], "called": None, "version": 1}
    rules = Rules(null_is_default=True, ignored=("version",))
    assert read_values(Whole, raw, rules) == Whole((Part("a"),))
    assert read_values(Part, {"name": "a", "more": 1}, Rules(ignore_unknown=True)) == Part("a")
    with pytest.raises(ValuesError, match="called wants a text, not null"):
        read_values(Whole, {"parts": ["a"], "called": None})
    with pytest.raises(ValuesError, match=r"parts\[0\].name wants lower case, not 'A'"):
        read_values(Whole, {"parts": ["A"]}, Rules(text=Check(str.islower, "lower case")))


def test_plain_values_read_back() -> None:
    part = Part("a", 3, at=Path("x"))
    assert plain_values(part) == {"name": "a", "size": 3, "kind": "", "at": "x"}
    assert plain_values(part, lambda path: f"/{path}", defaults=("kind",)) == {
        "name": "a", "size": 3, "kind": "", "at": "/x",
    }  # fmt: skip
    assert plain_values({"k": (b"\1", [part])}, defaults=()) == {"k": ["01", [{"name": "a", "size": 3, "at": "x"}]]}
    assert read_values(Part, plain_values(part)) == part


DEEPER = "[" * 100_000  # libyaml, which is faster, ends the process


@pytest.mark.parametrize("text", rest_slow(["{", "[" * 1_000, b"\xff".decode("latin-1"), "9" * 5000, DEEPER], 4))
def test_a_file_that_is_none_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "f"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ValuesError, match=r"^no JSON: .+$"):
        load_json(path)
    with pytest.raises(ValuesError, match=r"^no YAML: .+$"):
        load_yaml(path)
    with pytest.raises(FileNotFoundError):
        load_json(tmp_path / "none")


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ("0x1000", 4096), ("4k", 4096), ("4K", 4096), ("4KiB", 4096), ("4 KB", 4096), ("1M", 1 << 20)],
)
def test_sizes(text: str, size: int) -> None:
    assert read_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "0k", "-1", "4.5k", "4g", "k", "16 bytes", "4kk", "²"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="write it as 4096, 4k or 4KiB"):
        read_size(text)


@pytest.mark.parametrize(("text", "share"), [("3", 3), ("3%", 3), ("0.5", 0.5), ("0.5 %", 0.5), (".5%", 0.5), ("0", 0)])
def test_percentages(text: str, share: float) -> None:
    assert read_percent(text) == share


def test_a_whole_percentage_is_written_as_one() -> None:
    assert str(read_percent("10.0%")) == "10"


@pytest.mark.parametrize("text", ["", "%", "-1", "1e3", "nan", "5%%", "five"])
def test_what_is_no_percentage(text: str) -> None:
    with pytest.raises(ValueError, match=r"write it as 3, 3% or 0\.5%"):
        read_percent(text)

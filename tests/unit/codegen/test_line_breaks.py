# SPDX-License-Identifier: Apache-2.0
"""Lines of generated C and C++: broken where that changes nothing."""

from __future__ import annotations

import re

import pytest

from tests.helpers.checkout import ROOT
from tflm_zephyr.codegen.line_breaks import MOST_COLUMNS, broken, columns

GOLDEN = sorted(
    path for path in (ROOT / "tests" / "golden").rglob("*") if path.suffix in (".cpp", ".hpp", ".h", ".c", ".S")
)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: str(path.relative_to(ROOT / "tests" / "golden")))
def test_no_golden_line_is_too_long(path: object) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()  # type: ignore[attr-defined]
    assert not [line for line in lines if columns(line) > MOST_COLUMNS]


@pytest.mark.parametrize(
    "line",
    [
        "\tconst Params kParams = {" + ", ".join(map(str, range(100))) + "};",
        "\tif (Function(" + ", ".join(f"&argument_{k}" for k in range(20)) + ") != kOk) {",
        "\t{" + '"a name with, commas { and // slashes", ' * 9 + "3},",
        '\treturn "' + '\\x3f\\"\\\\ab' * 60 + '";',
    ],
)
def test_code_is_the_same_without_white_space(line: str) -> None:
    short = broken(line)
    assert all(columns(one) <= MOST_COLUMNS for one in short.split("\n"))
    joined = re.sub(r'"\s+"', "", short) if "return" in line else short
    assert re.sub(r"\s", "", joined) == re.sub(r"\s", "", line)
    assert all(
        one.count('"') - one.count('\\"') == 2 * ((one.count('"') - one.count('\\"')) // 2) for one in short.split("\n")
    )


def test_comments_are_broken_at_words_and_stand_before_code() -> None:
    words = "// " + "a word " * 30
    assert all(one.startswith("\t// ") for one in broken("\t" + words).split("\n"))
    assert broken("\tcode();  " + words).split("\n")[-1] == "\tcode();"
    name = "// " + "x" * 300
    assert broken(name).replace("\n// ", "") == name


@pytest.mark.parametrize("line", ["#error " + "no " * 60, "\tone " * 30 + "\\", "short", ""])
def test_other_lines_stay(line: str) -> None:
    assert broken(line) == line

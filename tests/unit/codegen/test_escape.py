# SPDX-License-Identifier: Apache-2.0
"""Literals, comments and paths that hold any text harmlessly."""

from __future__ import annotations

import re
import struct
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.helpers.app_specs import GXX, needs_gxx
from tests.helpers.hostile_names import HOSTILE
from tflm_zephyr.codegen.escape import c_array, c_float, c_string, cmake_path, comment, yaml_string
from tflm_zephyr.errors import AppError


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_comment_stays_one_harmless_line(text: str) -> None:
    got = comment(text)
    assert got.isascii() and (got.isprintable() or not got)
    assert "*/" not in got and "\\" not in got and "??" not in got
    assert len(got) <= 210


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_yaml_string_reads_back(text: str) -> None:
    assert yaml.safe_load(f"key: {yaml_string(text)}") == {"key": text}


def test_c_array_reads_back() -> None:
    data = bytes(range(256)) * 2 + b"\xff"
    text = c_array(data)
    assert bytes(int(item, 16) for item in re.findall(r"0x[0-9a-f]{2}", text)) == data
    assert max(map(len, text.splitlines())) < 90
    assert c_array(b"").strip() == "0,"


@pytest.mark.parametrize("value", [0.5, 1.0, 0.1, 1e-45, 1.17549435e-38, 3.40282347e38, 1e20, 7.0, 123456789.0])
def test_c_float_is_a_literal_of_the_same_float(value: float) -> None:
    text = c_float(value)
    assert re.fullmatch(r"[0-9.]+(e[+-]?\d+)?f", text) and re.search(r"[.e]", text)
    assert struct.pack("f", float(text.removesuffix("f"))) == struct.pack("f", value)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_c_float_refuses(value: float) -> None:
    with pytest.raises(AppError, match="not finite"):
        c_float(value)


@needs_gxx
def test_c_string_reads_back(tmp_path: Path) -> None:
    texts = [*HOSTILE.values(), "\\7", "1\\2", "??=", "é1"]
    lines = "".join(f"    {c_string(text)}, \n" for text in texts)
    sizes = ", ".join(str(len(text.encode())) for text in texts)
    (tmp_path / "strings.cpp").write_text(
        f"#include <cstdio>\nconst char *const texts[] = {{\n{lines}}};\nconst unsigned sizes[] = {{{sizes}}};\n"
        "int main() { unsigned i = 0; for (const char *t : texts) { fwrite(t, 1, sizes[i++], stdout); } }\n"
    )
    subprocess.run([str(GXX), "-std=c++11", "strings.cpp", "-o", "strings"], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "strings"], capture_output=True, check=True)
    assert done.stdout == "".join(texts).encode()


def test_cmake_path() -> None:
    assert cmake_path("../src/my_op.cc") == "../src/my_op.cc"
    assert cmake_path("../my ops/o(p)#.cc") == '"../my ops/o(p)#.cc"'
    for bad in ("a;b", "a$b", 'a"b', "a\\b", "a\nb"):
        with pytest.raises(AppError, match="CMake"):
            cmake_path(bad)

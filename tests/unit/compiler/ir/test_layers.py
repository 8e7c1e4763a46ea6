# SPDX-License-Identifier: Apache-2.0
"""The compiler's intermediate form holds values: no C++ in it, and nobody in the compiler takes text apart."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from tests.helpers.architectures import mobilenet
from tests.helpers.chained_networks import chained_network
from tests.helpers.compiled_models import registrations
from tflm_zephyr.compiler import CompiledModel, CompilerOptions, SegmentLayer, compile_model
from tflm_zephyr.compiler.ir.calls import Access, KernelCall, PixelRuns
from tflm_zephyr.compiler.ir.kernels import Library, cmsis_kernel
from tflm_zephyr.kernels import kernel_library
from tflm_zephyr.model import Model, parse_model

PACKAGE = Path(__file__).parents[4] / "tflm_zephyr"
READERS = ("compiler", "row_planner", "memory_planner", "fast_kernels")
"""The rooms that make, plan, prove and price the calls."""
TAKING_APART = "partition replace removeprefix removesuffix rpartition rsplit split startswith endswith find"
FOR_PEOPLE = {"title", "comment", "no_rows", "not_fast", "headers", "key"}
NAME = re.compile(r"\w+(::\w+)*")


def sources() -> list[Path]:
    return [path for room in READERS for path in sorted((PACKAGE / room).rglob("*.py"))]


def reading(tree: ast.AST) -> Iterator[str]:
    """Where a module looks into a text: a regular expression, a method that takes it apart, a search for a part."""
    for node in ast.walk(tree):
        names = [name.name for name in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        if "re" in names:
            yield "import re"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            literal = isinstance(node.func.value, ast.Constant)
            yield from [] if literal or node.func.attr not in TAKING_APART.split() else [ast.unparse(node)]
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            given, within = node.left, node.comparators[0]
            literal = isinstance(given, ast.JoinedStr) or isinstance(getattr(given, "value", None), str)
            searched = isinstance(within, ast.Name | ast.Attribute | ast.JoinedStr)
            yield from [ast.unparse(node)] if literal and searched else []


@pytest.mark.parametrize(
    "code",
    ["import re", "x.partition('(')", "call.removesuffix('>')", "'1x1' in function", "'window' not in form.locals"],
)
def test_reading_is_seen(code: str) -> None:
    assert list(reading(ast.parse(code)))


def test_nobody_reads_a_text_in_the_compiler() -> None:
    found = [f"{path}: {what}" for path in sources() for what in reading(ast.parse(path.read_text()))]
    assert not found, "\n".join(found)


def texts(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """(field, text) of all texts in a value."""
    if isinstance(value, str):
        yield name, value
    elif is_dataclass(value):
        for field in fields(value):
            yield from texts(getattr(value, field.name), field.name)
    elif isinstance(value, tuple | list):
        for one in value:
            yield from texts(one, name)
    elif isinstance(value, dict):
        for one in value.values():
            yield from texts(one, name)


def compiled(model: Model, **options: bool) -> CompiledModel:
    keys = {(False, operator.key) for operator in model.main.operators}
    library = kernel_library("cmsis_nn", dsp=True)
    return compile_model(model, (library,), CompilerOptions(**options), registrations=registrations(keys))


@pytest.mark.parametrize("seed", range(8))
def test_texts_are_names_or_for_people(seed: int) -> None:
    kind = ("int8", "int16", "float32")[seed % 3]
    program = compiled(parse_model(chained_network(seed, kind)))
    found = {text for layer in program.layers for name, text in texts(layer) if name not in FOR_PEOPLE}
    assert found
    assert [text for text in found if text and not NAME.fullmatch(text)] == []


def test_texts_of_segments_and_own_kernels_are_names() -> None:
    program = compiled(parse_model(mobilenet(32)), rows=True, fast=True)
    assert program.segments and any(layer.fast for layer in program.layers)
    found = [text for layer in program.layers for name, text in texts(layer) if name not in FOR_PEOPLE]
    assert [text for text in found if text and not NAME.fullmatch(text)] == []


def test_a_segment_has_its_members_kernels_and_headers() -> None:
    program = compiled(parse_model(mobilenet(32)), rows=True)
    (segment, *_) = program.segments
    assert isinstance(segment, SegmentLayer)
    members = {header for member in segment.members for header in member.headers}
    assert segment.headers == members | {"<algorithm>", "<cstring>"} == members | segment.headers
    assert {kernel.library for kernel in segment.kernels} <= {Library.CMSIS_NN, Library.HELPER}
    assert segment.has_code and segment.runs and not segment.calls


@pytest.mark.parametrize("backwards", [False, True])
def test_runs_of_pixels_touch_their_own_bytes(backwards: bool) -> None:
    runs = PixelRuns((4, 2), "input", 3, "output", 5, 3, backwards)
    reads, writes = (Access(0, 0, 18), Access(2, 0, 7)), (Access(1, 0, 30),)
    call = KernelCall(cmsis_kernel("arm_convolve_1x1_s8_fast"), (), reads, writes, runs)
    first, second = call.steps()
    pixels = ((2, 6), (0, 2)) if backwards else ((0, 4), (4, 6))
    for (given, taken), (begin, end) in zip((first, second), pixels, strict=True):
        assert given == (Access(0, 3 * begin, 3 * end), Access(2, 0, 7))
        assert taken == (Access(1, 5 * begin, 5 * end),)

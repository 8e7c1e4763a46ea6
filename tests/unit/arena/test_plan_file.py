# SPDX-License-Identifier: Apache-2.0
"""A plan of the user's own: read, checked against model and kernels, and refused by name where it is wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.command_line import Tool
from tests.helpers.model_builder import chain
from tflm_zephyr.arena.plan_file import load_plan
from tflm_zephyr.errors import PlanError
from tflm_zephyr.model.reader import load_model, parse_model

APART = [0, 64, 0, 64]


@pytest.fixture
def plan_of(tmp_path: Path) -> Any:
    def write(raw: object) -> Path:
        path = tmp_path / "mine.json"
        path.write_text(raw if isinstance(raw, str) else json.dumps(raw))
        return path

    return write


def test_what_plan_prints_is_a_plan(tool: Tool, tmp_path: Path, plan_of: Any) -> None:
    model_file = tmp_path / "large.tflite"
    model_file.write_bytes(chain(3, 4096))
    printed = tool("plan", model_file, "--json").json
    assert printed["offsets"] == [0, 0, 0, 0] and printed["kernels"] == "reference"
    again = tool("plan", model_file, "--plan-file", plan_of(printed), "--json").json
    assert again["offsets"] == printed["offsets"] and again["head_bytes"] == 4096


def test_a_plan_by_hand(tool: Tool, model_file: Path, plan_of: Any, tmp_path: Path) -> None:
    out = tmp_path / "out.tflite"
    mine = plan_of({"offsets": [16, 256, -1, 512]})
    shown = tool("plan", model_file, "--plan-file", mine, "--arena", "576", "-o", out)
    assert shown.code == 0 and "this plan          576" in shown.out, shown
    assert parse_model(out.read_bytes()).offline_plan == (16, 256, -1, 512)


@pytest.mark.parametrize(
    ("offsets", "options", "says"),
    [
        ([0, 64, 0], (), "the plan has 3 offsets, the model 4 tensors"),
        ([0, 32, 128, 0], (), r"tensor 0 'input' \(bytes 0 to 64, .* tensor 1 'relu0' \(bytes 32 to 96, .* overlap"),
        ([0, 32, 128, 0], ("--kernels", "cmsis_nn"), r"tensor 0 'input' .* tensor 1 'relu0' .* overlap"),
        ([0, 72, 0, 72], (), "tensor 1 'relu0' at offset 72 is not aligned to 16 bytes"),
        ([-1, 8, -1, -1], (), "tensor 1 'relu0' at offset 8 is not aligned to 16 bytes"),
        ([0, 64, 0, 128], ("--arena", "128"), "tensor 3 'relu2' at offset 128 ends at 192, past the arena's 128 bytes"),
        (
            [2**31 - 64, 0, 64, 0],
            (),
            "tensor 0 'input' at offset 2147483584 ends at 2147483648, past the 2147483647 bytes that TFLM can address",
        ),
        (APART, ("--preallocated", "input"), "tensor 0 'input' is preallocated, but the plan gives it the offset 0"),
    ],
)
def test_a_wrong_plan_is_one_line(
    tool: Tool, model_file: Path, plan_of: Any, offsets: list[int], options: tuple[str, ...], says: str
) -> None:
    said = tool("plan", model_file, "--plan-file", plan_of({"offsets": offsets}), *options)
    assert re.search(says, said.one_line()), said.err


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ("{", "no JSON"),
        ("[1, 2]", "the plan wants a mapping with the keys offsets, sha256, kernels, order, not a list"),
        ({"offset": [1]}, "the plan wants the key offsets; did you mean 'offset'?"),
        ({"offsets": [0, "x", 0, 0]}, r"offsets\[1\] wants a whole number, not 'x'"),
        ({"offsets": [0, 0, -2, 0]}, r"offsets\[2\] wants a whole number from -1 to 2147483647, not -2"),
        ({"offsets": [0, 0, 0, True]}, r"offsets\[3\] wants a whole number, not true"),
        ({"offsets": [1 << 31]}, r"offsets\[0\] wants a whole number from -1 to 2147483647, not 2147483648"),
        ({"offsets": APART, "sha256": 3}, "sha256 wants a text, not 3"),
        ({"offsets": APART, "kernels": "foo"}, "kernels wants reference or cmsis_nn, not 'foo'"),
        ({"offsets": APART, "order": [0, 1.5]}, r"order\[1\] wants a whole number, not 1.5"),
        ("[" * 100_000, "no JSON"),
    ],
)
def test_what_is_no_plan(plan_of: Any, raw: object, says: str) -> None:
    path = plan_of(raw)
    with pytest.raises(PlanError, match=says) as caught:
        load_plan(path)
    assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="no such file"):
        load_plan(tmp_path / "none.json")


def test_a_stale_plan_is_refused(tool: Tool, model_file: Path, plan_of: Any, tmp_path: Path) -> None:
    printed = tool("plan", model_file, "--json").json
    other = tmp_path / "other.tflite"
    other.write_bytes(chain(3, 128))
    said = tool("plan", other, "--plan-file", plan_of(printed)).one_line()
    assert f"SHA-256 {load_model(model_file).sha256[:16]}, {other} has {load_model(other).sha256[:16]}" in said
    said = tool("plan", model_file, "--kernels", "cmsis_nn", "--plan-file", plan_of(printed)).one_line()
    assert "the plan is for the reference kernels, but is to run with cmsis_nn" in said


@pytest.mark.usefixtures("fixed_reference")
def test_an_app_takes_it(tool: Tool, model_file: Path, plan_of: Any, tmp_path: Path) -> None:
    mine = plan_of({"offsets": [128, 0, 64, 0]})
    made = tool("generate", model_file, "-o", "app", "--plan-file", mine, "-b", "mps2/an385")
    assert made.code == 0 and "head 192, planned offline" in made.out, made
    data = (tmp_path / "app" / "tflm" / "src" / "models" / "net.tflite").read_bytes()
    assert parse_model(data).offline_plan == (128, 0, 64, 0)
    assert tool("generate", "-o", "app", "--check").code == 0
    said = tool("generate", model_file, "-o", "two", "--plan-file", mine, "--plan", "online", "-b", "mps2/an385")
    assert "plan_file and plan: online exclude each other" in said.one_line()
    plan_of({"offsets": [128, 0, 32, 0]})
    assert tool("generate", "-o", "app", "--check").code == 0  # the app holds its plan
    said = tool("generate", model_file, "-o", "two", "--plan-file", mine, "-b", "mps2/an385")
    assert "overlap" in said.one_line()
    plan_of({"offsets": APART})
    said = tool("generate", model_file, "-o", "small", "--plan-file", mine, "--arena", "64", "-b", "mps2/an385")
    assert "past the arena's 64 bytes" in said.one_line()


def overlapping_is_refused(tool: Tool, model: Path, plan: Path, *options: object) -> None:
    said = tool("plan", model, "--plan-file", plan, *options).one_line()
    assert re.search(r"tensor 0 'input' .* tensor 1 'relu0' .* overlap", said), said


@pytest.mark.parametrize("option", ["--no-in-place", "--preserve-inputs", "--preserve-all"])
def test_a_plan_is_checked_against_what_is_asked_for(tool: Tool, model_file: Path, plan_of: Any, option: str) -> None:
    assert tool("plan", model_file, "--plan-file", plan_of({"offsets": [0, 0, 0, 0]})).code == 0
    overlapping_is_refused(tool, model_file, plan_of({"offsets": [0, 0, 64, 128]}), option)
    kept = tool("plan", model_file, "--plan-file", plan_of({"offsets": [0, 64, 128, 192]}), option, "--json").json
    assert kept["head_bytes"] == 256 and kept["in_place_count"] == 0


def test_preserve_all_keeps_intermediates_in_a_plan(tool: Tool, model_file: Path, plan_of: Any) -> None:
    mine = plan_of({"offsets": [0, 64, 0, 64]})
    assert tool("plan", model_file, "--plan-file", mine, "--no-in-place").code == 0
    said = tool("plan", model_file, "--plan-file", mine, "--preserve-all").one_line()
    assert re.search(r"tensor 0 'input' .* tensor 2 'relu1' .* overlap", said), said


@pytest.mark.parametrize("option", [("--order", "auto"), ("--order", "model"), ("--variables",)])
def test_what_the_plan_says_itself_is_no_option(
    tool: Tool, model_file: Path, plan_of: Any, option: tuple[str, ...]
) -> None:
    said = tool("plan", model_file, "--plan-file", plan_of({"offsets": APART}), *option).one_line()
    assert f"{option[0]} does not go with --plan-file" in said


@pytest.mark.parametrize(("order", "given"), [([0, 1], 2), ([0, 0, 1], 3), ([0, 1, 2, 10**30], 4)])
def test_an_order_names_each_operator_once(
    tool: Tool, model_file: Path, plan_of: Any, order: list[int], given: int
) -> None:
    said = tool("plan", model_file, "--plan-file", plan_of({"offsets": APART, "order": order})).one_line()
    assert f"not an order of the model's operators: {given} given, for 3" in said and "0 to 2" in said

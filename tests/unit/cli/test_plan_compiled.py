# SPDX-License-Identifier: Apache-2.0
"""`plan` shows the arena of compiled code beside the interpreter's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.architectures import mobilenet
from tests.helpers.command_line import Tool
from tests.helpers.control_models import branching
from tests.helpers.model_builder import chain
from tests.helpers.small_models import unary
from tflm_zephyr.cli.commands import plan


def test_the_compiled_arena_stands_beside(tool: Tool) -> None:
    Path("net.tflite").write_bytes(chain(3, 4096))
    said = tool("plan", "net.tflite", "--kernels", "reference", "--json").json
    assert said["compiled"]["arena_bytes"] == said["placings"][-1]["head_bytes"] < said["arena_bytes"]
    assert said["compiled"]["own_kernels"] == []
    assert [b["index"] for b in said["placings"][-1]["buffers"]] == [t["index"] for t in said["tensors"]]
    assert "  compiled          4096  the whole arena" in tool("plan", "net.tflite", "--kernels", "reference").out


def test_options_of_the_interpreter_change_nothing(tool: Tool) -> None:
    Path("net.tflite").write_bytes(chain(3, 4096))
    plain, other = (tool("plan", "net.tflite", *flags, "--json").json for flags in ((), ("--overlap", "off")))
    assert plain["compiled"] == other["compiled"]
    assert plain["arena_bytes"] < other["arena_bytes"]


def test_kernels_of_tflms_own_are_named(tool: Tool) -> None:
    Path("net.tflite").write_bytes(unary("ELU"))
    said = tool("plan", "net.tflite", "--kernels", "reference", "--json").json
    assert said["compiled"]["own_kernels"] == ["ELU"]
    assert "of them for TFLM's own ELU" in tool("plan", "net.tflite", "--kernels", "reference").out


def test_buffers_of_subgraphs_are_named_as_in_the_file(tool: Tool) -> None:
    Path("net.tflite").write_bytes(branching())
    said = tool("plan", "net.tflite", "--kernels", "reference", "--json").json
    known = {(tensor["subgraph"], tensor["index"]) for tensor in said["tensors"]}
    buffers = said["placings"][-1]["buffers"]
    assert {(b["subgraph"], b["index"]) for b in buffers if b["kind"] == "tensor"} == known
    assert {b["subgraph"] for b in buffers} == {0, 1, 2}


def test_a_model_that_cannot_be_compiled_says_why(tool: Tool) -> None:
    Path("net.tflite").write_bytes(mobilenet(24))
    boards = ("--board", "mps2/an385", "--board", "native_sim")
    said = tool("plan", "net.tflite", *boards).out
    assert "  Not with --backend compiled: compiled code is for one kernel library, and these boards take " in said
    assert tool("plan", "net.tflite", *boards, "--json").json["compiled"] is None


def test_very_large_models_are_not_compiled_beside(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "_MOST_BESIDE", 2)
    Path("net.tflite").write_bytes(chain(3, 4096))
    said = tool("plan", "net.tflite", "--kernels", "reference").out
    assert "  Not with --backend compiled: it has 3 operators, and plan compiles up to 2; generate compiles any" in said

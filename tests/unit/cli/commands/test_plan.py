# SPDX-License-Identifier: Apache-2.0
"""`plan` on the command line: cores, preallocated tensors, several models."""

from __future__ import annotations

import csv
import json
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.architectures import flat_convolutions, mobilenet
from tests.helpers.command_line import Tool
from tests.helpers.control_models import branching
from tests.helpers.model_builder import chain
from tests.helpers.small_models import unary
from tflm_zephyr.cli.commands import plan
from tflm_zephyr.memory_planner.linear_planner import linear
from tflm_zephyr.memory_planner.problem import Plan, Problem


def test_cores(tool: Tool, shared: Path) -> None:
    model = shared / "models" / "person_detect.tflite"
    heads = {
        core: tool("plan", model, "--kernels", "cmsis_nn", "--core", core, "--json").json["head_bytes"]
        for core in ("cortex-m3", "cortex-m4", "cortex-m55")
    }
    every = tool("plan", model, "--kernels", "cmsis_nn", "--json").json["head_bytes"]
    assert heads["cortex-m3"] == heads["cortex-m4"] == heads["cortex-m55"] == every
    assert "on cortex-m3" in tool("plan", model, "--kernels", "cmsis_nn", "--core", "cortex-m3").out
    assert "no core 'x'" in tool("plan", model, "--core", "x").one_line()


def test_in_place_holds_for_the_boards_of_the_plan(tool: Tool, shared: Path) -> None:
    model = shared / "models" / "pretrainedResnet_quant.tflite"
    every = tool("plan", model, "--kernels", "cmsis_nn", "--json").json
    assert every["in_place_count"] > 0 and every["head_bytes"] < every["packed_bytes"]
    assert tool("plan", model, "--kernels", "cmsis_nn", "--core", "cortex-m55", "--json").json["in_place_count"] == 0
    said = tool("plan", model, "--kernels", "cmsis_nn").out
    assert "In place: 7 outputs are written over inputs." in said
    assert "The plan is safe with cmsis_nn kernels for nrf9160dk/nrf9160/ns, mps2/an385 alone." in said
    Path("plan.json").write_text(json.dumps(every))
    assert tool("plan", model, "--kernels", "cmsis_nn", "--plan-file", "plan.json", "--json").json | {
        "command": []
    } == every | {"command": []}
    refused = tool("plan", model, "--kernels", "cmsis_nn", "--core", "cortex-m55", "--plan-file", "plan.json")
    assert "no overlap has been tried with CMSIS-NN on Helium" in refused.one_line()


def test_a_csv_within_a_capacity(tool: Tool, tmp_path: Path) -> None:
    """Three buffers of which two live at once; and what TFLM's rule does not fit, but a search does."""
    problem = tmp_path / "p.csv"
    problem.write_text("id,lower,upper,size\na,0,2,16\nb,1,3,32\nc,2,4,16\n")
    assert tool("plan", problem, "--capacity", 48, "-o", "out.csv", "--json").json["size_bytes"] == 48
    rows = list(csv.DictReader(Path("out.csv").read_text().splitlines()))
    assert max(int(row["offset"]) + int(row["size"]) for row in rows) == 48
    refused = tool("plan", problem, "--capacity", 47, "-o", "other.csv").one_line()
    assert f"{problem}: no packing fits in 47 bytes: 48 are needed at least. Give a larger --capacity" in refused
    assert not Path("other.csv").exists()
    assert "wants a size in bytes" in tool("plan", problem, "--capacity", "-1").err


def test_a_search_ends_where_the_capacity_is_reached(tool: Tool, tmp_path: Path) -> None:
    """With room enough TFLM's own rule does; without, the search goes on to what is proven."""
    problem = tmp_path / "p.csv"
    rng = random.Random(4)
    starts = [(rng.randrange(30), rng.randrange(1, 12), rng.randrange(1, 99)) for _ in range(60)]
    rows = (f"{i},{start},{start + life},{size}" for i, (start, life, size) in enumerate(starts))
    problem.write_text("\n".join(["id,lower,upper,size", *rows]))
    best = tool("plan", problem, "--json").json
    roomy = tool("plan", problem, "--capacity", "1M", "--json").json
    assert roomy["method"] == "greedy" and best["size_bytes"] < roomy["size_bytes"]
    assert tool("plan", problem, "--capacity", best["size_bytes"], "--json").json["size_bytes"] == best["size_bytes"]


def test_a_capacity_that_a_search_rules_out(tool: Tool, tmp_path: Path) -> None:
    """No more than 80 bytes are alive at once, and yet they do not suffice."""
    pieces = [(0, 1, 3), (1, 2, 2), (0, 3, 2), (2, 3, 1), (1, 7, 1), (3, 7, 3), (2, 8, 1), (7, 9, 4)]
    rows = (f"{i},{low},{high},{16 * size}" for i, (low, high, size) in enumerate(pieces))
    problem = tmp_path / "p.csv"
    problem.write_text("\n".join(["id,lower,upper,size", *rows]))
    assert "no packing fits in 80 bytes: 96 are needed at least" in tool("plan", problem, "--capacity", 80).one_line()
    assert tool("plan", problem, "--capacity", 96).code == 0


def test_a_capacity_that_is_neither_reached_nor_ruled_out(
    tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = tmp_path / "p.csv"
    problem.write_text("id,lower,upper,size\na,0,2,16\nb,1,3,32\n")

    def stuck(problem: Problem, *, capacity: int) -> Plan:
        return replace(linear(problem), offsets=(0, 40), proven_bytes=48)

    monkeypatch.setattr("tflm_zephyr.memory_planner.pack", stuck)
    said = tool("plan", problem, "--capacity", 50).one_line()
    assert "no packing was found that fits in 50 bytes, but none is ruled out" in said
    assert "The smallest one found has 72, 48 are needed" in said


def test_a_csv_beside_others(tool: Tool, model_file: Path, tmp_path: Path) -> None:
    problem = tmp_path / "p.csv"
    problem.write_text("id,lower,upper,size\na,0,2,16\n")
    for others in ((model_file,), (problem,)):
        assert f"{problem}: a CSV is packed alone" in tool("plan", problem, *others).one_line()


def test_capacity_is_for_csvs(tool: Tool, model_file: Path) -> None:
    assert "--capacity is for a CSV" in tool("plan", model_file, "--capacity", "4k").one_line()


def test_preallocated_tensors(tool: Tool, model_file: Path) -> None:
    both = tool("plan", model_file, "--preallocated", "input", "--preallocated", "3", "--no-in-place", "--json").json
    assert both["offsets"] is None and both["head_bytes"] == 128
    most = [word for tensor in range(3) for word in ("--preallocated", tensor)]
    shown = tool("plan", model_file, *most, "--no-in-place").out
    assert re.search(r"preallocated +\d+  saved of the arena by 3 tensors in the app's own memory", shown)
    said = tool("plan", model_file, "--preallocated", "camera").one_line()
    assert "no tensor named 'camera'. Its inputs and outputs are tensor 0 'input', tensor 3 'relu2'" in said


@pytest.mark.parametrize(
    ("model", "tensors", "saves"),
    [
        (chain(3, 4096), (0,), 0),  # two of the others live at once
        (chain(3, 4096), (0, 1, 2), 4096),
        (flat_convolutions(), (0,), -16),  # of the head 32, and the tail grows by TFLM's larger allocator and alignment
    ],
)
def test_what_preallocated_tensors_save_of_the_arena(
    tool: Tool, tmp_path: Path, model: bytes, tensors: tuple[int, ...], saves: int
) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(model)
    options = ("--kernels", "reference", "--tflm", "module", *(["--no-in-place"] if saves >= 0 else []))
    without = tool("plan", path, *options, "--json").json
    given = [word for tensor in tensors for word in ("--preallocated", tensor)]
    found = tool("plan", path, *options, *given, "--json").json
    assert without["preallocated_saves_bytes"] is None
    assert found["preallocated_saves_bytes"] == without["arena_bytes"] - found["arena_bytes"] == saves
    assert found["tail_bytes"] >= without["tail_bytes"]  # PreallocatedAllocator is larger than MicroAllocator
    shown = tool("plan", path, *options, *given).out
    assert f"preallocated {saves:>9}  saved of the arena by" in shown


def test_several_models(tool: Tool, model_file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.tflite"
    other.write_bytes(chain(2, 4096))
    found = tool("plan", model_file, other, "--json").json
    apart = [model["arena_bytes"] for model in found["models"]]
    assert max(apart) < found["shared_arena_bytes"] < sum(apart)
    assert f"One arena for 2 models: {found['shared_arena_bytes']}" in tool("plan", model_file, other).out
    assert "--output is for one model" in tool("plan", model_file, other, "-o", "x.tflite").one_line()
    assert "--arena goes with --plan-file" in tool("plan", model_file, "--arena", "4k").one_line()


@pytest.mark.parametrize(
    "option",
    [
        ("--plan-file", "none.json"),
        ("--arena", "4k"),
        ("--preserve-all",),
        ("--preserve-inputs",),
        ("--variables",),
        ("--map",),
        ("--no-in-place",),
        ("--order", "model"),
        ("--core", "cortex-m4"),
        ("--preallocated", "x"),
    ],
)
def test_options_that_a_csv_has_no_use_for(tool: Tool, tmp_path: Path, option: tuple[str, ...]) -> None:
    problem = tmp_path / "p.csv"
    problem.write_text("id,lower,upper,size\na,0,2,16\nb,1,3,16\n")
    assert tool("plan", problem).code == 0
    assert f"{option[0]} is for models" in tool("plan", problem, *option).one_line()


# -- compiled code stands beside --------------------------------------------------------------------------------------


def test_the_compiled_arena_stands_beside(tool: Tool) -> None:
    Path("net.tflite").write_bytes(chain(3, 4096))
    said = tool("plan", "net.tflite", "--kernels", "reference", "--json").json
    assert said["compiled"]["arena_bytes"] == said["placings"][-1]["head_bytes"] < said["arena_bytes"]
    assert said["compiled"]["own_kernels"] == []
    assert [b["index"] for b in said["placings"][-1]["buffers"]] == [t["index"] for t in said["tensors"]]
    assert "  compiled          4096  the whole arena" in tool("plan", "net.tflite", "--kernels", "reference").out


def test_options_of_the_interpreter_change_nothing(tool: Tool) -> None:
    Path("net.tflite").write_bytes(chain(3, 4096))
    plain, other = (tool("plan", "net.tflite", *flags, "--json").json for flags in ((), ("--no-in-place",)))
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


def test_hops(tool: Tool, tmp_path: Path) -> None:
    """Each way's RAM, the work of a hop on each board, and its share of the clock where that is known."""
    model = tmp_path / "flat.tflite"
    model.write_bytes(flat_convolutions())
    boards = ("--board", "mps2/an385", "--board", "nrf9160dk/nrf9160/ns", "--kernels", "cmsis_nn")
    found = tool("plan", model, "--hop", 2, "--period", "20ms", *boards, "--json").json
    assert (found["hop_rows"], found["window_rows"], found["row_bytes"]) == (2, 64, 8)
    assert [way["chosen"] for way in found["ways"]].count(True) == 1
    known, unknown = found["boards"]
    assert 0 < known["cycles"] < known["whole_cycles"]
    assert known["duty"] == pytest.approx(known["cycles"] / 0.02 / 25e6, abs=1e-5)
    assert known["needed_mhz"] == pytest.approx(known["cycles"] / 0.02 / 1e6, abs=1e-3)
    assert unknown["duty"] is None
    said = tool("plan", model, "--hop", 2, "--period", "20ms", *boards).out
    assert f"{100 * known['duty']:.1f} % of 25 MHz" in said
    assert " * " not in said and said.count(" *\n") == 1
    assert "'20' is not a time: write it as 20ms" in tool("plan", model, "--hop", 2, "--period", "20").err
    assert "Name the hop's rows with --hop" in tool("plan", model, "--period", "20ms").one_line()
    assert (
        "hop and host_link exclude each other"
        in tool("generate", model, "-o", tmp_path / "app", "--hop", 2, "--host-link").one_line()
    )

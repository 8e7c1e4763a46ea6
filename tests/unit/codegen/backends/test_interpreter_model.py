# SPDX-License-Identifier: Apache-2.0
"""A table of offsets in place of TFLM's planner: what is in it, what it saves, and where it cannot be."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.helpers.architectures import dense_chain
from tests.helpers.checkout import ROOT
from tests.helpers.command_line import Tool
from tflm_zephyr.boards import load_board
from tflm_zephyr.codegen.generation import AppRequest, generate
from tflm_zephyr.codegen.rendering import render
from tflm_zephyr.codegen.spec import AppSpec
from tflm_zephyr.errors import AppError, PlanError
from tflm_zephyr.model.reader import parse_model
from tflm_zephyr.options import AppConfig, CustomOperatorConfig, ModelConfig
from tflm_zephyr.tflm.revision import tflm_of

DIGITS = ROOT / "samples" / "digits" / "digits.tflite"
TFLM = tflm_of(None)
M3 = ("mps2/an385",)


def spec(model: Path, plan: str, *, boards: tuple[str, ...] = M3, kernels: str = "reference") -> AppSpec:
    config = AppConfig((ModelConfig(model, plan=plan, in_place=False),), boards=boards, kernels=kernels)
    return generate(AppRequest(config, Path("app"), TFLM, golden=False)).spec


@pytest.mark.parametrize("kernels", ["reference", "cmsis_nn"])
def test_every_buffer_has_a_place_that_nobody_else_has(kernels: str) -> None:
    model = spec(DIGITS, "static", kernels=kernels).models[0]
    plan = model.runtime.static_plan
    assert plan is not None and not model.runtime.planned
    assert plan.head_bytes == max(size + offset for size, offset in plan.slots)
    assert all(value % 16 == 0 for slot in plan.slots for value in slot)
    # The 10 tensors of the network's layers first, then the scratch of CMSIS-NN's convolutions.
    tensors, scratch = plan.slots[:10], plan.slots[10:]
    assert [size for size, _ in tensors] == [64, 1024, 1024, 1536, 384, 512, 128, 16, 16, 16]
    assert bool(scratch) == (kernels == "cmsis_nn")
    # Each is made of the one before, and lies apart from it or, where the kernel allows it, below.
    assert all(
        at + size <= there or there < at for (size, at), (_, there) in pairwise(tensors) if (size, at) != (_, there)
    )


def test_no_metadata_and_no_planner_in_the_app(tmp_path: Path) -> None:
    path = tmp_path / "dense.tflite"
    path.write_bytes(dense_chain([96, 64, 64, 128, 32]))
    stock, static = spec(path, "tflm"), spec(path, "static")
    assert parse_model(stock.models[0].runtime.data).offline_plan is not None
    assert parse_model(static.models[0].runtime.data).offline_plan is None
    files = render(static)
    source = files["src/models/dense.cpp"].decode()
    assert "Greedy" not in source and "GetDefaultTailUsage(true)" in source
    assert "src/static_planner.hpp" in files and "src/static_planner.hpp" not in render(stock)
    table = re.findall(r"^\t\{(\d+), (\d+)\},$", source, re.M)
    assert static.models[0].runtime.static_plan is not None
    assert [(int(size) * 16, int(at) * 16) for size, at in table] == [*static.models[0].runtime.static_plan.slots]
    # Neither the planner (44 bytes) nor its 40-byte record of every buffer is in the arena.
    assert static.models[0].arena.bytes <= stock.models[0].arena.bytes - 44


def test_large_heads_take_wider_slots() -> None:
    assert "uint16_t size;" in render(spec(DIGITS, "static"))["src/static_planner.hpp"].decode()


def test_a_table_is_for_one_kind_of_kernels() -> None:
    with pytest.raises(PlanError, match="one kernel library and one kind of core"):
        spec(DIGITS, "static", boards=(*M3, "qemu_riscv32"), kernels="auto")
    several = spec(DIGITS, "static", boards=(*M3, "nrf9160dk/nrf9160"))  # alike with reference kernels
    assert several.models[0].runtime.static_plan is not None


@pytest.mark.parametrize("plan", ["online", "static"])
def test_a_table_is_made_here(tmp_path: Path, plan: str) -> None:
    mine = tmp_path / "mine.json"
    mine.write_text('{"offsets": null}')
    config = AppConfig((ModelConfig(DIGITS, plan=plan, plan_file=mine),), boards=M3)
    with pytest.raises(AppError, match=f"digits: plan_file and plan: {plan} exclude each other. Drop one of them"):
        generate(AppRequest(config, tmp_path / "app", TFLM, golden=False))


def test_unknown_scratch_has_no_place(tmp_path: Path) -> None:
    source = tmp_path / "my.cc"
    source.write_text("")
    (tmp_path / "my.h").write_text("")
    custom = CustomOperatorConfig("SOFTMAX", "Register_MY", "my.h", (source,))
    config = AppConfig((ModelConfig(DIGITS, plan="static", custom_operators=(custom,)),), boards=M3)
    with pytest.raises(PlanError, match="those of SOFTMAX are not known"):
        generate(AppRequest(config, tmp_path / "app", TFLM, golden=False))


@pytest.mark.usefixtures("fixed_reference")
def test_generate_says_so(tool: Tool) -> None:
    said = tool("generate", DIGITS, "-o", "app", "-b", "mps2/an385", "--kernels", "reference", "--plan", "static",
                "--no-in-place")  # fmt: skip
    assert said.code == 0, said.err
    assert "head 2560, from a table in the app" in said.out
    assert "  plan: static" in Path("app/tflm/app.yaml").read_text()
    assert tool("generate", "-o", "app", "--check").code == 0


@pytest.mark.parametrize(
    ("board", "arch", "target"),
    [
        ("mps2/an385", "", "arm"),
        ("qemu_riscv32", "riscv", "ilp32"),
        ("qemu_riscv64", "riscv", "lp64"),
        ("native_sim", "posix", "ilp32"),
        ("native_sim/native/64", "posix", "lp64"),
    ],
)
@pytest.mark.parametrize("plan", ["packed", "static"])
def test_every_core_gets_its_own_arena(board: str, arch: str, target: str, plan: str) -> None:
    """The compiler chooses, so that an app runs on boards that nobody named; the board named is the one shown."""
    config = AppConfig((ModelConfig(DIGITS, plan=plan),), boards=(board,), kernels="reference")
    boards = (replace(load_board(board), arch=arch),)
    made = generate(AppRequest(config, Path("app"), TFLM, boards=boards, golden=False)).spec
    arena = made.models[0].arena
    assert arena.bytes == arena.by_target[target]
    assert arena.by_target["arm"] <= arena.by_target["ilp32"] < arena.by_target["lp64"]
    source = render(made)["src/models/digits.cpp"].decode()
    chosen = re.findall(r"^#(.*)\nconstexpr size_t kGeneratedArenaSize = (\d+);$", source, re.M)
    assert [(how.split("  ")[0], int(size)) for how, size in chosen] == [
        ("if __SIZEOF_POINTER__ > 4", arena.by_target["lp64"]),
        ("elif defined(__arm__)", arena.by_target["arm"]),
        ("else", arena.by_target["ilp32"]),
    ]


def test_one_size_is_enough_where_one_kind_of_core_runs_it() -> None:
    assert spec(DIGITS, "packed", kernels="cmsis_nn").models[0].arena.by_target == {}
    given = AppConfig((ModelConfig(DIGITS, arena=8192),), boards=M3, kernels="reference")
    made = generate(AppRequest(given, Path("app"), TFLM, golden=False)).spec
    assert made.models[0].arena.by_target == {} and "__arm__" not in render(made)["src/models/digits.cpp"].decode()

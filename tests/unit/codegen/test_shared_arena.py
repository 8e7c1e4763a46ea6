# SPDX-License-Identifier: Apache-2.0
"""One arena for several models: its size, the app that has it, and what cannot share one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.command_line import Tool
from tflm_zephyr.boards.board import load_board
from tflm_zephyr.codegen.generation import AppRequest, generate
from tflm_zephyr.codegen.rendering import render, render_starters
from tflm_zephyr.codegen.spec import AppSpec
from tflm_zephyr.errors import AppError
from tflm_zephyr.footprint.estimate import Runs, verdict
from tflm_zephyr.options import AppConfig, ModelConfig, PreallocatedConfig
from tflm_zephyr.tflm.revision import tflm_of

TFLM = tflm_of(None)
MODELS = tuple(ModelConfig(ROOT / "samples" / name / f"{name}.tflite") for name in ("digits", "hello_world"))


def spec(*models: ModelConfig, **changes: object) -> AppSpec:
    config = AppConfig(models or MODELS, boards=("mps2/an385",), kernels="reference", shared_arena=True)
    return generate(AppRequest(replace(config, **changes), Path("app"), TFLM, golden=False)).spec  # type: ignore[arg-type]


def test_the_largest_head_and_all_tails() -> None:
    apart, shared = spec(shared_arena=False), spec()
    assert apart.shared_arena is None and shared.shared_arena is not None
    largest, all_of_them = max(m.arena.bytes for m in apart.models), sum(m.arena.bytes for m in apart.models)
    assert largest < shared.shared_arena.bytes < all_of_them
    assert {model.arena for model in shared.models} == {shared.shared_arena}
    board = load_board("mps2/an385")
    saved = all_of_them - shared.shared_arena.bytes
    uses = [verdict(one, board, Runs((1, 1))).ram for one in (apart, shared)]
    assert uses[0] is not None and uses[1] is not None
    assert abs(uses[0].used_bytes - uses[1].used_bytes - saved) <= 64


def test_the_app_has_one_arena() -> None:
    files = render(spec())
    assert b"GuardedArena<kArenaSize>" in files["src/shared_arena.cpp"]
    for name in ("digits", "hello_world"):
        source = files[f"src/models/{name}.cpp"].decode()
        assert "g_arena" not in source and "TheArena().allocator" in source and "return Reset();" in source
    assert b"config TFLM_APP_ARENA_SIZE" in files["Kconfig"]
    assert b"DIGITS_ARENA_SIZE" not in files["Kconfig"] + render_starters(spec())["README.md"]
    assert "src/shared_arena.cpp" not in render(spec(shared_arena=False))


@pytest.mark.parametrize(
    ("models", "changes", "why"),
    [
        ((replace(MODELS[0], arena=6000), MODELS[1]), {}, "an arena size of its own, which digits has"),
        (
            (replace(MODELS[0], preallocated=(PreallocatedConfig(0, "frame"),)),),
            {},
            "preallocated tensors",
        ),
        ((replace(MODELS[0], plan="static"), MODELS[1]), {}, "a table of its own in place of the planner"),
    ],
)
def test_what_cannot_share_one(models: tuple[ModelConfig, ...], changes: dict[str, object], why: str) -> None:
    with pytest.raises(AppError, match=why):
        spec(*models, **changes)


@pytest.mark.usefixtures("fixed_reference")
def test_from_the_app_file(tool: Tool, tmp_path: Path) -> None:
    lines = ["shared_arena: true", "boards: [mps2/an385]", "models:", *(f"- {model.model}" for model in MODELS)]
    (tmp_path / "mine.yaml").write_text("\n".join(lines))
    done = tool("generate", "--app", "mine.yaml", "-o", "app", "--json")
    assert done.code == 0, done.err
    assert done.json["models"][0]["arena"] == done.json["models"][1]["arena"]
    assert Path("app/tflm/src/shared_arena.cpp").is_file()

# SPDX-License-Identifier: Apache-2.0
"""`plan` shows the numbers of `generate`, `fit` and `size`: one planner serves them all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.command_line import Tool
from tflm_zephyr.arena import arena_plan
from tflm_zephyr.cli.commands import fit as fit_command
from tflm_zephyr.codegen.generation import AppRequest, Generated, generate
from tflm_zephyr.options import AppConfig, ModelConfig
from tflm_zephyr.tflm import tflm_of

SAMPLES = tuple(ROOT / "samples" / name / f"{name}.tflite" for name in ("digits", "hello_world"))
BOARDS = ("mps2/an385", "nrf9160dk/nrf9160/ns")


def generated(model: Path, kernels: str, board: str, *, measured: bool = True) -> Generated:
    config = AppConfig((ModelConfig(model),), kernels=kernels, boards=(board,))
    return generate(AppRequest(config, Path("app"), tflm_of(None), golden=False, measured=measured))


def check_same(tool: Tool, model: Path, kernels: str, board: str) -> None:
    printed = tool("plan", model, "--kernels", kernels, "--board", board, "--json")
    if printed.code:  # a model that TFLM refuses
        pytest.skip(printed.err)
    shown = printed.json
    for measured in (True, False):  # `size` starts from the estimates
        made = generated(model, kernels, board, measured=measured)
        (item,) = made.prepared
        assert made.spec.models[0].arena.bytes == shown["arena_bytes"] == shown["arenas"][0]["arena_bytes"]
        assert (item.head.head_bytes, item.head.greedy_bytes) == (shown["head_bytes"], shown["greedy_bytes"])
        assert [arena.size.tail_bytes for arena in item.arenas] == [one["tail_bytes"] for one in shown["arenas"]]
        assert shown["offsets"] == (None if item.plan.offsets is None else list(item.plan.offsets))


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("kernels", ["auto", "reference", "cmsis_nn"])
@pytest.mark.parametrize("model", SAMPLES, ids=lambda path: path.stem)
def test_samples(tool: Tool, model: Path, kernels: str, board: str) -> None:
    check_same(tool, model, kernels, board)


@pytest.mark.parametrize("kernels", ["auto", "reference"])
def test_shared_models(tool: Tool, shared_model: Path, kernels: str) -> None:
    check_same(tool, shared_model, kernels, "mps2/an385")


@pytest.mark.parametrize("model", SAMPLES, ids=lambda path: path.stem)
def test_fit_is_of_the_same_arena(tool: Tool, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    verdict = fit_command.verdict
    monkeypatch.setattr(
        fit_command, "verdict", lambda spec, board, runs: seen.append(spec) or verdict(spec, board, runs)
    )
    tool("fit", model, "--board", "mps2/an385", "--json")
    shown = tool("plan", model, "--board", "mps2/an385", "--json").json
    assert seen[0].models[0].arena.bytes == shown["arena_bytes"]


def test_one_library_is_planned_once(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    estimate = arena_plan.estimate_tail
    monkeypatch.setattr(
        arena_plan, "estimate_tail", lambda *args, **options: calls.append(1) or estimate(*args, **options)
    )
    tool("plan", SAMPLES[0], "--kernels", "reference", "--board", "mps2/an385")
    assert len(calls) == 1

# SPDX-License-Identifier: Apache-2.0
"""Work that ways of an app share is done once for what it depends on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import replace

import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.command_line import Tool
from tflm_zephyr.arena import candidate_offsets
from tflm_zephyr.boards import load_board
from tflm_zephyr.cli.commands import generate
from tflm_zephyr.codegen import generation, model_spec, prepared_model
from tflm_zephyr.codegen.shared_work import SharedWork
from tflm_zephyr.compiler import memory_plan, search
from tflm_zephyr.compiler.compilation import LayerSource, UnplacedModel
from tflm_zephyr.row_planner import dry_runs


def test_each_result_is_made_once() -> None:
    shared, made = SharedWork(), iter(range(9))
    assert [shared.once("arena", key, lambda: next(made)) for key in ("a", "b", "a")] == [0, 1, 0]
    assert shared.once("model", "a", lambda: next(made)) == 2
    assert shared.counts == {"arena": 2, "model": 1}


def test_a_failure_is_no_result() -> None:
    shared = SharedWork()
    with pytest.raises(ZeroDivisionError):
        shared.once("arena", "a", lambda: 1 // 0)
    assert shared.once("arena", "a", lambda: 1) == 1


WAYS = {
    "interpreter": (),
    "auto": ("--backend", "auto"),
    "too small for the interpreter": ("--backend", "auto"),
    "compiled": ("--backend", "compiled"),
    "rows": ("--rows",),
    "fast kernels": ("--fast-kernels",),
    "fast kernels by rows": ("--fast-kernels", "--rows"),
    "speed": ("--optimize", "speed"),
    "ram": ("--optimize", "ram"),
    "flash": ("--optimize", "flash"),
    "budgets": ("--fast-kernels", "--ram", "8K", "--flash", "60K"),
}


@pytest.mark.usefixtures("fixed_reference")
@pytest.mark.parametrize("way", WAYS)
def test_an_app_is_loaded_planned_and_packed_once(way: str, tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the way: the app, the sizes that its budgets are held against, and the verdicts for its boards."""
    calls = Counter[Hashable]()

    def count(owner: object, name: str, key: Callable[..., Hashable]) -> None:
        original = getattr(owner, name)

        def counted(*args: object, **values: object) -> object:
            calls[name, key(*args, **values)] += 1
            return original(*args, **values)

        monkeypatch.setattr(owner, name, counted)

    if way == "too small for the interpreter":
        small = replace(load_board("mps2/an385"), ram_kib=8)
        monkeypatch.setattr(generate, "boards_of", lambda config, workspace, say: (small,))
    memory_plan._packed.cache_clear()
    count(generation, "load_model", lambda path: path)
    count(model_spec, "golden_runs", lambda *given, **options: "")
    count(prepared_model, "plan", lambda model, request: tuple(one.name for one in request.libraries))
    count(memory_plan, "pack", lambda problem, **limits: (problem, *limits.items()))
    count(candidate_offsets, "pack", lambda problem, **limits: (problem, limits["work"]))
    count(dry_runs, "scheduled", lambda chain, first, last, pace: (chain, first, last, pace))
    count(search, "plan_scopes", lambda *parts: "")
    count(
        LayerSource,
        "parts",
        lambda source, fast: fast if isinstance(fast, bool) else (frozenset(fast.own), str(fast.why)),
    )
    count(LayerSource, "choice", lambda source, more_flash: more_flash)
    count(UnplacedModel, "compiled", lambda parts, memory, steps, choice=None: (id(parts), id(memory)))
    model = ROOT / "samples" / "digits" / "digits.tflite"
    assert tool("generate", model, "-o", "app", "-b", "mps2/an386", "-b", "mps2/an385", *WAYS[way]).code == 0
    names = {name for name, _ in calls}
    assert {"load_model", "golden_runs", "plan", "parts", "pack"} <= names
    assert {key: times for key, times in calls.items() if times > 1} == {}

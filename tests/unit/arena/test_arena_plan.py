# SPDX-License-Identifier: Apache-2.0
"""One plan for several kernel libraries: valid with each, worse than none with none, the largest arena counts."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.graph_models import fits_not_greedy, graph_model, library
from tests.helpers.heads import arena_size, arenas, plan_head
from tests.helpers.model_builder import ModelBuilder, chain
from tflm_zephyr.arena import arena_plan
from tflm_zephyr.arena.arena_plan import LibraryArena, PlanRequest, on_target, plan
from tflm_zephyr.arena.given_offsets import given_plan
from tflm_zephyr.errors import PlanError
from tflm_zephyr.kernels.libraries import kernel_library
from tflm_zephyr.kernels.library import KernelLibrary
from tflm_zephyr.memory_planner.checker import check_plan
from tflm_zephyr.model.reader import load_model, parse_model
from tflm_zephyr.model.types import Model
from tflm_zephyr.model.writer import with_offline_plan
from tflm_zephyr.tflm import ARM, ILP32, LP64, cortex_m_sizes


def checked(model: Model, libraries: list[KernelLibrary]) -> tuple[LibraryArena, ...]:
    found = arenas(model, libraries)
    assert {id(arena.library) for arena in found} == {id(one) for one in libraries}
    (offsets,) = {arena.head.offsets for arena in found}
    for arena in found:
        online = plan_head(model, arena.library, offline="never")
        assert arena.head.lower_bound_bytes <= arena.head.head_bytes <= online.head_bytes
        check_plan(arena.head.plan, arena_bytes=arena.head.head_bytes)
        assert arena.size == arena_size(arena.head, arena.library)
        if offsets is not None:
            played = given_plan(parse_model(with_offline_plan(model, offsets)), arena.library)
            assert played is not None and played.size_bytes == arena.head.head_bytes
    assert [arena.size.bytes for arena in found] == sorted((arena.size.bytes for arena in found), reverse=True)
    return found


def test_one_library_gets_its_own_plan() -> None:
    model = fits_not_greedy()
    (arena,) = checked(model, [library()])
    assert arena.head == plan_head(model, arena.library) and arena.head.offsets is not None


@pytest.mark.parametrize("seed", range(40))
def test_no_library_is_worse_off_than_without_a_plan(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randrange(3, 10)
    sizes = [rng.randrange(1, 400) for _ in range(count + 1)]
    links = [(sorted({i, rng.randrange(max(0, i - 4), i + 1)}), i + 1) for i in range(count)]
    asked = [{i: tuple(rng.randrange(0, 300) for _ in range(rng.randrange(3))) for i in range(count)} for _ in range(3)]
    libraries = [library(lambda node, k=k: asked[k][node.operator.index]) for k in range(3)]  # type: ignore[misc]
    checked(graph_model(sizes, links), [*libraries, library()])


def test_a_plan_for_one_library_is_not_forced_on_another() -> None:
    """Somewhere among these the two libraries' own plans differ, and the one that is kept serves both."""
    seen = False
    for seed in range(300):
        rng = random.Random(seed)
        sizes = [16 * rng.randrange(1, 9) for _ in range(7)]
        links = [([i], i + 1) for i in range(4)] + [([1, 4], 5), ([2, 5], 6)]
        scratch = {i: (16 * rng.randrange(1, 9),) for i in range(7)}
        model = graph_model(sizes, links)
        pair = [library(), library(lambda node, s=scratch: s[node.operator.index])]  # type: ignore[misc]
        own = [plan_head(model, one) for one in pair]
        found = {id(arena.library): arena for arena in arenas(model, pair)}
        worse = [found[id(one)].head.head_bytes > head.head_bytes for one, head in zip(pair, own, strict=True)]
        for one in pair:
            online = plan_head(model, one, offline="never")
            assert found[id(one)].head.head_bytes <= online.head_bytes
        seen = any(worse)
        if seen:
            break
    assert seen


def test_leaving_out_what_cannot_help_changes_no_arena(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large models are planned without orders and pairs where the arena is what TFLM needs while it plans."""
    planned, orders = [], []
    better_order = arena_plan.better_order
    monkeypatch.setattr(arena_plan, "better_order", lambda *args, **how: orders.append(1) or better_order(*args, **how))
    counts = []
    for operators in (1, 1_000):
        monkeypatch.setattr(arena_plan, "_MANY_OPERATORS", operators)
        for seed in range(30):
            rng = random.Random(seed)
            sizes = [rng.randrange(1, (40, 4_000)[seed % 2]) for _ in range(9)]
            links = [(sorted({i, rng.randrange(max(0, i - 4), i + 1)}), i + 1) for i in range(8)]
            request = PlanRequest((kernel_library("reference"),), cortex_m_sizes())
            found = plan(graph_model(sizes, links), request)
            planned.append((found.size, found.order, found.head.in_place_count))
        counts.append(len(orders))
    assert planned[:30] == planned[30:]
    assert counts == [15, 45]


def test_left_to_tflm_when_asked() -> None:
    found = arenas(fits_not_greedy(), [library(), library(lambda node: (64,))], offline="never")
    assert {arena.head.offsets for arena in found} == {None}


def test_equal_requests_are_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from tflm_zephyr.arena import head

    calls = []
    monkeypatch.setattr(
        arena_plan, "plan_head", lambda *args, **options: calls.append(1) or head.plan_head(*args, **options)
    )
    arenas(fits_not_greedy(), [library(), replace(library(), name="other"), library(lambda node: (64,))])
    assert len(calls) == 2


def test_stock_models_under_both_libraries(shared_model: Path) -> None:
    if shared_model.stat().st_size > 400_000:
        pytest.skip("large")
    model = load_model(shared_model)
    try:
        checked(model, [kernel_library("reference"), kernel_library("cmsis_nn"), kernel_library("cmsis_nn", dsp=True)])
    except Exception as error:  # models that TFLM refuses are tested elsewhere
        if type(error).__name__ != "ModelError":
            raise
        pytest.skip(str(error))


def test_an_overlap_has_to_be_safe_with_every_library(shared: Path) -> None:
    """person_detect's 1x1 convolutions: CMSIS-NN allows no overlap there, the reference does."""
    model = load_model(shared / "models" / "person_detect.tflite")
    plain = arenas(model, [kernel_library("reference")])[0].size.bytes
    alone = arenas(model, [kernel_library("reference")], in_place=True)
    assert alone[0].head.in_place_count and alone[0].size.bytes < plain
    both = arenas(model, [kernel_library("reference"), kernel_library("cmsis_nn", dsp=True)], in_place=True)
    assert [arena.head.in_place_count for arena in both] == [0, 0]
    assert max(arena.head.head_bytes for arena in both) == 55_296
    offsets = alone[0].head.offsets
    assert offsets is not None
    given = parse_model(with_offline_plan(model, offsets))
    assert given_plan(given, kernel_library("reference")) is not None
    with pytest.raises(PlanError, match=r"overlap: operator .*, with the cmsis_nn kernels"):
        given_plan(given, kernel_library("cmsis_nn", dsp=True))


def test_no_overlap_on_helium() -> None:
    """Its functions' loops were read, but no plan was run with them."""
    model, helium = parse_model(chain(3, 4096)), kernel_library("cmsis_nn", dsp=True, mve=True)
    assert arenas(model, [kernel_library("cmsis_nn", dsp=True)], in_place=True)[0].head.in_place_count
    for libraries in ([helium], [kernel_library("cmsis_nn"), helium]):
        assert [arena.head.in_place_count for arena in arenas(model, libraries, in_place=True)] == [0] * len(libraries)
    given = parse_model(with_offline_plan(model, [0, 0, 0, 0]))
    with pytest.raises(PlanError, match="overlap: no overlap has been tried with CMSIS-NN on Helium"):
        given_plan(given, helium)


def test_an_overlap_that_no_library_knows_is_none() -> None:
    model = parse_model(chain(3, 400))
    known = kernel_library("reference")
    assert arenas(model, [known], in_place=True)[0].head.in_place_count
    assert not arenas(model, [known, known.without(["RELU"])], in_place=True)[0].head.in_place_count
    assert not arenas(model, [known])[0].head.in_place_count


def test_no_overlap_where_the_arena_stays_as_large() -> None:
    """A small model's arena is what TFLM needs while it plans: offsets would only take flash."""
    model = parse_model(chain(1, 16))
    head = plan_head(model, kernel_library("reference"), in_place=[kernel_library("reference")])
    assert head.in_place_count
    # Whether the planner has offered an overlap is of no account.
    free = replace(head.plan, problem=replace(head.problem, pairs=()))
    assert replace(head, plan=free).in_place_count == head.in_place_count
    assert arenas(model, [kernel_library("reference")], in_place=True)[0].head.offsets is None


@pytest.mark.parametrize("target", [ILP32, LP64])
def test_the_plan_on_other_cores(target: str) -> None:
    """The same order and offsets; records as large as there, and scratch buffers of pointers."""
    builder = ModelBuilder()
    main = builder.subgraph()
    ends = [main.tensor((1, 40), "float32", name) for name in "abcdef"]
    main.op("ADD_N", ends[:-1], ends[-1:])
    main.inputs, main.outputs = ends[:-1], ends[-1:]
    model = parse_model(builder.finish())
    both = (kernel_library("cmsis_nn"), kernel_library("reference"))
    arm = plan(model, PlanRequest(both, cortex_m_sizes()))
    there = on_target(arm, target)
    assert there is not None and (there.running, there.order, there.offsets) == (arm.running, arm.order, arm.offsets)
    assert [arena.library.name for arena in there.arenas] == ["reference"]
    assert there.head.head_bytes - arm.head.head_bytes == (16 if target == LP64 else 0)  # 5 pointers: 32 or 48 bytes
    sizes = there.request.sizes
    alone = PlanRequest((kernel_library("reference", pointer_bytes=sizes.pointer_bytes),), sizes)
    assert there.size == plan(model, alone).size
    assert on_target(arm, ARM) is arm
    assert on_target(plan(model, PlanRequest(both[:1], cortex_m_sizes())), target) is None

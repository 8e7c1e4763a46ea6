# SPDX-License-Identifier: Apache-2.0
"""Ways to run an app: the best by an objective within budgets, and what is short where none is within them."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.control_models import branching
from tests.helpers.row_networks import row_network
from tests.helpers.small_models import unary
from tflm_zephyr.boards import load_board
from tflm_zephyr.codegen import AppRequest, EstimatedWork, Generated, estimated_work
from tflm_zephyr.errors import AppError, ModelError, PlanError
from tflm_zephyr.footprint import Bytes, generate_within, ways_into
from tflm_zephyr.footprint.estimate import added_flash
from tflm_zephyr.options import AppConfig, ModelConfig
from tflm_zephyr.tflm import tflm_of

DIGITS = ROOT / "samples" / "digits" / "digits.tflite"
VIBRATION = next((ROOT / "samples" / "vibration_monitor").rglob("*.tflite"))
BOARD = "mps2/an385"
PLENTY = 4 << 20


def made(tmp_path: Path, model: Path = DIGITS, **values: object) -> Generated:
    config = AppConfig((ModelConfig(model),), **{"boards": (BOARD,), **values})  # type: ignore[arg-type]
    return generate_within(AppRequest(config, tmp_path / "app", tflm_of(None), golden=False))


def flash(app: Generated) -> int:
    """Bytes that the models add."""
    found = added_flash(app.spec, load_board(BOARD))
    assert found is not None
    return found.used_bytes


def work(app: Generated) -> EstimatedWork:
    return estimated_work(app.spec)


def test_without_a_budget_it_is_what_generate_makes(tmp_path: Path) -> None:
    assert made(tmp_path).spec.backend == "interpreter"


def brute_force(tmp_path: Path, model: Path) -> list[Generated]:
    """The apps of all options that name a way; reference kernels, many times slower, are never taken by themselves."""
    apps = []
    for backend, fast, rows in itertools.product(("interpreter", "compiled"), (False, True), (False, True)):
        if backend == "compiled" or not (fast or rows):
            for slower in (100_000, None) if rows else (None,):
                options = {"fast_kernels": fast, "rows": rows, "slower": slower}
                apps.append(made(tmp_path, model, backend=backend, **options))
    return apps


@pytest.mark.parametrize("model", [DIGITS, VIBRATION], ids=lambda path: path.stem)
def test_the_best_of_all_ways_is_taken(model: Path, tmp_path: Path) -> None:
    every = brute_force(tmp_path, model)
    smallest, least = made(tmp_path, model=model, optimize="ram"), made(tmp_path, model=model, optimize="flash")
    assert smallest.spec.models[0].arena.bytes <= 1.02 * min(app.spec.models[0].arena.bytes for app in every)
    assert flash(least) <= 1.02 * min(map(flash, every))  # fast kernels where they take no more flash are no option


def test_the_fastest_way_has_fast_kernels(tmp_path: Path) -> None:
    app = made(tmp_path, optimize="speed")
    assert app.config.fast_kernels
    (note,) = (note for note in app.notes if note.startswith("optimize speed: "))
    assert note.startswith("optimize speed: fast kernels") and note.count("the fewest estimated cycles of 5 ways") == 1
    assert [note for note in app.notes if note.startswith("or interpreter (--backend interpreter): ")]


@pytest.mark.parametrize("objective", ["speed", "ram", "flash"])
def test_of_equal_ways_the_simplest_is_taken(objective: str, tmp_path: Path) -> None:
    """Fast kernels and rows change nothing of a float operator that works by elements."""
    (tmp_path / "relu.tflite").write_bytes(unary("RELU", "float32"))
    app = made(tmp_path, tmp_path / "relu.tflite", optimize=objective)
    assert app.config.backend == "compiled" and not app.config.fast_kernels and not app.config.rows


def test_of_ways_alike_in_speed_the_smallest_is_taken(tmp_path: Path) -> None:
    """Float convolutions, of which row planning and the ways compare the same cycles."""
    (tmp_path / "net.tflite").write_bytes(row_network(6, 6, "float32"))
    speed, least = (made(tmp_path, tmp_path / "net.tflite", optimize=objective) for objective in ("speed", "ram"))
    assert least.config.rows
    every = [cycles for app in (*brute_force(tmp_path, tmp_path / "net.tflite"), speed) if (cycles := work(app).cycles)]
    assert every[-1] <= 1.02 * min(every)


def test_work_is_not_known_where_subgraphs_run(tmp_path: Path) -> None:
    (tmp_path / "net.tflite").write_bytes(branching())
    for backend in ("compiled", "interpreter"):
        assert work(made(tmp_path, tmp_path / "net.tflite", backend=backend)).cycles is None
    speed = made(tmp_path, tmp_path / "net.tflite", optimize="speed")
    assert any("the least work, as no cycles are known, of 5 ways" in note for note in speed.notes)


def test_the_interpreter_takes_little_more_than_its_kernels(tmp_path: Path) -> None:
    alone, around = (work(made(tmp_path, backend=backend)).cycles for backend in ("compiled", "interpreter"))
    assert alone is not None and around is not None
    assert alone != around == pytest.approx(alone, rel=0.05)


def test_what_every_way_refuses_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "hybrid.tflite").write_bytes(unary("RELU", "float32", out="int8"))
    refusals = []
    for options in ({}, {"optimize": "speed"}, {"optimize": "flash", "ram": 1000}):
        with pytest.raises(ModelError) as caught:
            made(tmp_path, tmp_path / "hybrid.tflite", **options)
        refusals.append(str(caught.value))
    assert refusals[0].count("RELU") == 1 and len(set(refusals)) == 1


def test_budgets_hold_for_the_best_way(tmp_path: Path) -> None:
    app = made(tmp_path, optimize="speed", ram=1700)
    assert app.spec.models[0].arena.bytes <= 1700
    small = made(tmp_path, optimize="speed", flash=flash(app) - 1000, ram=1700)
    assert flash(small) <= flash(app) - 1000 and small.spec.models[0].arena.bytes <= 1700


def test_an_interpreter_that_does_not_fit_gives_way(tmp_path: Path) -> None:
    """The first way that fits is taken, and the app says why."""
    board = replace(load_board(BOARD), ram_kib=8)
    config = AppConfig((ModelConfig(DIGITS),), boards=(BOARD,))
    request = AppRequest(config, tmp_path / "app", tflm_of(None), golden=False, boards=(board,))
    app = generate_within(request)
    assert app.spec.backend == "compiled"
    assert any("as the interpreter's app takes" in note and "bytes of RAM more than" in note for note in app.notes)
    kept = generate_within(replace(request, boards=(replace(board, ram_kib=2),)))
    assert kept.spec.backend == "interpreter"  # nothing fits: the verdict says so


def test_the_named_kernels_are_kept(tmp_path: Path) -> None:
    least = made(tmp_path, backend="compiled", kernels="cmsis_nn", optimize="flash")
    with pytest.raises(AppError, match=r"[\d,]+ bytes of flash \(estimated\), 1 more than the budget") as caught:
        made(tmp_path, backend="compiled", kernels="cmsis_nn", flash=flash(least) - 1)
    assert "interpreter" not in str(caught.value) and "reference" not in str(caught.value)


def test_reference_kernels_are_the_last_resort(tmp_path: Path) -> None:
    least = made(tmp_path, optimize="flash")
    assert least.spec.kernels == ("cmsis_nn",)
    app = made(tmp_path, flash=flash(least) - 1)
    assert app.spec.kernels == ("reference",) and flash(app) < flash(least)


def test_every_way_says_what_is_short(tmp_path: Path) -> None:
    with pytest.raises(AppError) as caught:
        made(tmp_path, backend="auto", flash=1000, ram=1700)
    text = str(caught.value)
    for name in ("fast kernels", "compiled", "interpreter"):
        assert f"{name}: " in text
        assert name == "fast kernels" or f"{name}, reference kernels: " in text
    assert re.search(r"interpreter: digits takes [\d,]+ bytes of RAM, [\d,]+ more", text)
    assert "\n" not in text


def test_a_shortage_is_the_estimate_less_the_budget(tmp_path: Path) -> None:
    need = flash(made(tmp_path, backend="interpreter", kernels="cmsis_nn"))
    with pytest.raises(AppError, match=rf"{need:,} bytes of flash \(estimated\), 24 more than the budget"):
        made(tmp_path, backend="interpreter", kernels="cmsis_nn", flash=need - 24)


def test_work_that_ram_takes_may_be_too_much(tmp_path: Path) -> None:
    free = made(tmp_path, backend="compiled", kernels="cmsis_nn", ram=1700)
    assert free.spec.models[0].arena.bytes <= 1700
    with pytest.raises(PlanError, match=r"with at most 0.1 % more work, .* 1,700 bytes are enough for an estimated"):
        made(tmp_path, backend="compiled", kernels="cmsis_nn", ram=1700, slower=0.1)


def test_a_board_whose_flash_is_not_known_says_so(tmp_path: Path) -> None:
    config = AppConfig((ModelConfig(DIGITS),), boards=("qemu_cortex_m3",), flash=PLENTY)
    with pytest.raises(AppError, match="its flash cannot be estimated, as "):
        generate_within(AppRequest(config, tmp_path / "app", tflm_of(None), golden=False))


def test_of_ways_alike_another_measure_decides(tmp_path: Path) -> None:
    """By whole layers the fastest way of digits takes 64 bytes more than by rows, which is 1 % slower."""
    app = made(tmp_path, optimize="speed", kernels="cmsis_nn", boards=("mps2/an386",))
    assert app.config.fast_kernels and app.config.rows
    assert any("within 2 % of the fewest estimated cycles of 5 ways, and smaller" in note for note in app.notes)


@pytest.mark.parametrize("lacks", [0, 1, 500])
def test_into_what_an_application_leaves(lacks: int, tmp_path: Path) -> None:
    """Ways that take more than is left come last, with what is short; less flash takes fewer fast kernels."""
    config = AppConfig((ModelConfig(DIGITS),), boards=(BOARD,))
    request = AppRequest(config, tmp_path / "app", tflm_of(None), golden=False)
    every = {way.name: way for way in ways_into(request, Bytes(PLENTY, PLENTY))}
    assert not any(way.faults for way in every.values())
    room = Bytes((every["interpreter"].flash_bytes or 0) - lacks, PLENTY)
    ways = ways_into(request, room)
    (interpreter,) = (way for way in ways if way.name == "interpreter")
    assert bool(lacks) == any(f"{lacks:,} more than are left" in fault for fault in interpreter.faults)
    assert (interpreter is ways[-1]) or not lacks
    assert all((way.flash_bytes or 0) <= room.flash for way in ways if not way.faults)


def test_ram_that_is_left_is_found_by_rows(tmp_path: Path) -> None:
    """No way of its own is within 1,900 bytes; by rows at any cost in time there is one, and its option says so."""
    config = AppConfig((ModelConfig(DIGITS),), boards=(BOARD,))
    request = AppRequest(config, tmp_path / "app", tflm_of(None), golden=False)
    best, *_ = ways_into(request, Bytes(PLENTY, 1_900))
    assert not best.faults and best.ram_bytes + 448 <= 1_900 and " --ram 1452" in best.option
    assert all(way.faults for way in ways_into(request, Bytes(PLENTY, 600)))

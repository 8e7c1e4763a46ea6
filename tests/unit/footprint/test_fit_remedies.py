# SPDX-License-Identifier: Apache-2.0
"""Remedies for an app that does not fit: each change with its bytes, and the fewest that are enough together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.heads import plan_head
from tests.helpers.model_builder import ModelBuilder
from tflm_zephyr.boards.board import Board, known_boards, load_board
from tflm_zephyr.footprint.estimate import RegionEstimate, Verdict
from tflm_zephyr.footprint.fit_remedies import Remedy, own_buffer, remedies
from tflm_zephyr.kernels.libraries import kernel_library
from tflm_zephyr.model.reader import parse_model
from tflm_zephyr.options import AppConfig, ModelConfig

NS = Board("kit/chip/ns", description="made up", core="cortex-m33", flash_kib=10, ram_kib=10)
WHOLE = Board("kit/chip", description="made up", core="cortex-m33", flash_kib=40, ram_kib=4)
OTHER = Board("kit/else", description="made up", core="cortex-m33", flash_kib=400, ram_kib=400)
CONFIG = AppConfig((ModelConfig(Path("net.tflite"), runs=4),), boards=("kit/chip/ns",), debug=True)


def evaluate(config: AppConfig, board: Board, *, flash: int = 12_000, ram: int = 3_000) -> Verdict:
    """A debug build takes 1,500 bytes of flash, each golden run 100, TFLM's own planning 900 of RAM."""
    flash -= 0 if config.debug else 1500
    flash += sum(100 * model.runs for model in config.models)
    ram += sum(900 for model in config.models if model.plan == "online")
    assert board.flash_kib is not None and board.ram_kib is not None and board.name in config.boards
    return Verdict(
        board.name,
        "cmsis_nn",
        RegionEstimate(flash, 50, 50, board.flash_kib * 1024),
        RegionEstimate(ram, 50, 50, board.ram_kib * 1024),
    )


def found_for(config: AppConfig, board: Board = NS, **sizes: int) -> dict[str, Remedy]:
    def sized(then: AppConfig, there: Board) -> Verdict:
        return evaluate(then, there, **sizes)

    first = sized(config, board)
    found = remedies(first, config, board, [NS, WHOLE, OTHER], sized)
    assert len({remedy.option for remedy in found}) == len(found)
    return {remedy.option: remedy for remedy in found}


def test_an_app_that_fits_needs_none() -> None:
    assert found_for(CONFIG, flash=5_000) == {}
    nothing = Verdict(NS.name, reason="not known")
    assert remedies(nothing, CONFIG, NS, [WHOLE], evaluate) == ()


def test_each_change_alone_with_its_bytes() -> None:
    found = found_for(CONFIG)
    assert list(found) == ["--board kit/chip", "without --debug", "--runs 1"]  # what suffices first
    board = found["--board kit/chip"]
    assert board.suffices and board.flash_gain_bytes == 30 * 1024 and board.ram_gain_bytes == -6 * 1024
    assert "40 KiB flash, 4 KiB RAM" in board.what
    debug, runs = found["without --debug"], found["--runs 1"]
    assert (debug.flash_gain_bytes, debug.ram_gain_bytes, debug.suffices) == (1500, 0, False)
    assert (runs.flash_gain_bytes, runs.suffices) == (300, False)
    assert runs.after.flash == RegionEstimate(12_100, 50, 50, 10_240)


def test_remedies_that_gain_nothing_are_left_out() -> None:
    found = found_for(replace(CONFIG, models=(replace(CONFIG.models[0], plan="online"),)))
    assert "--plan packed" not in found  # it saves RAM, and flash lacks
    found = found_for(replace(CONFIG, models=(replace(CONFIG.models[0], plan="online"),)), flash=3_000, ram=10_000)
    assert list(found) == ["--plan packed"] and found["--plan packed"].suffices
    assert found["--plan packed"].ram_gain_bytes == 900


def test_the_fewest_changes_that_are_enough_together() -> None:
    found = found_for(CONFIG, flash=11_300, ram=5_000)  # the larger variant lacks RAM for it
    assert [remedy.suffices for remedy in found.values()] == [False, False, False, True]
    together = list(found.values())[-1]
    assert together.option == "without --debug --runs 1"
    assert together.what.count(" and ") == 1 and together.flash_gain_bytes == 1800


def test_where_nothing_is_enough() -> None:
    found = found_for(CONFIG, flash=60_000)
    assert found and not any(remedy.suffices for remedy in found.values())
    assert all(len(remedy.changes) == 1 for remedy in found.values())


def test_given_arena_debug_build_and_library_can_be_undone() -> None:
    config = replace(CONFIG, debug=True, tflm="module", models=(replace(CONFIG.models[0], arena=9_999),))

    def costly(then: AppConfig, board: Board) -> Verdict:
        flash = 12_000 + (4_000 if then.debug else 0) + (8_000 if then.tflm == "module" else 0)
        ram = 9_500 + (then.models[0].arena or 500)
        return evaluate(then, board, flash=flash, ram=ram)

    found = remedies(costly(config, NS), config, NS, [NS], costly)
    gains = {remedy.option: (remedy.flash_gain_bytes, remedy.ram_gain_bytes) for remedy in found}
    assert gains["without --debug"] == (5_500, 0)
    assert gains["--tflm selected"] == (8_000, 0)
    assert gains["without --arena"] == (0, 9_499)


@pytest.mark.parametrize("name", known_boards())
def test_variants_of_the_described_boards(name: str) -> None:
    """A target with TF-M and one without are each other's remedy; an image of MPS2 or MPS3 is no variant of another."""
    board = load_board(name)
    config = replace(CONFIG, boards=(name,))
    others = [load_board(other) for other in known_boards()]
    tiny = Verdict(name, "reference", RegionEstimate(9_999_999, 0, 0, 1), RegionEstimate(9_999_999, 0, 0, 1))

    def any_board(then: AppConfig, there: Board) -> Verdict:
        return Verdict(there.name, "reference", RegionEstimate(9_999_999, 0, 0, 2), RegionEstimate(9_999_999, 0, 0, 2))

    options = {remedy.option for remedy in remedies(tiny, config, board, others, any_board)}
    boards = {option for option in options if option.startswith("--board")}
    twin = name.removesuffix("/ns") if name.endswith("/ns") else f"{name}/ns"
    twin = twin if twin in known_boards() else ""
    assert boards == ({f"--board {twin}"} if twin else set())


def test_a_buffer_that_the_app_owns() -> None:
    model = ModelBuilder()
    main = model.subgraph()
    x = main.tensor((1, 400), "int8", "x", scale=0.5)
    w = main.tensor((16, 400), "int8", "w", scale=0.25, data="random")
    y = main.tensor((1, 16), "int8", "y", scale=0.5)
    main.op("FULLY_CONNECTED", [x, w, -1], [y], options={"fused_activation_function": 0})
    main.inputs, main.outputs = [x], [y]
    head = plan_head(parse_model(model.finish()), kernel_library("reference"))
    own = own_buffer("net", head)
    assert own is not None and own.model == "net" and own.name.startswith("input ") and "'x'" in own.name
    assert (own.size_bytes, own.saved_bytes) == (400, 400) and head.head_bytes == 416

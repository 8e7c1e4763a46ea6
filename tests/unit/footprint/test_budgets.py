# SPDX-License-Identifier: Apache-2.0
"""Budgets of flash, RAM and work together: the way that is taken, and what is short where there is none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT
from tflm_zephyr.boards import load_board
from tflm_zephyr.codegen import AppRequest, Generated
from tflm_zephyr.errors import AppError
from tflm_zephyr.footprint import Runs, generate_within, verdict
from tflm_zephyr.options import AppConfig, ModelConfig
from tflm_zephyr.tflm import tflm_of

DIGITS = ROOT / "samples" / "digits" / "digits.tflite"
BOARD = "mps2/an385"
PLENTY = 4 << 20


def made(tmp_path: Path, **values: object) -> Generated:
    config = AppConfig((ModelConfig(DIGITS),), boards=(BOARD,), **values)  # type: ignore[arg-type]
    return generate_within(AppRequest(config, tmp_path / "app", tflm_of(None), golden=False))


def flash(app: Generated) -> int:
    found = verdict(app.spec, load_board(BOARD), Runs((1,))).flash
    assert found is not None
    return found.used_bytes


def test_without_a_budget_it_is_what_generate_makes(tmp_path: Path) -> None:
    assert made(tmp_path).spec.backend == "interpreter"


def test_a_budget_that_all_ways_keep_changes_nothing(tmp_path: Path) -> None:
    app = made(tmp_path, backend="auto", flash=PLENTY)
    free = made(tmp_path, backend="auto")
    assert (app.spec.backend, app.spec.kernels) == (free.spec.backend, free.spec.kernels)
    assert any(note.startswith("within the budget of flash: ") and "estimated" in note for note in app.notes)


def test_reference_kernels_where_cmsis_nn_is_too_large(tmp_path: Path) -> None:
    fast = made(tmp_path, backend="compiled", flash=PLENTY)
    small = made(tmp_path, backend="compiled", kernels="reference")
    assert fast.spec.kernels == ("cmsis_nn",) and flash(small) < flash(fast)
    app = made(tmp_path, backend="compiled", flash=flash(fast) - 1)
    assert app.spec.kernels == ("reference",)
    assert app.config.kernels == "reference"


def test_the_named_kernels_are_kept(tmp_path: Path) -> None:
    fast = made(tmp_path, backend="compiled")
    with pytest.raises(AppError, match=r"compiled with kernels cmsis_nn: [\d,]+ bytes of flash on mps2/an385"):
        made(tmp_path, backend="compiled", kernels="cmsis_nn", flash=flash(fast) - 1)


def test_every_way_says_what_is_short(tmp_path: Path) -> None:
    with pytest.raises(AppError) as caught:
        made(tmp_path, backend="auto", flash=1000, ram=1700)
    text = str(caught.value)
    for backend in ("compiled", "interpreter"):
        for kernels in ("cmsis_nn", "reference"):
            assert f"{backend} with kernels {kernels}: " in text
    assert re.search(r"interpreter with kernels cmsis_nn: digits takes [\d,]+ bytes of RAM, [\d,]+ more", text)
    assert "\n" not in text


def test_a_shortage_is_the_estimate_less_the_budget(tmp_path: Path) -> None:
    need = flash(made(tmp_path, backend="interpreter", kernels="cmsis_nn"))
    with pytest.raises(AppError, match=f"{need:,} bytes of flash .*, 24 more than the budget"):
        made(tmp_path, backend="interpreter", kernels="cmsis_nn", flash=need - 24)


def test_work_that_ram_takes_may_be_too_much(tmp_path: Path) -> None:
    free = made(tmp_path, backend="compiled", kernels="cmsis_nn", ram=1700)
    assert free.spec.models[0].arena.bytes <= 1700
    with pytest.raises(AppError, match=r"with at most 0.1 % more work, .* 1,700 bytes are enough for an estimated"):
        made(tmp_path, backend="compiled", kernels="cmsis_nn", ram=1700, slower=0.1, flash=PLENTY)


def test_a_board_whose_flash_is_not_known_says_so(tmp_path: Path) -> None:
    config = AppConfig((ModelConfig(DIGITS),), boards=("qemu_cortex_m3",), flash=PLENTY)
    with pytest.raises(AppError, match="its flash on qemu_cortex_m3 cannot be estimated, as "):
        generate_within(AppRequest(config, tmp_path / "app", tflm_of(None), golden=False))

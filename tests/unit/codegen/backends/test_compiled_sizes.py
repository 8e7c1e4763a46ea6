# SPDX-License-Identifier: Apache-2.0
"""Flash of compiled apps: what the linker had (docs/compiled.md), and where the layers' code is not known."""

from __future__ import annotations

from pathlib import Path

import pytest

from tflm_zephyr.boards import load_board
from tflm_zephyr.codegen.backends.compiled_sizes import measured_code
from tflm_zephyr.codegen.generation import AppRequest, generate
from tflm_zephyr.compiler import compile_model
from tflm_zephyr.costs import CMSIS_NN
from tflm_zephyr.footprint import Runs, verdict
from tflm_zephyr.kernels import kernel_library
from tflm_zephyr.model import parse_model
from tflm_zephyr.options import AppConfig, ModelConfig
from tflm_zephyr.tflm import tflm_of

SAMPLES = Path(__file__).parents[4] / "samples"


@pytest.mark.parametrize(
    ("sample", "board", "rows", "linked"),
    [
        ("hello_world", "mps2/an385", False, 12_482),
        ("digits", "mps2/an385", False, 32_862),
        ("digits", "mps2/an386", True, 34_874),
        ("hello_world", "nrf9160dk/nrf9160/ns", False, 22_020),
    ],
)
def test_the_linkers_bytes_are_within_a_bound_of_one_kilobyte(
    tmp_path: Path, sample: str, board: str, rows: bool, linked: int
) -> None:
    model = ModelConfig(SAMPLES / sample / f"{sample}.tflite")
    config = AppConfig(models=(model,), boards=(board,), kernels="cmsis_nn", backend="compiled", rows=rows)
    flash = verdict(
        generate(AppRequest(config, tmp_path, tflm_of(None), golden=False)).spec, load_board(board), Runs((1,))
    ).flash
    assert flash is not None and flash.above_bytes is not None
    assert flash.above_bytes < 1024
    assert -flash.above_bytes <= flash.used_bytes - linked <= flash.below_bytes


def test_code_is_not_known_where_a_core_was_not_measured() -> None:
    program = compile_model(
        parse_model((SAMPLES / "digits" / "digits.tflite").read_bytes()), (kernel_library("cmsis_nn"),)
    )
    found = measured_code([program], ["cortex-m3"], CMSIS_NN, "")
    assert found is not None and found > 5_000
    assert measured_code([program], ["cortex-m3", "cortex-m7"], CMSIS_NN, "") is None
    assert measured_code([program], [], CMSIS_NN, "") is None

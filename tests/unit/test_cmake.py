# SPDX-License-Identifier: Apache-2.0
"""What an app's cmake/tflm.cmake says of a workspace that lacks sources: CMake itself, configuring no Zephyr."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.unit.test_app import app
from tflm_zephyr import process
from tflm_zephyr.app import render

CMAKE = shutil.which("cmake")
PROJECT = """
cmake_minimum_required(VERSION 3.20)
project(sources LANGUAGES NONE)
add_library(zephyr_interface INTERFACE)
include(tflm.cmake)
"""
TFLM, CMSIS_NN = "tensorflow/lite/micro/micro_interpreter.cc", "Source/arm_relu.c"

pytestmark = pytest.mark.skipif(CMAKE is None, reason="needs cmake")


def configure(folder: Path, *there: str) -> str:
    """What CMake says, on one line, of an app with CMSIS-NN where just the sources `there` are."""
    spec = app(
        kernels=("cmsis_nn",),
        tflm_sources={"cmsis_nn": (TFLM,)},
        cmsis_nn_sources=(CMSIS_NN,),
        cmsis_nn_revision="c" * 40,
    )
    (folder / "tflm.cmake").write_bytes(render(spec)["cmake/tflm.cmake"])
    (folder / "CMakeLists.txt").write_text(PROJECT)
    for path in there:
        (folder / path).parent.mkdir(parents=True)
        (folder / path).touch()
    defines = {
        "ZEPHYR_TFLITE_MICRO_MODULE_DIR": folder / "tflm",
        "ZEPHYR_CMSIS_NN_MODULE_DIR": folder / "nn",
        "CONFIG_CPU_CORTEX_M": "y",
    }
    for module in ("tflm", "nn"):
        (folder / module).mkdir(exist_ok=True)
    argv = [str(CMAKE), "-S", str(folder), "-B", str(folder / "b"), *(f"-D{k}={v}" for k, v in defines.items())]
    done = process.run(argv, timeout_s=120)
    assert done.returncode != 0  # no `app` to go on with
    return " ".join(done.output.split())


def test_a_missing_tflm_source_is_named(tmp_path: Path) -> None:
    said = configure(tmp_path)
    assert f"tflite-micro unknown has no {TFLM}. This app was generated for" in said
    assert "generate it again in this workspace, or check that revision out" in said


def test_a_missing_cmsis_nn_source_is_named(tmp_path: Path) -> None:
    said = configure(tmp_path, f"tflm/{TFLM}")
    assert f"This app was generated for cmsis-nn {'c' * 40}; the workspace has unknown." in said
    assert f"cmsis-nn unknown has no {CMSIS_NN}. This app was generated for" in said


def test_what_is_there_is_not_missing(tmp_path: Path) -> None:
    assert "has no" not in configure(tmp_path, f"tflm/{TFLM}", f"nn/{CMSIS_NN}")

# SPDX-License-Identifier: Apache-2.0
"""Messages of an app's cmake/tflm.cmake about a workspace that lacks sources; CMake runs without Zephyr."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.helpers.app_specs import app
from tflm_zephyr import process
from tflm_zephyr.codegen.rendering import render

CMAKE = shutil.which("cmake")
PROJECT = """
cmake_minimum_required(VERSION 3.20)
project(sources LANGUAGES NONE)
add_library(zephyr_interface INTERFACE)
include(tflm.cmake)
"""
TFLM, CMSIS_NN = "tensorflow/lite/micro/micro_interpreter.cc", "Source/arm_relu.c"

pytestmark = pytest.mark.skipif(CMAKE is None, reason="needs cmake")


def configure(folder: Path, *there: str, defines: Mapping[str, str] | None = None, **changes: object) -> str:
    """CMake's output on one line, for an app with CMSIS-NN and `changes` where only the sources `there` exist."""
    spec = app(
        **{
            "kernels": ("cmsis_nn",),
            "tflm__sources": {"cmsis_nn": (TFLM,)},
            "tflm__cmsis_nn_sources": (CMSIS_NN,),
            "tflm__cmsis_nn_revision": "c" * 40,
            **changes,
        }
    )
    (folder / "tflm.cmake").write_bytes(render(spec)["cmake/tflm.cmake"])
    (folder / "CMakeLists.txt").write_text(PROJECT)
    for path in there:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).touch()
    given = {
        "BOARD": "some_board",
        "BOARD_QUALIFIERS": "/soc",
        "ZEPHYR_TFLITE_MICRO_MODULE_DIR": folder / "tflm",
        "ZEPHYR_CMSIS_NN_MODULE_DIR": folder / "nn",
        "CONFIG_CPU_CORTEX_M": "y",
        **(defines or {}),
    }
    for module in ("tflm", "nn"):
        (folder / module).mkdir(exist_ok=True)
    argv = [str(CMAKE), "-S", str(folder), "-B", str(folder / "b"), *(f"-D{k}={v}" for k, v in given.items())]
    shutil.rmtree(folder / "b", ignore_errors=True)  # with the variables of a run before
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


HERE = (f"tflm/{TFLM}", f"nn/{CMSIS_NN}")
HELIUM = [{"CONFIG_ARMV8_1_M_MVEI": "y"}, {"CONFIG_ARMV8_1_M_MVEI": "y", "CONFIG_ARMV8_1_M_MVEF": "y"}]
MODULE = {"tflm__form": "module", "kernels": ("reference",)}
WITH_CMSIS_NN = {"CONFIG_TENSORFLOW_LITE_MICRO_CMSIS_NN_KERNELS": "y"}
MIXED = {
    "kernels": ("cmsis_nn", "reference"),
    "tflm__sources": {"cmsis_nn": (TFLM,), "reference": (TFLM,)},
    "overlap_kernels": ("cmsis_nn", "reference"),
}


def refused(said: str) -> bool:
    return "lets outputs overlap inputs as the kernels" in said


@pytest.mark.parametrize("helium", HELIUM)
def test_overlaps_are_not_for_other_kernels(tmp_path: Path, helium: dict[str, str]) -> None:
    """Whatever the board is: what counts is whether its core has Helium."""
    said = configure(tmp_path, *HERE, defines=helium, overlap_kernels=("cmsis_nn",))
    assert "as the kernels cmsis_nn allow it; for some_board/soc they are cmsis_nn+helium." in said
    assert "Generate the app for this board and its kernels, or with --no-in-place" in said


def test_overlaps_hold_for_every_board_with_such_kernels(tmp_path: Path) -> None:
    assert not refused(configure(tmp_path, *HERE, overlap_kernels=("cmsis_nn",)))
    assert not refused(configure(tmp_path, *HERE, overlap_kernels=("cmsis_nn+helium",), defines=HELIUM[1]))
    assert not refused(configure(tmp_path, *HERE, defines=HELIUM[1]))  # nothing overlaps


def test_overlaps_of_an_app_whose_kernels_kconfig_decides(tmp_path: Path) -> None:
    on = {"CONFIG_TFLM_APP_CMSIS_NN": "y"}
    assert not refused(configure(tmp_path, *HERE, **MIXED))
    assert not refused(configure(tmp_path, *HERE, defines=HELIUM[0], **MIXED))  # reference kernels, all the same
    assert not refused(configure(tmp_path, *HERE, defines=on, **MIXED))
    assert refused(configure(tmp_path, *HERE, defines=on | HELIUM[0], **MIXED))


def test_overlaps_with_zephyrs_own_library(tmp_path: Path) -> None:
    plan = {**MODULE, "overlap_kernels": ("reference",)}
    assert not refused(configure(tmp_path, **plan))
    said = configure(tmp_path, defines=WITH_CMSIS_NN, **plan)
    assert "as the kernels reference allow it; for some_board/soc they are cmsis_nn." in said
    assert not refused(configure(tmp_path, defines=WITH_CMSIS_NN, **MODULE))


def commit(folder: Path) -> str:
    """A checkout there, and its commit."""
    folder.mkdir()
    git = ("git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b.c")
    process.run([*git, "init", "-q"], timeout_s=60)
    assert process.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], timeout_s=60).returncode == 0
    return process.run([*git, "rev-parse", "HEAD"], timeout_s=60).output.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@pytest.mark.parametrize("tflm", ["selected", "module"])
@pytest.mark.parametrize(("module", "name"), [("tflm", "tflite-micro"), ("nn", "cmsis-nn")])
def test_overlaps_are_for_the_revisions_that_were_read(tmp_path: Path, tflm: str, module: str, name: str) -> None:
    here = commit(tmp_path / module)
    plan = {"tflm__form": tflm, "overlap_kernels": ("cmsis_nn",)}
    key = "tflm__revision" if module == "tflm" else "tflm__cmsis_nn_revision"
    said = configure(tmp_path, *HERE, defines=WITH_CMSIS_NN, **plan)
    revision = app().tflm.revision if module == "tflm" else "c" * 40
    assert f"{name} {revision}; the workspace has {here}. Outputs" in said
    assert "CMake Error" in said and "Generate the app again in this workspace, or with --no-in-place" in said
    same = configure(tmp_path, *HERE, defines=WITH_CMSIS_NN, **plan, **{key: here})
    assert "Outputs overlap inputs" not in same
    forced = configure(tmp_path, *HERE, defines=WITH_CMSIS_NN | {"TFLM_APP_OTHER_REVISIONS": "ON"}, **plan)
    assert "CMake Warning" in forced and "Generate it again if it does not build" in forced
    assert "Outputs overlap inputs" not in forced


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_another_revision_is_a_warning_where_nothing_overlaps(tmp_path: Path) -> None:
    here = commit(tmp_path / "tflm")
    said = configure(tmp_path, *HERE)
    assert f"the workspace has {here}. Generate it again if it does not build." in said

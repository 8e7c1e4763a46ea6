# SPDX-License-Identifier: Apache-2.0
"""tflm_model() of cmake/tflm_model.cmake: CMake and ninja themselves, with the host's compiler and a fake generator."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.marks import rest_slow

TOOLS = ("cmake", "ninja", "gcc", "g++")
pytestmark = pytest.mark.skipif(any(shutil.which(tool) is None for tool in TOOLS), reason=f"needs {TOOLS}")

PROJECT = """
cmake_minimum_required(VERSION 3.20)
project(there C CXX ASM)
add_library(zephyr_interface INTERFACE)
set(CONFIG_TFLM_ZEPHYR y)
set(CONFIG_TFLM_ZEPHYR_KERNELS_AUTO y)
set(CONFIG_TFLM_ZEPHYR_PLAN_PACKED y)
set(CONFIG_TFLM_ZEPHYR_IN_PLACE y)
set(CONFIG_CPU_CORTEX_M y)
set(CONFIG_CPU_CORTEX_M4 y)
set(ARCH arm)
set(ZEPHYR_BASE ${CMAKE_CURRENT_SOURCE_DIR}/zephyr)
set(ZEPHYR_TFLITE_MICRO_MODULE_DIR ${CMAKE_CURRENT_SOURCE_DIR}/tflm)
set(ZEPHYR_CMSIS_NN_MODULE_DIR ${CMAKE_CURRENT_SOURCE_DIR}/nn)
include(@ROOT@/cmake/tflm_model.cmake)
add_executable(app main.c)
""".replace("@ROOT@", str(ROOT))
MAIN = '#include <stdio.h>\n#include "net.h"\nint main(void) { puts(net_weights()); return 0; }\n'
COMPILERS_ARE_KNOWN = ("-G", "Ninja", "-DCMAKE_PLATFORM_INFO_INITIALIZED=1")
CALL = "tflm_model(app NAME net MODEL net.model)"


@dataclass(frozen=True)
class Project:
    """A folder with an application, and the commands on it."""

    folder: Path

    def configure(self, *calls: str, settings: str = "") -> str:
        (self.folder / "CMakeLists.txt").write_text("\n".join([PROJECT, settings, *calls, ""]))
        python = self.folder / "python"
        python.write_text(f'#!/bin/sh\nexec {sys.executable} {ROOT}/tests/fakes/library_generator.py "$@"\n')
        python.chmod(0o755)
        return self.run("cmake", *COMPILERS_ARE_KNOWN, "-S", ".", "-B", "b", f"-DTFLM_ZEPHYR_PYTHON={python}")

    def build(self) -> str:
        return self.run("cmake", "--build", "b", "-v")

    def run(self, *argv: str) -> str:
        env = {**os.environ, "GENERATOR_LOG": str(self.folder / "log")}
        done = subprocess.run(argv, cwd=self.folder, env=env, capture_output=True, text=True, check=False)
        return " ".join((done.stdout + done.stderr).split())

    def says(self) -> str:
        return self.run("b/app")

    @property
    def generated(self) -> list[str]:
        """The generator's command lines so far."""
        return (self.folder / "log").read_text().splitlines()

    def model(self, text: str, name: str = "net.model") -> None:
        (self.folder / name).write_text(text)


@pytest.fixture(scope="session")
def compilers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CMake's files on the host's compilers, which takes longer to find out than all else that a test here does."""
    folder = tmp_path_factory.mktemp("compilers")
    (folder / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.20)\nproject(there C CXX ASM)\n")
    subprocess.run(["cmake", "-G", "Ninja", "-S", ".", "-B", "b"], cwd=folder, capture_output=True, check=True)
    (found,) = folder.glob("b/CMakeFiles/*/CMakeCXXCompiler.cmake")
    return found.parent


@pytest.fixture
def project(tmp_path: Path, compilers: Path) -> Project:
    shutil.copytree(compilers, tmp_path / "b" / "CMakeFiles" / compilers.name)
    for path in ("tflm/conv.cc", "tflm/softmax.cc", "nn/arm.c"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(f"int {path[-6:-3].strip('./')}_{len(path)};\n")
    (tmp_path / "main.c").write_text(MAIN)
    found = Project(tmp_path)
    found.model("conv.cc\nweights 1\n")
    return found


def test_a_model_is_built_and_linked(project: Project) -> None:
    said = project.configure(CALL)
    assert "-- net: arena of nothing -- a second remark" in said
    assert "softmax" not in project.build()
    assert project.says() == "weights 1"


def test_nothing_is_rebuilt_without_a_change(project: Project) -> None:
    project.configure(CALL)
    project.build()
    runs = len(project.generated)
    assert "no work to do" in project.build()
    assert len(project.generated) == runs


def test_new_weights_compile_the_data_alone(project: Project) -> None:
    project.configure(CALL)
    project.build()
    project.model("conv.cc\nweights 2\n")
    said = project.build()
    assert project.says() == "weights 2"
    assert "net_data.S.o -c" in said
    assert ".cpp.o -c" not in said and ".cc.o -c" not in said and "Re-running CMake" not in said
    assert "no work to do" in project.build()


def test_new_operators_configure_again(project: Project) -> None:
    project.configure(CALL)
    project.build()
    project.model("conv.cc\nsoftmax.cc\nweights 3\n")
    said = project.build()
    assert "softmax.cc.o -c" in said and "conv.cc.o -c" not in said
    assert project.says() == "weights 3"
    assert "no work to do" in project.build()


def test_a_broken_model_ends_the_build(project: Project) -> None:
    project.configure(CALL)
    project.build()
    project.model("broken\n")
    assert "net.model: broken" in project.build()
    assert "tflm_model(app NAME net): tflm-zephyr: error:" in project.configure(CALL)


def test_two_models_share_the_core(project: Project) -> None:
    project.model("conv.cc\nsoftmax.cc\nweights\n", "other.model")
    project.configure(CALL, "tflm_model(app NAME other MODEL other.model)")
    said = project.build()
    assert said.count("conv.cc.o -c") == said.count("softmax.cc.o -c") == said.count("port.cpp.o -c") == 1
    assert project.says() == "weights 1"


def test_an_application_sees_nothing_of_tflm(project: Project) -> None:
    project.configure("target_compile_options(app PRIVATE -DOWN)", CALL)
    (compiled,) = [line for line in project.build().split("[") if "-DOWN" in line]
    assert "TF_LITE_STATIC_MEMORY" not in compiled and "/tflm" not in compiled.replace("/tflm_zephyr/", "")


def test_the_calls_arguments_come_before_kconfigs(project: Project) -> None:
    (project.folder / "labels.txt").write_text("a\n")
    given = "KERNELS cmsis_nn ARENA 4096 ARENA_SECTION .x PLAN static IN_PLACE off ORDER model LABELS labels.txt"
    given += " BACKEND compiled STREAM_INPUT on RAM 16K SLOWER 2.5%"
    project.configure(CALL.replace(")", f" {given})"))
    line = project.generated[-1]
    for wanted in (
        "--kernels cmsis_nn", "--arena 4096", "--arena-section .x", "--plan static", "--no-in-place", "--order model",
        f"--labels {project.folder}/labels.txt", "--core cortex-m4", f"--tflm-dir {project.folder}/tflm",
        f"--cmsis-nn-dir {project.folder}/nn", f"--zephyr-base {project.folder}/zephyr",
        "--backend compiled --ram 16K --slower 2.5%", "--stream-input",
    ):  # fmt: skip
        assert wanted in line, wanted
    assert "arm.c.o" in project.build()


def test_kconfig_holds_for_calls_without_arguments(project: Project) -> None:
    settings = """
unset(CONFIG_TFLM_ZEPHYR_KERNELS_AUTO)
set(CONFIG_TFLM_ZEPHYR_KERNELS_REFERENCE y)
unset(CONFIG_TFLM_ZEPHYR_PLAN_PACKED)
set(CONFIG_TFLM_ZEPHYR_PLAN_ONLINE y)
unset(CONFIG_TFLM_ZEPHYR_IN_PLACE)
set(CONFIG_TFLM_ZEPHYR_ARENA_SECTION DTCM)
set(CONFIG_TFLM_ZEPHYR_DEBUG y)
set(CONFIG_TFLM_ZEPHYR_BACKEND_INTERPRETER y)
"""
    project.configure(CALL, settings=settings)
    line = project.generated[-1]
    assert "--kernels reference --backend interpreter --plan online --arena-section DTCM --no-in-place --debug" in line


@pytest.mark.parametrize(
    ("settings", "core"),
    rest_slow(
        [
            ("set(CONFIG_ARMV8_1_M_MVEI y)", "cortex-m55"),
            ("unset(CONFIG_CPU_CORTEX_M4)", "cortex-m3"),
            ("unset(CONFIG_CPU_CORTEX_M4)\nset(CONFIG_CPU_CORTEX_M33 y)", "cortex-m33+nodsp"),
            ("unset(CONFIG_CPU_CORTEX_M4)\nset(CONFIG_CPU_CORTEX_M33 y)\nset(CONFIG_ARMV8_M_DSP y)", "cortex-m33"),
            ("unset(CONFIG_CPU_CORTEX_M4)\nunset(CONFIG_CPU_CORTEX_M)\nset(ARCH riscv)", "riscv"),
        ],
        2,
    ),
)
def test_the_core_is_kconfigs(project: Project, settings: str, core: str) -> None:
    project.configure(CALL, settings=settings)
    assert f"--core {core} " in project.generated[-1]


@pytest.mark.parametrize(
    ("calls", "settings", "error"),
    rest_slow(
        [
            ([CALL], "unset(CONFIG_TFLM_ZEPHYR)", "set CONFIG_TFLM_ZEPHYR=y in prj.conf"),
            ([CALL], "set(CONFIG_TENSORFLOW_LITE_MICRO y)", "Set it to n"),
            ([CALL], "unset(ZEPHYR_TFLITE_MICRO_MODULE_DIR)", "this workspace has no tflite-micro module"),
            ([CALL, CALL], "", "there is a model of that name already"),
            ([CALL.replace("app", "ap")], "", "there is no target ap"),
            (["tflm_model(app NAME net)"], "", "NAME or MODEL is missing"),
            ([CALL.replace(")", " ARENAS 5)")], "", "tflm_model(app): ARENAS;5 : not an argument"),
            ([CALL.replace(")", " ROWS banana)")], "", "tflm_model(app NAME net): ROWS is on or off, not banana"),
            (
                [CALL, "tflm_model(app NAME two MODEL net.model KERNELS cmsis_nn)"],
                "",
                "two) has cmsis_nn kernels, and net has reference. One application has one kernel library",
            ),
        ],
        2,
    ),
)
def test_what_cannot_be_is_said(project: Project, calls: list[str], settings: str, error: str) -> None:
    assert error in project.configure(*calls, settings=settings)


@pytest.mark.parametrize("given", ["BACKEND compiled", "ROWS on", "RAM 16K", "SLOWER 5%", "FAST_KERNELS on"])
def test_compiled_models_get_no_defaults_for_plans(project: Project, given: str) -> None:
    """Kconfig's choices of plans are the interpreter's."""
    settings = """
unset(CONFIG_TFLM_ZEPHYR_PLAN_PACKED)
set(CONFIG_TFLM_ZEPHYR_PLAN_STATIC y)
unset(CONFIG_TFLM_ZEPHYR_IN_PLACE)
"""
    project.configure(CALL.replace(")", f" {given})"), settings=settings)
    assert "--plan" not in project.generated[-1] and "in-place" not in project.generated[-1]
    option, value = given.split()
    flag = f"--{option.lower().replace('_', '-')}"
    wanted = flag if value == "on" else f"{flag} {value}"
    assert wanted in project.generated[-1]


def test_pythons_own_path_stays(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Toolchains find Python's packages by PYTHONPATH."""
    monkeypatch.setenv("PYTHONPATH", "/of/the/toolchain")
    project.configure(CALL)
    (project.folder / "python").write_text('#!/bin/sh\necho "error: $PYTHONPATH" >&2\nexit 1\n')
    assert "error: /of/the/toolchain" in project.run("cmake", "b")


def test_a_python_without_the_packages_is_said(project: Project) -> None:
    project.configure(CALL)
    (project.folder / "python").write_text('#!/bin/sh\necho "ModuleNotFoundError: No module named numpy" >&2\nexit 1\n')
    said = project.run("cmake", "b")
    assert "lacks the generator's packages. Run:" in said and "zephyr/requirements.txt" in said


def test_links_of_zephyr_are_run_by_link_py(project: Project) -> None:
    project.model("conv.cc\nweights\n", "other.model")
    shown = "get_target_property(found zephyr_pre0 RULE_LAUNCH_LINK)\nmessage(STATUS ${found})"
    second = "tflm_model(app NAME other MODEL other.model)"
    said = project.configure(CALL, second, shown, settings="add_executable(zephyr_pre0 main.c)")
    models = " ".join(f'"{project.folder}/{name}.model"' for name in ("net", "other"))
    assert f'/cmake/link.py" "{project.folder}/b" {models} --' in said

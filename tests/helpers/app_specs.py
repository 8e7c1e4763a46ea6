# SPDX-License-Identifier: Apache-2.0
"""Small AppSpecs made by hand, written to a folder, and the host's compiler for their C++."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT
from tflm_zephyr.boards.board import load_board
from tflm_zephyr.codegen.backends.interpreter_spec import CallSpec, InterpreterSpec, ResolverSpec
from tflm_zephyr.codegen.spec import AppSpec, ArenaSpec, GoldenSpec, ModelSpec, TensorSpec, TflmBuild
from tflm_zephyr.tflm.zephyr_version import ZephyrVersion

ZEPHYR_STUBS = ROOT / "tests" / "fakes" / "zephyr_include"
GXX = shutil.which("g++")
needs_gxx = pytest.mark.skipif(GXX is None, reason="needs g++")
DEFINES = (
    '-DCONFIG_BOARD_TARGET="mps2/an385"',
    '-DTFLM_KERNELS="reference"',
    '-DTFLM_REVISION="8d404de73acf7687831e16d88e86e4f73cfddf8e"',
    "-DCONFIG_TFLM_APP_REPEAT_SECONDS=0",
)
_OF_RUNTIME = frozenset(field.name for field in fields(InterpreterSpec))


def tensor(name: str = "x", elements: int = 4, **changes: object) -> TensorSpec:
    """An int8 tensor of (1, elements)."""
    spec = TensorSpec(name, "int8", "int8_t", "kTfLiteInt8", (1, elements), elements, elements, 0.5, -1)
    return replace(spec, **changes)  # type: ignore[arg-type]


def changed(spec: ModelSpec, **changes: object) -> ModelSpec:
    """`spec` with other values of its own, or of its InterpreterSpec."""
    assert isinstance(spec.runtime, InterpreterSpec)
    runtime = replace(spec.runtime, **{key: value for key, value in changes.items() if key in _OF_RUNTIME})  # type: ignore[arg-type]
    own = {key: value for key, value in changes.items() if key not in _OF_RUNTIME}
    return replace(spec, **{"runtime": runtime, **own})  # type: ignore[arg-type]


def model(ident: str = "net", **changes: object) -> ModelSpec:
    """A model of 4 inputs and 70 outputs in the MicroInterpreter; `changes` as for `changed`."""
    spec = ModelSpec(
        name=ident,
        ident=ident,
        sha256="ab" * 32,
        inputs=(tensor("x", 4),),
        outputs=(tensor("y", 70),),
        arena=ArenaSpec(1024, "estimated", "head 512 + tail 512"),
        runtime=InterpreterSpec(
            data=bytes(range(40)),
            planned=True,
            resolver=ResolverSpec(
                (CallSpec("AddFullyConnected()"), CallSpec('AddCustom("My", tflite::Register_MY())'))
            ),
        ),
        golden=(GoldenSpec((b"\1\2\3\4",), (bytes(range(70)),)),),
        golden_source="LiteRT 0.0.0, reference kernels; seeded random inputs",
    )
    return changed(spec, **changes)


def app(*models: ModelSpec, **changes: object) -> AppSpec:
    """An app for the nRF9160 DK and QEMU's mps2-an385 with reference kernels."""
    spec = AppSpec(
        name="app",
        models=models or (model(),),
        boards=(load_board("nrf9160dk/nrf9160/ns"), load_board("mps2/an385")),
        kernels=("reference",),
        tflm=TflmBuild(
            "selected",
            "8d404de73acf7687831e16d88e86e4f73cfddf8e",
            sources={"reference": ("tensorflow/lite/micro/micro_interpreter.cc",)},
            include_dirs=(".",),
        ),
        zephyr=ZephyrVersion("4.1.0"),
        west_modules=("cmsis", "tflite-micro"),
    )
    return varied(spec, **changes)


def varied(spec: AppSpec, **changes: object) -> AppSpec:
    """`spec` with other values of its own, or of its parts, as in tflm__debug."""
    for name, value in changes.items():
        part, _, field = name.partition("__")
        given = replace(getattr(spec, part), **{field: value}) if field else value
        spec = replace(spec, **{part: given})  # type: ignore[arg-type]
    return spec


def write(files: Mapping[str, bytes], folder: Path) -> Path:
    """Write `files` below `folder`, which is returned."""
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder


def compile_cxx(folder: Path, *args: str) -> None:
    """g++ as strict as it gets, with trigraphs and line continuations in comments as errors."""
    argv = [str(GXX), "-Wall", "-Wextra", "-Werror", "-Isrc", f"-I{ZEPHYR_STUBS}", *args]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def own_sources(spec: AppSpec) -> list[str]:
    """The files of an app that compile without TFLM."""
    parts = ("data", "golden") if spec.model_data == "array" else ("golden",)
    data = [f"src/models/{m.ident}_{part}.cpp" for m in spec.models for part in parts]
    return [*data, "src/self_test.cpp", "src/report.cpp", "src/run.cpp"]

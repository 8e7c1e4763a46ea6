# SPDX-License-Identifier: Apache-2.0
"""The generated models of every kind against TFLM's own headers, checked by the host's compiler."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.generated_models import passing, variables, with_custom
from tests.helpers.model_builder import ModelBuilder
from tests.helpers.small_models import dense, unary
from tflm_zephyr.boards.board import load_board
from tflm_zephyr.build.workspace import Workspace
from tflm_zephyr.codegen.app_folder import own_path
from tflm_zephyr.codegen.derived_apps import write_copy
from tflm_zephyr.codegen.generation import AppRequest, generate
from tflm_zephyr.codegen.recording_app import recording_app
from tflm_zephyr.codegen.rendering import render
from tflm_zephyr.options import AppConfig, CustomOperatorConfig, ModelConfig, PreallocatedConfig
from tflm_zephyr.tflm.revision import tflm_of
from tflm_zephyr.tflm.sources import INCLUDE_DIRS
from tflm_zephyr.validation.arena_sizing import measuring_app

pytestmark = pytest.mark.zephyr

HEADER = (
    '#pragma once\n#include "tensorflow/lite/micro/micro_common.h"\nnamespace ns {{ TFLMRegistration *Register(); }}\n'
)


def zero_points() -> bytes:
    """The extremes of what a header can say of a tensor."""
    model = ModelBuilder()
    main = model.subgraph()
    x = main.tensor((), "int32", 'x */ "\\', scale=1e-45, zero_point=-(2**31))
    main.inputs, main.outputs = [x], [x]
    return model.finish()


MODELS = {
    "dense": dense(),
    "bool": unary("LOGICAL_NOT", "bool"),
    "int16": unary("ABS", "int16"),
    "float": unary("RELU", "float32"),
    "variables": variables(["a", "b"]),
    "passing": passing(),
    "sin": passing(),
    "zero": zero_points(),
    "custom": with_custom('My"Op'),
}


@pytest.fixture(scope="module")
def sources(workspace: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An app with all of them, one custom operator and its header."""
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    folder = tmp_path_factory.mktemp("cxx")
    (folder / "my_op.h").write_text(HEADER.replace("{{", "{").replace("}}", "}"))
    (folder / "my_op.cc").write_text("")
    custom = CustomOperatorConfig('My"Op', "ns::Register", "my_op.h", (folder / "my_op.cc",))
    configs = []
    for name, data in MODELS.items():
        (folder / f"{name}.tflite").write_bytes(data)
        customs = (custom,) if name == "custom" else ()
        configs.append(ModelConfig(folder / f"{name}.tflite", custom_operators=customs))
    made = generate(
        AppRequest(AppConfig(tuple(configs)), folder / "app", tflm_of(workspace.tflm_dir, workspace.tflm_revision))
    )
    for path, data in render(made.spec).items():
        (folder / "app" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "app" / path).write_bytes(data)
    return folder / "app"


def compile_cxx(app: Path, names: Sequence[Path], workspace: Workspace, idents: Sequence[str]) -> None:
    """All in one translation unit, as TFLM's headers are what takes the time."""
    assert workspace.tflm_dir is not None
    (app / "all.cpp").write_text("".join(f'#include "{path}"\n' for path in names))
    argv = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fno-exceptions", "-fno-rtti", "-fsyntax-only", "-I.."]
    argv += ["-Isrc", f"-I{ROOT / 'tests' / 'fakes' / 'zephyr_include'}", "-DTF_LITE_STATIC_MEMORY"]
    argv += [f"-DCONFIG_TFLM_APP_{ident.upper()}_ARENA_SIZE=4096" for ident in idents]
    for name in INCLUDE_DIRS:
        argv += ["-isystem", str(workspace.tflm_dir / name)]
    done = subprocess.run([*argv, "all.cpp"], cwd=app, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_models_and_port_compile(sources: Path, workspace: Workspace) -> None:
    models = sorted(
        path for path in (sources / "src" / "models").glob("*.cpp") if not path.stem.endswith(("_data", "_golden"))
    )
    assert len(models) == len(MODELS)
    compile_cxx(sources, (*models, sources / "src/port.cpp"), workspace, [path.stem for path in models])


BOARD = load_board("mps2/an385")


@pytest.mark.parametrize("variant", ["measured", "recorded", "static", "preallocated"])
def test_what_only_some_apps_have_compiles(tmp_path: Path, workspace: Workspace, variant: str) -> None:
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    (tmp_path / "dense.tflite").write_bytes(dense())
    own = (PreallocatedConfig(0, "frame", ".dma", 32), PreallocatedConfig(2)) if variant == "preallocated" else ()
    plan = "static" if variant in ("static", "preallocated") else "packed"
    config = AppConfig(
        (ModelConfig(tmp_path / "dense.tflite", plan=plan, preallocated=own),),
        boards=(BOARD.name,),
        kernels="reference",
    )
    tflm = tflm_of(workspace.tflm_dir, workspace.tflm_revision, ["reference"])
    app = tmp_path / "app"
    spec = generate(AppRequest(config, app, tflm, golden=False)).spec
    if variant == "measured":
        spec = measuring_app(spec, BOARD, app, app)
    elif variant == "recorded":
        spec = recording_app(spec, BOARD, app, app)
    write_copy(app, spec)
    app = own_path(app)
    names = [app / "src/models/dense.cpp", *([app / "src/measure.cpp"] if variant == "measured" else [])]
    compile_cxx(app, names, workspace, ["dense"])

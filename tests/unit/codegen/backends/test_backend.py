# SPDX-License-Identifier: Apache-2.0
"""The seam between an app and its backend, shown by a second backend that shares nothing with the first."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.fakes.fixed_backend import FixedBackend
from tests.helpers.app_specs import DEFINES, compile_cxx, needs_gxx, own_sources, varied, write
from tests.helpers.small_models import dense, unary
from tflm_zephyr.cli.report import text
from tflm_zephyr.codegen import AppRequest, backends
from tflm_zephyr.codegen.app_folder import FileChange
from tflm_zephyr.codegen.backends import BACKENDS, backend_of
from tflm_zephyr.codegen.generation import Generated, generate
from tflm_zephyr.codegen.rendering import render, render_starters
from tflm_zephyr.device.console.records import RecordReader
from tflm_zephyr.errors import AppError
from tflm_zephyr.footprint.estimate import Runs, verdict
from tflm_zephyr.options import INTERPRETER, AppConfig, ModelConfig
from tflm_zephyr.resources import data_dir
from tflm_zephyr.tflm.revision import tflm_of

TEMPLATES = data_dir("templates") / "app"
SHARED = (TEMPLATES / "common", TEMPLATES / "user")


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generated:
    """An app of two models with the test's own backend."""
    monkeypatch.setitem(backends.BACKENDS, FixedBackend.name, FixedBackend)
    (tmp_path / "dense.tflite").write_bytes(dense())
    (tmp_path / "relu.tflite").write_bytes(unary("RELU"))
    models = tuple(ModelConfig(tmp_path / f"{name}.tflite") for name in ("dense", "relu"))
    config = AppConfig(models, "app", ("mps2/an385",), kernels="reference")
    return generate(AppRequest(config, tmp_path / "app", tflm_of(None), golden=False, backend=FixedBackend.name))


def test_an_unknown_backend_is_one_line() -> None:
    with pytest.raises(AppError, match=r"there is no backend magic\. Choose one of compiled, interpreter"):
        backend_of("magic")


def test_another_backend_has_nothing_of_tflm(made: Generated) -> None:
    files = render(made.spec)
    for path, data in files.items():
        assert not re.search(rb"tensorflow/lite|tflite::|MicroInterpreter", data), path
    assert not [path for path in files if path.endswith((".tflite", "tflm.cmake", ".S"))]
    cmake = files["app.cmake"].decode()
    assert "include(${TFLM_APP_DIR}/cmake/fixed.cmake)" in cmake and "target_link_libraries" not in cmake
    listed = re.findall(r"^  (src/\S+)$", cmake, re.M)
    assert set(listed) == {path for path in files if path.endswith(".cpp")}


def test_every_source_is_listed_after_the_apps_own(made: Generated) -> None:
    listed = re.findall(r"^  src/(\S+)$", render(made.spec)["app.cmake"].decode(), re.M)
    own = ["port.cpp", "report.cpp", "run.cpp", "self_test.cpp"]
    assert listed == [*own, *(f"models/{name}{part}.cpp" for name in ("dense", "relu") for part in ("", "_golden"))]


@pytest.mark.slow
@needs_gxx
def test_its_app_compiles_and_reports_its_outputs(made: Generated, tmp_path: Path) -> None:
    folder = write({**render(made.spec), **render_starters(made.spec)}, tmp_path / "out")
    sources = [*own_sources(made.spec), *(f"src/models/{model.ident}.cpp" for model in made.spec.models)]
    compile_cxx(folder, "-std=c++17", *DEFINES, *sources, "src/main.cpp", "-o", "self_test")
    compile_cxx(folder, "-std=c++17", *DEFINES, "-fsyntax-only", "src/port.cpp")
    done = subprocess.run([folder / "self_test"], capture_output=True, text=True, check=True, timeout=20)
    reader = RecordReader("qemu")
    results = [found for line in done.stdout.splitlines() if (found := reader.feed(line)) is not None]
    assert [(item.model, item.status) for item in results] == [("dense", "none"), ("relu", "none")]
    assert [item.runs[0].outputs[0].data for item in results] == [bytes([42] * 8)] * 2
    assert [item.arena.size_bytes for item in results if item.arena] == [64, 64]


def test_its_sizes_and_report_need_no_interpreter(made: Generated) -> None:
    found = verdict(made.spec, made.spec.boards[0], Runs((0, 0)))
    assert found.flash is None and found.reason == "no app of the backend fixed was measured"
    said = text.generated(Path("app"), made, FileChange(), None, text.NextStep())
    assert "1 operator (memset)" in said and "arena 64 bytes, given: nothing is planned" in said
    assert [item["value"] for item in text.app_json(made)["models"]] == [42, 42]


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"program__host_link": True}, "answers no host"),
        ({"program__measure": True}, "has no arena to be measured"),
        ({"program__record": True}, "records no allocations"),
    ],
)
def test_a_capability_that_is_not_declared(made: Generated, wanted: dict[str, bool], why: str) -> None:
    with pytest.raises(AppError, match=f"the backend fixed {why}"):
        render(varied(made.spec, **wanted))


def test_models_of_a_backend_may_share_no_arena(made: Generated, tmp_path: Path) -> None:
    config = AppConfig((ModelConfig(tmp_path / "dense.tflite"),), boards=("mps2/an385",), shared_arena=True)
    with pytest.raises(AppError, match="the backend fixed share no arena"):
        generate(AppRequest(config, tmp_path / "app", tflm_of(None), golden=False, backend=FixedBackend.name))


@pytest.mark.parametrize("name", BACKENDS)
def test_a_backend_replaces_no_common_file(name: str) -> None:
    common, own = (
        {path.relative_to(folder) for path in folder.rglob("*.j2")}
        for folder in (TEMPLATES / "common", TEMPLATES / backend_of(name).templates)
    )
    assert common and own and not common & own


@pytest.mark.parametrize("name", BACKENDS)
def test_every_condition_and_part_is_of_a_template(name: str) -> None:
    folder = TEMPLATES / backend_of(name).templates
    assert all((folder / path).is_file() for path in backend_of(name).conditions())
    texts = [path.read_text() for top in (*SHARED, folder) for path in top.rglob("*.j*")]
    used = {found for source in texts for found in re.findall(r'"parts/(\w+\.jinja)"', source)}
    arenas = {f"model_{kind}_arena.jinja" for kind in ("own", "shared", "measured", "recorded")}
    parts = {path.name for path in (folder / "parts").iterdir()}
    used -= {path.name for top in SHARED for path in top.glob("parts/*")}
    assert parts == used | arenas if name == INTERPRETER else parts <= used


def test_common_templates_know_no_backend() -> None:
    for path in (path for top in SHARED for path in top.rglob("*.j2")):
        source = path.read_text()
        assert not re.search(r"tensorflow/lite|tflite::|model\.runtime\.(?!kernel_names)", source), path

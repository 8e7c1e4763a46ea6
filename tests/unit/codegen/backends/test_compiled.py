# SPDX-License-Identifier: Apache-2.0
"""The backend of compiled code: what its apps hold, and which options it refuses."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers.app_specs import DEFINES, compile_cxx, needs_gxx, write
from tests.helpers.architectures import mobilenet
from tests.helpers.control_models import branching, counting
from tests.helpers.generated_models import with_custom
from tests.helpers.small_models import dense, unary
from tflm_zephyr.codegen.backends import compiled as backend
from tflm_zephyr.codegen.backends.compiled import runtime_of
from tflm_zephyr.codegen.backends.layer_code import constant_bytes
from tflm_zephyr.codegen.generation import AppRequest, Generated, generate
from tflm_zephyr.codegen.rendering import render
from tflm_zephyr.compiler import Search
from tflm_zephyr.errors import AppError
from tflm_zephyr.model import Model
from tflm_zephyr.options import AppConfig, CustomOperatorConfig, ModelConfig, PreallocatedConfig
from tflm_zephyr.options.app_file import load_app_file
from tflm_zephyr.tflm.revision import tflm_of

LAYERS = "src/models/dense_layers.cpp"


def config(folder: Path, **options: Any) -> AppConfig:
    (folder / "dense.tflite").write_bytes(dense())
    given: dict[str, Any] = {"kernels": "cmsis_nn", "backend": "compiled", **options}
    return AppConfig((ModelConfig(folder / "dense.tflite"),), "app", ("mps2/an385",), **given)


def made(folder: Path, **options: Any) -> Generated:
    return generate(AppRequest(config(folder, **options), folder / "app", tflm_of(None), golden=False))


def test_an_app_has_neither_interpreter_nor_flatbuffer(tmp_path: Path) -> None:
    files = render(made(tmp_path).spec)
    for path, data in files.items():
        assert b"MicroInterpreter" not in data, path
    assert not [path for path in files if path.endswith(".tflite")]
    weights = files["src/models/dense_weights.bin"]
    listed = re.findall(rb"incbin TFLM_WEIGHTS_FILE, (\d+), (\d+)", files["src/models/dense_weights.S"])
    assert [(int(first), int(size)) for first, size in listed][-1] != (0, 0)
    assert sum(int(size) for _, size in listed) == len(weights)


STRICT = ("-Wshadow", "-Wpedantic", "-Wcast-align=strict", "-Wconversion", "-Wsign-conversion")


@needs_gxx
def test_an_app_compiles_without_warnings(tmp_path: Path) -> None:
    """All that needs no headers of kernels: floats are wider than the arena's bytes."""
    given = config(tmp_path, kernels="reference", host_link=True)
    (tmp_path / "dense.tflite").write_bytes(unary("RELU", "float32"))
    made = generate(AppRequest(given, tmp_path / "app", tflm_of(None), golden=False))
    folder = write(render(made.spec), tmp_path / "out")
    assert b"static_cast<float *>(" in render(made.spec)["src/models/dense.cpp"]
    names = ("models/dense", "models/dense_golden", "self_test", "report", "run")
    names += ("link/device", "link/frame", "link/cycles")
    for source in (f"src/{name}.cpp" for name in names):
        options = ("-std=c++17", *STRICT, *DEFINES, "-DCONFIG_TFLM_APP_HOST_LINK", "-fsyntax-only")
        compile_cxx(folder, *options, source)


@needs_gxx
@pytest.mark.parametrize("data", [counting(), branching()], ids=["CALL_ONCE", "IF"])
def test_the_link_describes_operators_of_all_subgraphs(data: bytes, tmp_path: Path) -> None:
    """CALL_ONCE and ASSIGN_VARIABLE have no outputs, so that operators and lists of outputs are not of one number."""
    given = config(tmp_path, kernels="reference", host_link=True)
    (tmp_path / "dense.tflite").write_bytes(data)
    made = generate(AppRequest(given, tmp_path / "app", tflm_of(None), golden=False))
    folder = write(render(made.spec), tmp_path / "out")
    compile_cxx(folder, "-std=c++17", *DEFINES, "-DCONFIG_TFLM_APP_HOST_LINK", "-fsyntax-only", "src/models/dense.cpp")
    flat = runtime_of(made.spec.models[0]).program.flat
    assert flat is not None
    text = (folder / "src/models/dense.cpp").read_text(encoding="utf-8")
    rows = re.findall(r"\{\d+, nullptr, (\d+), (\d+), (\w+), (\d+)\}", text)
    assert [(int(subgraph), int(position)) for subgraph, position, *_ in rows] == list(flat.origins)
    for _, _, name, outputs in rows:
        listed = re.search(rf"const int32_t {name}\[\] = \{{(.*)\}};", text)
        assert (0 if listed is None else len(listed[1].split(","))) == int(outputs)


def test_a_model_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []

    def counting(model: Model, *args: Any) -> Search:
        compiled.append(model.sha256)
        return Search(model, *args)

    monkeypatch.setattr(backend, "Search", counting)
    made(tmp_path)
    assert len(compiled) == 1


def test_only_the_functions_that_are_called_are_built(tmp_path: Path) -> None:
    spec = made(tmp_path).spec
    names = {Path(path).stem for path in spec.tflm.cmsis_nn_sources}
    assert "arm_fully_connected_s8" in names
    assert not [name for name in names if "conv" in name or "wrapper" in name]
    assert spec.tflm.sources == {"cmsis_nn": ()}


def test_the_stack_is_that_of_tflms_own_kernels(tmp_path: Path) -> None:
    spec = made(tmp_path).spec
    assert spec.main_stack_bytes == made(tmp_path, backend="interpreter").spec.main_stack_bytes
    assert spec.models[0].runtime.registrations == ("Register_FULLY_CONNECTED_INT8",)


def test_the_reference_kernels_need_tflms_headers(tmp_path: Path) -> None:
    spec = made(tmp_path, kernels="reference").spec
    assert not spec.tflm.cmsis_nn_sources
    files = render(spec)
    assert b"add_library(tflm STATIC" in files["cmake/compiled.cmake"]
    assert b"reference_integer_ops::FullyConnected" in files["src/models/dense_layers.cpp"]


def test_constants_as_an_array_are_the_same_bytes(tmp_path: Path) -> None:
    spec = made(tmp_path, model_data="array").spec
    text = render(spec)["src/models/dense_weights.cpp"].decode()
    data = bytes(int(byte, 16) for byte in re.findall(r"0x([0-9a-f]{2}),", text))
    assert data == constant_bytes(runtime_of(spec.models[0]).program)


def test_the_app_file_names_the_backend(tmp_path: Path) -> None:
    (tmp_path / "app.yaml").write_text("models: [dense.tflite]\nbackend: compiled\n", encoding="utf-8")
    assert load_app_file(tmp_path / "app.yaml").backend == "compiled"
    (tmp_path / "app.yaml").write_text("models: [dense.tflite]\nbackend: magic\n", encoding="utf-8")
    with pytest.raises(AppError, match="backend"):
        load_app_file(tmp_path / "app.yaml")


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"shared_arena": True}, "shared_arena"),
        ({"tflm": "module"}, "tflm is the interpreter backend's"),
    ],
)
def test_the_interpreters_options_are_refused(options: dict[str, Any], what: str, tmp_path: Path) -> None:
    with pytest.raises(AppError, match=what):
        made(tmp_path, **options)


def test_preallocated_tensors_are_refused(tmp_path: Path) -> None:
    given = config(tmp_path)
    model = replace(given.models[0], preallocated=(PreallocatedConfig("x"),))
    with pytest.raises(AppError, match="preallocated"):
        generate(AppRequest(replace(given, models=(model,)), tmp_path / "app", tflm_of(None), golden=False))


def test_boards_of_two_kernel_libraries_are_refused(tmp_path: Path) -> None:
    given = replace(config(tmp_path, kernels="auto"), boards=("mps2/an385", "native_sim"))
    (tmp_path / "dense.tflite").write_bytes(mobilenet(24))
    with pytest.raises(AppError, match="one kernel library"):
        generate(AppRequest(given, tmp_path / "app", tflm_of(None), golden=False))


def with_abs(folder: Path, **options: Any) -> Generated:
    """An app of a model with ABS, which has no direct code."""
    given = config(folder, **options)
    (folder / "dense.tflite").write_bytes(unary("ABS"))
    return generate(AppRequest(given, folder / "app", tflm_of(None), golden=False))


def test_an_operator_without_code_keeps_its_kernel(tmp_path: Path) -> None:
    spec = with_abs(tmp_path, kernels="reference").spec
    files = render(spec)
    text = files["src/models/dense_layers.cpp"].decode()
    assert "tflm_app::Registration(tflite::Register_ABS())" in text
    assert "bool Prepare(uint8_t *arena)" in text
    assert "Prepare(g_arena)" in files["src/models/dense.cpp"].decode()
    assert "src/tflm_kernel.cpp" in files
    sources = spec.tflm.sources["reference"]
    assert "tensorflow/lite/micro/kernels/elementwise.cc" in sources
    assert not [path for path in sources if "micro_allocator" in path or "interpreter" in path or "planner" in path]


def test_kept_kernels_and_their_bytes_are_said(tmp_path: Path) -> None:
    made = with_abs(tmp_path, kernels="reference")
    (note,) = [note for note in made.notes if "own kernels" in note]
    assert re.search(
        r"dense: TFLM's own kernels run .*, ABS \(0\), in \d+ bytes of RAM and about [\d,]+ of flash", note
    )
    arena = made.spec.models[0].arena
    program = runtime_of(made.spec.models[0]).program
    assert arena.bytes == program.planned_bytes + program.state_bytes
    assert f"{program.state_bytes} bytes for TFLM's own kernels" in arena.note


def test_an_app_with_direct_code_has_no_frame(tmp_path: Path) -> None:
    files = render(made(tmp_path).spec)
    assert not [path for path in files if "tflm_kernel" in path]
    assert b"DebugLog" not in files["src/port.cpp"]


def test_kept_kernels_are_for_the_types_of_the_model(tmp_path: Path, shared: Path) -> None:
    given = config(tmp_path)
    model = ModelConfig(shared / "models" / "keyword_scrambled_8bit.tflite", name="kws")
    spec = generate(AppRequest(replace(given, models=(model,)), tmp_path / "app", tflm_of(None), golden=False)).spec
    text = render(spec)["src/models/kws_layers.cpp"].decode()
    assert "tflite::Register_SVDF_INT8()" in text
    assert len(re.findall(r"std::memset\(arena \+ \d+, -?\d+, \d+\)", text)) == 7  # states begin at their zero points


def test_custom_operators_run_in_a_frame(tmp_path: Path) -> None:
    folder = tmp_path / "ops"
    folder.mkdir()
    (folder / "my_op.h").write_text("", encoding="utf-8")
    (folder / "my_op.cc").write_text("", encoding="utf-8")
    given = config(tmp_path)
    (tmp_path / "dense.tflite").write_bytes(with_custom())
    custom = CustomOperatorConfig("MyOp", "mine::Register_MY_OP", "my_op.h", (folder / "my_op.cc",))
    model = replace(given.models[0], custom_operators=(custom,))
    spec = generate(AppRequest(replace(given, models=(model,)), tmp_path / "app", tflm_of(None), golden=False)).spec
    text = render(spec)["src/models/dense_layers.cpp"].decode()
    assert '#include "my_op.h"' in text
    assert "tflm_app::Registration(mine::Register_MY_OP())" in text
    assert runtime_of(spec.models[0]).program.state_bytes == 16 + 1024  # nobody knows what it allocates
    assert spec.models[0].arena.unknown == ("MyOp",)


def test_constants_of_custom_operators_are_aligned_as_in_models(tmp_path: Path, shared: Path) -> None:
    given = config(tmp_path)
    model = ModelConfig(shared / "models" / "audio_preprocessor_int8.tflite", name="audio")
    spec = generate(AppRequest(replace(given, models=(model,)), tmp_path / "app", tflm_of(None), golden=False)).spec
    text = render(spec)["src/models/audio_weights.S"].decode()
    program = runtime_of(spec.models[0]).program
    window = next(layer.kernel for layer in program.fallbacks if layer.key == "SignalWindow")
    (weights,) = [tensor.constant for tensor in window.tensors if tensor.constant]
    assert f".balign 16\n\t.global audio_{weights}\n" in text
    assert ".balign 4\n" in text


def test_the_layers_say_their_bound_of_stack(tmp_path: Path) -> None:
    found = re.search(rb"A layer takes at most (\d+) bytes of stack", render(made(tmp_path).spec)[LAYERS])
    assert found is not None
    assert 0 < int(found[1]) < 1024


@pytest.mark.parametrize("options", [{"boards": ("mps3/corstone300/an547",)}, {"debug": True}])
def test_a_stack_that_was_not_measured_is_not_said(options: dict[str, Any], tmp_path: Path) -> None:
    given = replace(config(tmp_path), **options)
    spec = generate(AppRequest(given, tmp_path / "app", tflm_of(None), golden=False)).spec
    assert b"bytes of stack" not in render(spec)[LAYERS]


def test_fast_kernels_are_a_header_and_a_note(tmp_path: Path) -> None:
    app = made(tmp_path, fast_kernels=True).spec
    files = render(app)
    assert "src/fast_kernels.hpp" in files
    assert "tflm_fast::Dense<" in files[LAYERS].decode()
    assert any(b"_layers.cpp PROPERTIES COMPILE_OPTIONS" in text for text in files.values())
    assert any("fast kernels in 1 of 1 layers" in note for note in backend.Compiled().notes(app))


@pytest.mark.parametrize(
    ("layers", "listed"),
    [
        (1, "1 layers; layer 0 (CONV_2D) why"),
        (4, "4 layers; layers 0 (CONV_2D), 1 (CONV_2D), 2 (CONV_2D), 3 (CONV_2D) why"),
        (27, "27 layers; 27 of 27 layers, 0 (CONV_2D), 1 (CONV_2D), 2 (CONV_2D) and so on, why"),
    ],
)
def test_the_note_names_the_first_of_many_layers(layers: int, listed: str) -> None:
    kept = [SimpleNamespace(operator=k, key="CONV_2D", fast=False, not_fast="why") for k in range(layers)]
    program: Any = SimpleNamespace(layers=kept, choice=None)
    assert backend.fast_remark("net", program) == f"net: fast kernels in 0 of {listed}"


def test_other_apps_have_no_fast_kernels(tmp_path: Path) -> None:
    app = made(tmp_path).spec
    assert "src/fast_kernels.hpp" not in render(app)
    assert not any("fast" in note for note in backend.Compiled().notes(app))

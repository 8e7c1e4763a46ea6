# SPDX-License-Identifier: Apache-2.0
"""Rendering: bytes of the generated tree, names out of models made safe, C++ that compiles and reports."""

from __future__ import annotations

import os
import random
import re
import shlex
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helpers.app_specs import DEFINES, app, compile_cxx, model, needs_gxx, own_sources, tensor, write
from tests.helpers.checkout import ROOT
from tests.helpers.command_line import Tool
from tests.helpers.hostile_names import HOSTILE
from tests.helpers.marks import rest_slow
from tests.helpers.model_builder import chain
from tflm_zephyr.boards.board import load_board
from tflm_zephyr.cli.main import build_parser
from tflm_zephyr.codegen.app_folder import owned
from tflm_zephyr.codegen.backends.interpreter_spec import CallSpec, ResolverSpec
from tflm_zephyr.codegen.escape import c_float
from tflm_zephyr.codegen.identifiers import identifier
from tflm_zephyr.codegen.rendering import render, render_starters, render_workflow
from tflm_zephyr.codegen.spec import AppSpec, ArenaSpec, GoldenSpec
from tflm_zephyr.device.console.records import RecordReader
from tflm_zephyr.device.console.result import RunResult
from tflm_zephyr.errors import AppError

# -- the tree ------------------------------------------------------------------------------------------------------


def test_the_same_spec_gives_the_same_bytes_in_order() -> None:
    files = render(app())
    assert list(files) == sorted(files)
    assert files == render(app())


def test_no_machine_path_no_date_no_tab_trouble() -> None:
    spec = app(model("a"), model("b"))
    for path, data in {**owned(render(spec)), **render_starters(spec)}.items():
        if path.endswith(".tflite"):
            continue
        text = data.decode("utf-8")
        assert str(ROOT) not in text and "/tmp" not in text and "/home" not in text, path
        assert text.endswith("\n") and "\r" not in text, path
        assert not re.search(r"[ \t]+$", text, re.M), f"{path}: trailing blanks"
        assert "\n\n\n" not in text, f"{path}: too many blank lines"


def test_every_generated_file_says_where_it_is_from() -> None:
    for path, data in {**owned(render(app())), **render_starters(app())}.items():
        assert path.startswith("boards/") or path.endswith(".tflite") or "tflm-zephyr" in data.decode(), path


def test_yaml_files_parse_whatever_names_hold() -> None:
    for text in HOSTILE.values():
        spec = app(model(name=text, golden_source=text), name="on")
        files = render_starters(spec)
        assert yaml.safe_load(files["sample.yaml"])["sample"]["name"] == "on"
        assert text in yaml.safe_load(files["sample.yaml"])["sample"]["description"]
        west = yaml.safe_load(files["west.yml"])["manifest"]
        assert west["projects"][0]["revision"] == "v4.1.0"
        assert west["projects"][0]["import"]["name-allowlist"] == ["cmsis", "tflite-micro"]
        assert west["group-filter"] == ["+optional"]


def test_sample_yaml_tells_runs_from_builds() -> None:
    spec = app(model("a"), model("b", golden=(), golden_source=""))
    tests = yaml.safe_load(render_starters(spec)["sample.yaml"])["tests"]
    run = tests["sample.tflm.app"]
    assert run["platform_allow"] == ["mps2/an385"]
    assert run["harness"] == "console"
    assert run["harness_config"]["regex"] == [
        "TFLM:begin .*model=a ",
        "TFLM:end status=pass ",
        "TFLM:begin .*model=b ",
        "TFLM:end status=none ",
    ]
    assert tests["sample.tflm.app.build"] == {"build_only": True, "platform_allow": ["nrf9160dk/nrf9160/ns"]}


def test_sample_yaml_of_boards_that_only_build() -> None:
    tests = yaml.safe_load(render_starters(app(boards=(load_board("some_board/soc"),)))["sample.yaml"])["tests"]
    assert tests == {"sample.tflm.app.build": {"build_only": True, "platform_allow": ["some_board/soc"]}}


def test_resolver_has_exactly_the_calls() -> None:
    text = render(app())["src/models/net.cpp"].decode()
    assert "tflite::MicroMutableOpResolver<2>" in text
    calls = re.findall(r"TF_LITE_ENSURE_STATUS\(resolver\.(.*)\);", text)
    assert calls == ["AddFullyConnected()", 'AddCustom("My", tflite::Register_MY())']


def test_resolver_of_no_operators() -> None:
    text = render(app(model(resolver=ResolverSpec(()))))["src/models/net.cpp"].decode()
    assert "tflite::MicroMutableOpResolver<1>" in text  # TFLM's arrays of N cannot be empty
    assert "ENSURE_STATUS" not in text


def test_models_of_one_app_each_have_their_own_resolver() -> None:
    one, two = model("one"), model("two", resolver=ResolverSpec((CallSpec("AddRelu()"),)))
    files = render(app(one, two))
    assert b"MicroMutableOpResolver<2>" in files["src/models/one.cpp"]
    assert b"MicroMutableOpResolver<1>" in files["src/models/two.cpp"]
    main = files["src/run.cpp"].decode()
    for ident in ("one", "two"):
        assert f'#include "models/{ident}.hpp"' in main
        assert f"models::{ident}::Init," in main
        assert f"src/models/{ident}.cpp" in files["app.cmake"].decode()
        assert f"config TFLM_APP_{ident.upper()}_ARENA_SIZE" in files["Kconfig"].decode()


def test_two_models_of_one_name_are_refused() -> None:
    with pytest.raises(AppError, match="same name"):
        render(app(model("a"), model("a")))


@pytest.mark.parametrize("suffix", ["data", "golden"])
def test_two_models_that_make_one_file_are_refused(suffix: str) -> None:
    with pytest.raises(AppError, match=rf"both make src/models/a_{suffix}\."):
        render(app(model("a"), model(f"a_{suffix}")))


def test_model_is_aligned_and_arena_says_where_its_size_is_from() -> None:
    spec = app(model(arena=ArenaSpec(2048, "measured", "smallest that ran")))
    files = render(spec)
    assert "\t.balign 16\n" in files["src/models/net_data.S"].decode()
    assert files["src/models/net.tflite"] == spec.models[0].runtime.data
    assert (
        "// Measured: smallest that ran\nconstexpr size_t kGeneratedArenaSize = 2048;"
        in files["src/models/net.cpp"].decode()
    )
    files = render(replace(spec, model_data="array"))
    assert "alignas(16) const uint8_t tflm_model_net[40]" in files["src/models/net_data.cpp"].decode()
    assert "src/models/net_data.cpp" in files["app.cmake"].decode()
    assert not {"src/models/net_data.S", "src/models/net.tflite"} & set(files)


def test_new_weights_touch_nothing_that_includes_tflm() -> None:
    old, new = (render(app(model(data=data, sha256=sha * 32))) for data, sha in ((b"a" * 40, "ab"), (b"b" * 40, "cd")))
    changed = {path for path in old if old[path] != new[path]}
    assert changed == {"src/models/net.tflite", "src/models/net_golden.cpp"}


def test_resource_variables_get_their_room() -> None:
    text = render(app(model(resource_variables=3)))["src/models/net.cpp"].decode()
    assert "MicroResourceVariables::Create(allocator, 3)" in text
    assert "allocator, variables, nullptr" in text
    assert "MicroResourceVariables" not in render(app())["src/models/net.cpp"].decode()


def test_board_files_go_into_boards() -> None:
    board = replace(load_board("mps2/an385"), files={"mps2_an385.conf": "CONFIG_X=y\n"})
    assert render_starters(app(boards=(board,)))["boards/mps2_an385.conf"] == b"CONFIG_X=y\n"


@pytest.mark.parametrize(("zephyr", "off"), [("4.1.0", True), ("4.1.1", True), ("4.1.99", False), ("4.4.1", False)])
def test_gpio_stays_where_the_pins_need_it(zephyr: str, off: bool) -> None:
    spec = app(boards=(load_board("mps2/an385"), load_board("nrf9160dk/nrf9160/ns")), zephyr__version=zephyr)
    files = render_starters(spec)
    assert (b"CONFIG_GPIO=n" in files["boards/mps2_an385.conf"]) == off
    assert b"no pins" not in files["boards/mps2_an385.conf"] or off
    assert b"CONFIG_ISR_STACK_SIZE" in files["boards/mps2_an385.conf"]
    assert b"CONFIG_GPIO=n" in files["boards/nrf9160dk_nrf9160_ns.conf"]


def test_missing_core_features_are_selected_by_board() -> None:
    assert "if BOARD_" not in render(app())["Kconfig"].decode()
    kconfig = render(app(boards=(load_board("mps2/an385"), load_board("mps2/an521/cpu0"))))["Kconfig"].decode()
    block = kconfig.split("if BOARD_MPS2_AN521_CPU0\n")[1].split("\nendif\n")[0]
    assert "select ARMV8_M_DSP\n" in block and "select CPU_HAS_FPU\n" in block
    assert 'default "-global sse-200.CPU0_DSP=on -global sse-200.CPU0_FPU=on"' in block
    assert kconfig.count("\nif BOARD_") == 1


def test_the_fpu_is_on_where_there_is_one() -> None:
    """An option is defined under its own condition: otherwise Kconfig would offer it everywhere."""
    kconfig = render(app())["Kconfig"].decode()
    assert "config FPU\n\tbool\n\tdepends on CPU_HAS_FPU\n\tdefault y\n" in kconfig


def test_zephyrs_own_library_is_taken_for_module() -> None:
    files = render(app(tflm__form="module", kernels=("cmsis_nn",)))
    kconfig = files["Kconfig"].decode()
    assert "config TENSORFLOW_LITE_MICRO\n\tbool\n\tdefault y\n" in kconfig
    assert "config TENSORFLOW_LITE_MICRO_CMSIS_NN_KERNELS\n" in kconfig
    assert "add_library(tflm" not in files["cmake/tflm.cmake"].decode()
    assert "DebugLog(" not in files["src/port.cpp"].decode()


def test_no_option_is_set_twice_in_prj_conf() -> None:
    names = re.findall(r"^(CONFIG_\w+)=", render_starters(app())["prj.conf"].decode(), re.M)
    assert len(names) == len(set(names))


# -- the generated C++ ---------------------------------------------------------------------------------------------


@needs_gxx
@pytest.mark.parametrize("standard", ["c++17", "gnu++17"])
def test_hostile_names_compile(tmp_path: Path, standard: str) -> None:
    """All of them at once, as tensor names, model names and sources of golden bytes."""
    texts = list(HOSTILE.values())
    tensors = tuple(tensor(text) for text in texts)
    models = tuple(
        model(f"m{i}", name=text, golden_source=text, inputs=tensors, outputs=tensors[::-1], golden=())
        for i, text in enumerate(texts)
    )
    files = render(app(*models, model_data="array"))
    folder = write(files, tmp_path)
    (folder / "all.cpp").write_text(
        "".join(f'#include "models/{m.ident}.hpp"\n#include "models/{m.ident}_data.cpp"\n' for m in models)
    )
    compile_cxx(folder, f"-std={standard}", "-trigraphs", "-fsyntax-only", "all.cpp")


@needs_gxx
@pytest.mark.parametrize(
    "name",
    rest_slow(
        [
            "sin",
            "errno",
            "std",
            "time",
            "index",
            "log",
            "signal",
            "linux",
            "size_t",
            "tensor",
            "self_test",
            "main",
            "k",
        ],
        3,
    ),
)
def test_models_may_be_called_what_the_c_library_calls_its_own(tmp_path: Path, name: str) -> None:
    spec = app(model(identifier(name)))
    folder = write(render(spec), tmp_path)
    everything = "".join(f"#include <{h}>\n" for h in ("cmath", "ctime", "cstring", "strings.h", "csignal", "cerrno"))
    body = "".join(f'#include "{path}"\n' for path in own_sources(spec))
    (folder / "all.cpp").write_text(everything + body)
    compile_cxx(folder, "-std=gnu++17", *DEFINES, "-fsyntax-only", "all.cpp")


@needs_gxx
def test_odd_shapes_compile(tmp_path: Path) -> None:
    """A scalar, an empty tensor, no inputs, no scale, several runs, no golden run."""
    scalar = tensor("s", 1, shape=(), scale=None)
    empty = tensor("e", 0)
    spec = app(
        model("a", inputs=(), outputs=(scalar,), golden=(GoldenSpec((), (b"\1",)), GoldenSpec((), (b"\2",)))),
        model("b", inputs=(empty,), outputs=(empty,), golden=(GoldenSpec((b"",), (b"",)),)),
        model("c", golden=(), golden_source=""),
    )
    folder = write(render(spec), tmp_path)
    for source in own_sources(spec):
        compile_cxx(folder, "-std=c++17", *DEFINES, "-fsyntax-only", source)


FAKE_MODEL = """
#include "models/net.hpp"
namespace models::net {
static int8_t in[4], out[70];
Status Init() { return INIT; }
Status Invoke() { for (int i = 0; i < 70; ++i) { out[i] = static_cast<int8_t>(i + OFFSET); } return Status::kOk; }
Status Reset() { return Status::kOk; }
Bytes InputBytes(size_t) { return {reinterpret_cast<uint8_t *>(in), 4}; }
Bytes OutputBytes(size_t) { return {reinterpret_cast<uint8_t *>(out), 70}; }
ArenaUse Arena() { return {1024, 500, 300}; }
}
"""


def run_self_test(tmp_path: Path, *, init: str = "Status::kOk", offset: int = 0, golden: bool = True) -> list[str]:
    spec = app() if golden else app(model(golden=(), golden_source=""))
    folder = write({**render(spec), **render_starters(spec)}, tmp_path)
    (folder / "fake.cpp").write_text(FAKE_MODEL)
    sources = [*own_sources(spec), "src/main.cpp", "fake.cpp"]
    compile_cxx(folder, "-std=c++17", *DEFINES, f"-DINIT={init}", f"-DOFFSET={offset}", *sources, "-o", "self_test")
    done = subprocess.run([folder / "self_test"], capture_output=True, text=True, check=True, timeout=20)
    return done.stdout.splitlines()


def parse_lines(lines: list[str]) -> list[RunResult]:
    reader = RecordReader("qemu")
    return [result for line in lines if (result := reader.feed(line)) is not None]


@needs_gxx
def test_the_self_tests_lines_are_what_the_reader_takes(tmp_path: Path) -> None:
    lines = run_self_test(tmp_path)
    (result,) = parse_lines(lines)
    assert (result.status, result.app, result.model, result.board) == ("pass", "app", "net", "mps2/an385")
    assert result.sha256 == "ab" * 8
    assert result.arena is not None
    assert (result.arena.size_bytes, result.arena.head_bytes, result.arena.tail_bytes) == (1024, 500, 300)
    (run,) = result.runs
    assert run.outputs[0].data == bytes(range(70))
    assert run.ticks == 1000 and run.hz == 25000000
    assert lines[-1] == "net: self-test passed"
    tests = yaml.safe_load(render_starters(app())["sample.yaml"])["tests"]
    regexes = tests["sample.tflm.app"]["harness_config"]["regex"]
    assert all(any(re.search(regex, line) for line in lines) for regex in regexes)  # what twister waits for


@needs_gxx
def test_people_read_dequantised_values(tmp_path: Path) -> None:
    """The app's own formatting, against Python's, to a unit of the last of its four decimals."""
    rng = random.Random(7)
    cases = [(rng.randrange(-128, 128), 10 ** rng.uniform(-6, 3), rng.randrange(-128, 128)) for _ in range(300)]
    cases += [(rng.randrange(-(2**31), 2**31), 10 ** rng.uniform(-9, 0), 0) for _ in range(100)]
    cases += [(1, 10 ** rng.uniform(-8, 9) * rng.choice((1, -1)), 0) for _ in range(100)]  # float outputs
    cases += [(0, 1.0, 0), (1, 0.0, 0), (1, 1.0, 1), (1, 1e-45, 0), (127, 0.99999, 0), (-128, 1.0, 127), (7, 1e30, 0)]
    folder = write(render(app()), tmp_path)
    calls = "".join(f'SayQuantized({q}, {c_float(s)}, {z}); Say("\\n");\n' for q, s, z in cases)
    (folder / "say.cpp").write_text(f'#include "report.hpp"\nint main() {{ using namespace tflm_app;\n{calls} }}\n')
    compile_cxx(folder, "-std=c++17", *DEFINES, "src/report.cpp", "say.cpp", "-o", "say")
    said = subprocess.run([folder / "say"], capture_output=True, text=True, check=True, timeout=20).stdout.split()
    assert said.pop() == "4294967295.9999"
    for (q, scale, zero), text in zip(cases, said, strict=False):
        exact = (q - zero) * struct.unpack("f", struct.pack("f", scale))[0]
        assert re.fullmatch(r"-?\d+\.\d{4}", text), text
        assert abs(float(text) - exact) <= 0.000051, (q, scale, zero, text)


@needs_gxx
def test_the_self_test_tells_a_wrong_output(tmp_path: Path) -> None:
    lines = run_self_test(tmp_path, offset=1)
    (result,) = parse_lines(lines)
    (check,) = result.runs[0].checks
    assert (result.status, check.result, check.first, check.got, check.want) == ("fail", "fail", 0, 1, 0)
    assert lines[-1] == "net: self-test FAILED"


@pytest.mark.slow
@needs_gxx
def test_the_self_test_without_a_reference(tmp_path: Path) -> None:
    lines = run_self_test(tmp_path, golden=False)
    (result,) = parse_lines(lines)
    assert result.status == "none" and result.runs[0].outputs[0].data == bytes(range(70))
    assert lines[-1] == "net: self-test has no reference"


# -- the workflow --------------------------------------------------------------------------------------------------


CIS = ("github", "gitlab")


def workflow(spec: AppSpec, folder: str = "apps/net", ci: str = "github") -> tuple[dict[str, Any], list[str]]:
    """The one job of the workflow, and the scripts of its steps."""
    parsed = yaml.safe_load(render_workflow(spec, folder, ci))
    if ci == "gitlab":
        ((name, job),) = parsed.items()
        assert name == f"tflm-{spec.name}"
        return job, [*job["before_script"], *job["script"]]
    assert parsed["name"] == spec.name
    job = parsed["jobs"]["app"]
    return job, [step["run"] for step in job["steps"] if "run" in step]


@pytest.mark.parametrize("ci", CIS)
@pytest.mark.parametrize("ncs", ["", "3.4.0"])
def test_workflow_builds_every_board_and_runs_what_can_run(ci: str, ncs: str) -> None:
    boards = tuple(map(load_board, ("nrf9160dk/nrf9160/ns", "mps2/an385", "mps2/an386")))
    _, scripts = workflow(app(boards=boards, name="null", zephyr__ncs=ncs), ci=ci)
    runs = "\n".join(scripts)
    for name in ("nrf9160dk/nrf9160/ns", "mps2/an385", "mps2/an386"):
        # The SDK's west builds with sysbuild unless told not to, in another folder.
        assert f"west build{' --no-sysbuild' if ncs else ''} -p -b {name} " in runs
    assert "west twister" in runs and "-p mps2/an385\n" in runs
    assert "-M mps2-an386" in runs
    for command in ("west packages pip --install", "west sdk install -t arm-zephyr-eabi", "west init -l manifest"):
        assert re.search(rf"^{command}$", runs, re.M)


@pytest.mark.parametrize("ci", CIS)
@pytest.mark.parametrize(("budget", "code", "ran"), [(True, 0, True), (True, 1, True), (False, 1, False)])
def test_a_budget_fails_the_job(tmp_path: Path, ci: str, budget: bool, code: int, ran: bool) -> None:
    """The shell of the step, with commands that record themselves."""
    (script,) = [script for script in workflow(app(), ci=ci)[1] if "tflm-zephyr budget" in script]
    for name, ends in (("pip", 0), ("tflm-zephyr", code)):
        tool = tmp_path / "bin" / name
        tool.parent.mkdir(exist_ok=True)
        tool.write_text(f'#!/bin/sh\necho {name} "$@" >> {tmp_path}/log\nexit {ends}\n')
        tool.chmod(0o755)
    folder = tmp_path / "my app"
    (folder).mkdir()
    (tmp_path / "build").mkdir()
    if budget:
        (folder / "budget.yaml").write_text("all: {ram: 1}")
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "APP": str(folder), "TFLM_ZEPHYR": "tflm-zephyr==1"}
    done = subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, env=env, check=False, capture_output=True)
    assert done.returncode == (code if ran else 0), done
    if ran:
        said = (tmp_path / "log").read_text()
        assert said == f"pip install tflm-zephyr==1\ntflm-zephyr budget {folder}\n"
        assert (folder / "build").resolve() == tmp_path / "build"


def test_the_manifest_of_an_app_for_the_nrf_connect_sdk() -> None:
    spec = app(zephyr__ncs="3.4.0", tflm__revision="a" * 40, tflm__cmsis_nn_revision="b" * 40)
    west = yaml.safe_load(render_starters(spec)["west.yml"])["manifest"]
    assert [(project["name"], project["revision"]) for project in west["projects"]] == [
        ("nrf", "v3.4.0"),
        ("tflite-micro", "a" * 40),
        ("cmsis-nn", "b" * 40),
    ]
    assert west["projects"][0]["import"] is True and west["projects"][0]["repo-path"] == "sdk-nrf"
    assert west["group-filter"] == ["+optional"]


@pytest.mark.parametrize("ci", CIS)
def test_the_workflows_report_is_made_of_commands(ci: str) -> None:
    spec = app(boards=(load_board("nrf9160dk/nrf9160/ns"), load_board("mps2/an385")))
    (script,) = (text for text in workflow(spec, ci=ci)[1] if "report.html" in text)
    lines = [line.partition(">")[0] for line in script.splitlines() if line.strip().startswith("tflm-zephyr")]
    parsed = [build_parser("tflm-zephyr").parse_args(shlex.split(line)[1:]) for line in lines]
    made = [args.tflm_command for args in parsed]
    assert made == ["footprint", "footprint", "report", "report", "report", "report"]
    assert [args.board for args in parsed[:2]] == ["nrf9160dk/nrf9160/ns", "mps2/an385"]
    assert parsed[4].compare and all(args.markdown for args in parsed[4:])


@pytest.mark.slow
@pytest.mark.parametrize("ci", CIS)
@pytest.mark.parametrize("before", [False, True])
def test_the_workflows_report_is_kept_and_shown(
    tool: Tool, tmp_path: Path, model_file: Path, ci: str, before: bool
) -> None:
    """The shell of the step: the page, the summary, and the baseline of the next run."""
    assert tool("generate", model_file, "-o", tmp_path / "net", "-b", "mps2/an385").code == 0
    spec = app(boards=(load_board("mps2/an385"),))
    (script,) = (text for text in workflow(spec, ci=ci)[1] if "report.html" in text)
    script = re.sub(r"^pip install.*\n", "", script, flags=re.M)
    script = re.sub(r"^tflm-zephyr footprint.*\n", "", script, flags=re.M).replace("../builds/*.json", "")
    script = script.replace("tflm-zephyr", f"{shlex.quote(sys.executable)} -m tflm_zephyr")
    (tmp_path / "workspace").mkdir()
    env = {**os.environ, "APP": str(tmp_path / "net"), "PYTHONPATH": str(ROOT), "GITHUB_STEP_SUMMARY": "../shown.md"}
    for _ in range(1 + before):
        done = subprocess.run(
            ["sh", "-e", "-c", script], cwd=tmp_path / "workspace", env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    summary = (tmp_path / "report" / "summary.md").read_text()
    shown = done.stdout if ci == "gitlab" else (tmp_path / "shown.md").read_text()
    assert shown.endswith(summary) and summary.startswith("#")
    kept = (tmp_path / "baseline" / "documents.json").read_bytes()
    assert kept == (tmp_path / "report" / "documents.json").read_bytes()
    assert (tmp_path / "report" / "report.html").read_text().startswith("<!doctype html>")
    assert ("nothing changed" in summary.lower()) is before


@pytest.mark.parametrize("folder", ["apps/net", "my apps/ne: t # 'x'", "größe", 'a"b'])
def test_workflow_takes_any_folder(folder: str) -> None:
    assert workflow(app(), folder)[0]["env"]["APP"] == f"${{{{ github.workspace }}}}/repository/{folder}"
    assert workflow(app(), folder, "gitlab")[0]["variables"]["APP"] == f"$CI_PROJECT_DIR/{folder}"


@pytest.mark.parametrize(
    ("ends", "good"),
    [
        (["pass", "pass"], True),
        (["pass", "none"], True),
        (["pass", "fail"], False),
        (["fail", "pass"], False),
        (["pass"], False),
    ],
)
def test_workflows_qemu_step_fails_when_a_self_test_does(tmp_path: Path, ends: list[str], good: bool) -> None:
    """The shell of the step for a board that twister cannot run, with a QEMU that hangs after its output."""
    spec = app(model("a"), model("b"), boards=(load_board("mps2/an386"),))
    scripts = [script for ci in CIS for script in workflow(spec, ci=ci)[1] if "-M mps2-an386" in script]
    assert len(scripts) == len(CIS)
    (script,) = {script.strip() for script in scripts}
    qemu = tmp_path / "bin" / "qemu-system-arm"
    qemu.parent.mkdir()
    lines = "".join(f"TFLM:begin\\nTFLM:end status={status} records=9\\n" for status in ends)
    hang = "sleep 900" if len(ends) == 2 else ""
    qemu.write_text(f"#!/bin/sh\nprintf '{lines}'\nexec {hang or 'true'}\n")
    qemu.chmod(0o755)
    env = {**os.environ, "PATH": f"{qemu.parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-e", "-c", script], cwd=tmp_path, env=env, timeout=200, check=False, capture_output=True
    )
    assert (done.returncode == 0) is good, done


def test_golden_data_of_the_json_and_the_array_agree() -> None:
    """The array in the source has the bytes of the model file."""
    data = chain()
    text = render(app(model(data=data), model_data="array"))["src/models/net_data.cpp"].decode()
    assert bytes(int(item, 16) for item in re.findall(r"0x([0-9a-f]{2}),", text)) == data
    assert f"tflm_model_net[{len(data)}]" in text

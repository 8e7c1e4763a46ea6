# SPDX-License-Identifier: Apache-2.0
"""Generated apps on real Zephyr: built by west, run in QEMU, compared with the reference byte for byte."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.architectures import dense_chain
from tests.helpers.checkout import ROOT
from tests.helpers.zephyr_apps import Tool, build_and_run, check_results, generate_app
from tflm_zephyr.build.workspace import Workspace
from tflm_zephyr.codegen.app_folder import AppManifest

pytestmark = [pytest.mark.zephyr, pytest.mark.usefixtures("workspace")]

SAMPLES = {name: ROOT / "samples" / name / "app.yaml" for name in ("hello_world", "digits")}


@pytest.mark.parametrize(
    ("sample", "board"),
    [
        ("hello_world", "mps2/an385"),
        ("digits", "mps2/an385"),
        ("digits", "mps2/an386"),
        ("digits", "mps2/an521/cpu0"),
    ],
)
def test_sample_in_qemu(tool: Tool, apps: Path, workspace: Workspace, sample: str, board: str) -> None:
    app = generate_app(tool, apps, sample, "--app", SAMPLES[sample])
    results = build_and_run(tool, app, board)
    check_results(results, app, board, workspace.tflm_revision)
    few = sample == "hello_world"  # 288 products: no work for CMSIS-NN
    assert {result["kernels"] for result in results} == {"reference" if few else "cmsis_nn"}
    config = (app / "build" / board.replace("/", "_") / "zephyr" / ".config").read_text().splitlines()
    assert ("CONFIG_FPU=y" in config) == (board != "mps2/an385")
    assert ("CONFIG_ARMV8_M_DSP=y" in config) == (board == "mps2/an521/cpu0")


@pytest.mark.parametrize("kernels", ["reference", "auto"])
@pytest.mark.parametrize("model", ["person_detect", "kws_ref_model"])
def test_stock_model_in_qemu(
    tool: Tool, apps: Path, workspace: Workspace, shared: Path, model: str, kernels: str
) -> None:
    path, board = shared / "models" / f"{model}.tflite", "mps2/an385"
    app = generate_app(tool, apps, f"{model}_{kernels}", path, "-b", board, "--kernels", kernels)
    built = tool("build", app, "--board", board, as_json=True)
    results = tool("run", app, "--board", board, as_json=True)["results"]
    check_results(results, app, board, workspace.tflm_revision)
    library = "cmsis_nn" if kernels == "auto" else kernels
    assert results[0]["kernels"] == built["kernels"]["asked"] == library
    fell_back = {row["operator"] for row in built["kernels"]["operators"] if row["fell_back"]}
    assert fell_back == ({"RESHAPE"} if library == "cmsis_nn" else set())  # for which TFLM has no CMSIS-NN kernel
    assert ("_INT8()" in (app / "tflm" / "src" / "models" / f"{model}.cpp").read_text()) == (library == "cmsis_nn")


def test_an_app_for_cores_of_both_kinds(tool: Tool, apps: Path, workspace: Workspace) -> None:
    """Both lists of sources link, and Kconfig chooses; on the same board, as there is no compiler for the other."""
    board = "mps2/an385"
    app = generate_app(tool, apps, "both_kinds", "--app", SAMPLES["digits"], "-b", board, "-b", "qemu_riscv32")
    option = "CONFIG_TFLM_APP_CMSIS_NN"
    for library in ("cmsis_nn", "reference"):
        if library == "reference":
            (app / "prj.conf").write_text((app / "prj.conf").read_text() + f"{option}=n\n")
        results = build_and_run(tool, app, board)
        check_results(results, app, board, workspace.tflm_revision)
        assert results[0]["kernels"] == library
        config = (app / "build" / "mps2_an385" / "zephyr" / ".config").read_text().splitlines()
        assert (f"{option}=y" in config) == (library == "cmsis_nn")


def test_offline_plan_in_qemu(tool: Tool, apps: Path, workspace: Workspace, tmp_path: Path) -> None:
    """A model on which packing beats TFLM's own placing: the device follows the plan and gives the same bytes."""
    model = tmp_path / "dense.tflite"
    model.write_bytes(dense_chain([96, 64, 64, 128, 32]))
    app = generate_app(tool, apps, "dense", model, "-b", "mps2/an385")
    made = tool("generate", "-o", app, as_json=True)["models"][0]
    assert made["offline_plan"]
    assert made["head"]["head_bytes"] < made["head"]["greedy_bytes"]
    results = build_and_run(tool, app, "mps2/an385")
    check_results(results, app, "mps2/an385", workspace.tflm_revision)
    assert results[0]["arena"]["head_bytes"] == made["head"]["head_bytes"]


def test_two_models_in_one_app(tool: Tool, apps: Path, workspace: Workspace) -> None:
    models = [ROOT / "samples" / name / f"{name}.tflite" for name in ("hello_world", "digits")]
    app = generate_app(tool, apps, "both", *models, "-b", "mps2/an385")
    results = build_and_run(tool, app, "mps2/an385")
    check_results(results, app, "mps2/an385", workspace.tflm_revision)
    assert [result["model"] for result in results] == ["hello_world", "digits"]


def test_a_wrong_output_fails(tool: Tool, apps: Path) -> None:
    """The negative control: one wrong reference byte, and the device and the tool both say so."""
    app = generate_app(tool, apps, "wrong", "--app", SAMPLES["hello_world"], "-b", "mps2/an385")
    golden = app / "tflm" / "src" / "models" / "hello_world_golden.cpp"
    head, array = golden.read_text().split("// Run 0, output\n", 1)
    first = int(re.findall(r"0x(..)", array)[0], 16)
    golden.write_text(f"{head}{array.replace(f'0x{first:02x}', f'0x{first ^ 1:02x}', 1)}")
    tool("build", app, "--board", "mps2/an385")
    said = tool("run", app, "--board", "mps2/an385", code=1)
    assert "self-test FAILED" in said
    assert f"differs from the reference at byte 0: {first}, not {first ^ 1}" in said


def test_an_arena_too_small_is_one_line(tool: Tool, apps: Path) -> None:
    app = generate_app(tool, apps, "small", "--app", SAMPLES["digits"], "-b", "mps2/an385", "--arena", "4096")
    tool("build", app, "--board", "mps2/an385")
    said = tool("run", app, "--board", "mps2/an385", code=1)
    assert "AllocateTensors failed" in said
    assert said.count("\n") == 1


def test_results_and_faults_come_through_with_logging_on(tool: Tool, apps: Path, workspace: Workspace) -> None:
    """Zephyr's deferred log must neither swallow records nor what is said of a fault."""
    board = "mps2/an385"
    app = generate_app(tool, apps, "logging", "--app", SAMPLES["digits"], "-b", board)
    (app / "boards").mkdir(exist_ok=True)
    (app / "boards" / "mps2_an385.conf").write_text("CONFIG_LOG=y\n")
    check_results(build_and_run(tool, app, board), app, board, workspace.tflm_revision)
    main = app / "src" / "main.cpp"
    main.write_text("#include <zephyr/kernel.h>\nint main()\n{\n\tk_oops();\n}\n")
    tool("build", app, "--board", board)
    said = tool("run", app, "--board", board, "--timeout", "20", code=1)
    assert said.count("\n") == 1
    assert "fatal" in said.lower()


@pytest.mark.slow
def test_zephyrs_own_tflite_micro_library(tool: Tool, apps: Path, workspace: Workspace) -> None:
    """`--tflm module`: every kernel is compiled, which takes minutes without ccache."""
    board = "mps2/an385"
    app = generate_app(tool, apps, "module", "--app", SAMPLES["hello_world"], "-b", board, "--tflm", "module")
    check_results(build_and_run(tool, app, board), app, board, workspace.tflm_revision)


@pytest.mark.parametrize("sample", ["hello_world", "digits"])
def test_builds_for_the_dk_with_tfm(tool: Tool, apps: Path, sample: str) -> None:
    board = "nrf9160dk/nrf9160/ns"
    app = generate_app(tool, apps, sample, "--app", SAMPLES[sample])
    built = tool("build", app, "--board", board, as_json=True)
    regions = {region["name"]: region for region in built["footprint"]}
    assert regions["FLASH"]["size_bytes"] == 192 * 1024
    assert all(0 < region["used_bytes"] <= region["size_bytes"] for region in regions.values())
    assert (Path(built["elf"]).parent / "tfm_merged.hex").is_file()


def test_plain_west_builds_it(tool: Tool, apps: Path, workspace: Workspace) -> None:
    """`west build` alone: nothing of the toolkit is on the way."""
    from tflm_zephyr.build.toolchain import detect_toolchain
    from tflm_zephyr.build.west import build_env

    app = generate_app(tool, apps, "hello_world", "--app", SAMPLES["hello_world"])
    toolchain = detect_toolchain()
    env = {key: value for key, value in build_env(workspace, toolchain).items() if key != "PYTHONPATH"}
    argv = [sys.executable, "-P", "-m", "west"] if sys.version_info >= (3, 11) else ["west"]
    argv += ["build", "-b", "mps2/an385", "-d", str(apps / "plain"), str(app), "--", *toolchain.cmake_args]
    subprocess.run(argv, cwd=workspace.topdir, env=env, check=True, capture_output=True)
    assert (apps / "plain" / "zephyr" / "zephyr.elf").is_file()


def test_twister_passes_with_the_full_core_of_the_an521_too(
    tool: Tool, apps: Path, workspace: Workspace, tmp_path: Path
) -> None:
    from tflm_zephyr.build.toolchain import detect_toolchain
    from tflm_zephyr.build.west import build_env

    app = generate_app(tool, apps, "digits", "--app", SAMPLES["digits"])
    toolchain = detect_toolchain()
    argv = [sys.executable, "-m", "west", "twister", "-T", str(app), "-O", str(tmp_path / "out")]
    for board in ("mps2/an385", "mps2/an521/cpu0"):
        argv += ["-p", board]
    argv += [f"-x={arg.removeprefix('-D')}" for arg in toolchain.cmake_args]
    done = subprocess.run(
        argv, cwd=workspace.topdir, env=build_env(workspace, toolchain), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    report = json.loads((tmp_path / "out" / "twister.json").read_text())
    ran = {suite["platform"]: suite["status"] for suite in report["testsuites"] if suite["status"] != "filtered"}
    assert sorted(ran) == ["mps2/an385", "mps2/an521/cpu0"] and set(ran.values()) == {"passed"}
    assert os.environ.get("ZEPHYR_BASE")


def test_manifest_is_of_this_workspace(tool: Tool, apps: Path, workspace: Workspace) -> None:
    app = generate_app(tool, apps, "digits", "--app", SAMPLES["digits"])
    from tflm_zephyr.codegen.app_folder import load_manifest

    manifest: AppManifest = load_manifest(app)
    assert manifest.zephyr_version == workspace.zephyr_version
    assert manifest.tflm_revision == workspace.tflm_revision

# SPDX-License-Identifier: Apache-2.0
"""The desk's commands on real Zephyr in QEMU: equal outputs, or the operator that differs is named."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.fakes.bridge import PtyBridge
from tests.helpers.checkout import ROOT
from tests.helpers.zephyr_apps import Tool
from tflm_zephyr.boards.board import load_board
from tflm_zephyr.build.workspace import Workspace
from tflm_zephyr.device.transport.qemu import QemuLink
from tflm_zephyr.model.reader import load_model
from tflm_zephyr.model.writer import with_offline_plan
from tflm_zephyr.tensors.dataset import load_dataset
from tflm_zephyr.validation.accuracy import evaluate_host

pytestmark = [pytest.mark.zephyr, pytest.mark.usefixtures("workspace")]

BOARD = "mps2/an385"
PATIENT = ("--reply-timeout", "120")  # the machine may have other builds to do
DIGITS = ROOT / "samples" / "digits"
HELD_OUT = DIGITS / "test.npz"


def link_app(tool: Tool, apps: Path, name: str, *models: Path, kernels: str = "auto", **more: object) -> Path:
    """An app that answers a host, generated for QEMU's board, not yet built."""
    app, described = apps / name, apps / f"{name}.yaml"
    entries = [{"model": str(model), **more} for model in models]
    plain = {"name": name, "boards": [BOARD], "kernels": kernels, "host_link": True, "models": entries}
    described.write_text(yaml.safe_dump(plain))
    tool("generate", "--app", described, "-o", app)
    return app


def built(tool: Tool, apps: Path, name: str, *models: Path, kernels: str = "auto") -> Path:
    """The same, built; what another test has built is taken."""
    if not (apps / name / "build" / "mps2_an385" / "zephyr" / "zephyr.elf").is_file():
        tool("build", link_app(tool, apps, name, *models, kernels=kernels), "--board", BOARD)
    return apps / name


@pytest.fixture(scope="module")
def digits(tool: Tool, apps: Path) -> Path:
    """The sample, built."""
    return built(tool, apps, "digits_link", DIGITS / "digits.tflite")


def test_infer_reads_digits(tool: Tool, digits: Path) -> None:
    found = tool("infer", *PATIENT, "--app", digits, HELD_OUT, "--labels", DIGITS / "labels.txt", as_json=True)
    with np.load(HELD_OUT) as data:
        right = [a["label"] == str(y) for a, y in zip(found["answers"], data["y"], strict=True)]
    assert len(right) == 450 and sum(right) > 430
    assert found["instructions_per_tick"] == 40 and all(answer["ticks"] > 0 for answer in found["answers"])


def test_evaluation_equals_litert_with_any_number_of_jobs(tool: Tool, digits: Path, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    want = evaluate_host((DIGITS / "digits.tflite").read_bytes(), load_dataset(HELD_OUT), engine="litert")
    one = tool("evaluate", *PATIENT, HELD_OUT, "--app", digits, "--resume", tmp_path / "kept.json", as_json=True)
    two = tool("evaluate", *PATIENT, HELD_OUT, "--app", digits, "--jobs", "2", as_json=True)
    assert one["predictions"] == two["predictions"] == list(want.predictions)
    assert one["confusion"] == two["confusion"] and one["accuracy"] == want.accuracy
    assert one["ticks"]["mean"] > 0 and one["ticks"]["p99"] >= one["ticks"]["mean"]
    again = tool("evaluate", *PATIENT, HELD_OUT, "--app", digits, "--resume", tmp_path / "kept.json", as_json=True)
    assert again == one


@pytest.mark.parametrize("kernels", ["reference", "cmsis_nn"])
@pytest.mark.parametrize("model", ["hello_world", "digits", "kws_ref_model", "person_detect"])
def test_verify_byte_for_byte(tool: Tool, apps: Path, request: pytest.FixtureRequest, model: str, kernels: str) -> None:
    if model in ("hello_world", "digits"):
        path = ROOT / "samples" / model / f"{model}.tflite"
    else:
        path = request.getfixturevalue("shared") / "models" / f"{model}.tflite"
    app = built(tool, apps, f"{model}_{kernels}_link", path, kernels=kernels)
    found = tool("verify", *PATIENT, "--app", app, "--random", "3", as_json=True)
    assert found["kernels"] == kernels and found["passed"] and found["equal"] == 3


def test_photographs(tool: Tool, apps: Path, shared: Path, tmp_path: Path) -> None:
    app = built(
        tool, apps, "person_detect_cmsis_nn_link", shared / "models" / "person_detect.tflite", kernels="cmsis_nn"
    )
    (tmp_path / "labels.txt").write_text("no person\nperson\n")
    pictures = [shared / "inputs" / f"{name}.bmp" for name in ("person", "no_person")]
    asked = ("--app", app, "--raw", "--labels", tmp_path / "labels.txt", *pictures)
    found = tool("infer", *PATIENT, *asked, as_json=True)
    assert [answer["label"] for answer in found["answers"]] == ["person", "no person"]


def test_recordings_through_two_models_of_one_app(tool: Tool, apps: Path, shared: Path, tmp_path: Path) -> None:
    models = [shared / "models" / f"{name}.tflite" for name in ("micro_speech_quantized", "audio_preprocessor_int8")]
    app = built(tool, apps, "speech_link", *models)
    (tmp_path / "labels.txt").write_text("silence\nunknown\nyes\nno\n")
    sounds = [shared / "inputs" / f"{name}_1000ms.wav" for name in ("yes", "no")]
    asked = ("--app", app, "--model", "micro_speech_quantized", "--labels", tmp_path / "labels.txt", "--stride", "320")
    there = tool("infer", *PATIENT, *asked, "--frontend", "audio_preprocessor_int8", *sounds, as_json=True)
    assert [answer["label"] for answer in there["answers"]] == ["yes", "no"]
    here = tool("infer", *PATIENT, *asked, "--frontend", models[1], *sounds, as_json=True)
    assert [a["outputs"] for a in here["answers"]] == [a["outputs"] for a in there["answers"]]


def test_a_plan_that_is_wrong_names_the_operator(tool: Tool, apps: Path) -> None:
    app = link_app(tool, apps, "bad_plan", DIGITS / "digits.tflite", arena=32768)
    carried = app / "tflm" / "src" / "models" / "digits.tflite"
    model = load_model(carried)
    offsets = list(model.offline_plan or [-1] * model.tensor_count)
    second = model.main.operators[1]
    fed = second.inputs[0]
    offsets[fed], offsets[second.outputs[0]] = 0, 16  # its outputs fall into what it still has to read
    carried.write_bytes(with_offline_plan(model, offsets))
    tool("build", app, "--board", BOARD)
    found = tool("verify", *PATIENT, "--app", app, "--random", "2", code=1)
    assert "DIFFERS" in found and f"first operator that differs: operator 1 ({second.key})" in found
    assert f"over tensor {fed} " in found


def test_a_kernel_that_is_wrong_names_the_operator(tool: Tool, apps: Path, workspace: Workspace) -> None:
    app = link_app(tool, apps, "bad_kernel", DIGITS / "digits.tflite", kernels="reference")
    assert workspace.tflm_dir is not None
    source = "tensorflow/lite/micro/kernels/pooling.cc"
    right = (workspace.tflm_dir / source).read_text()
    call = re.findall(r"MaxPoolingEvalQuantized<int8_t>\(.*?\);", right, re.S)
    assert len(call) == 1
    wrong = app / "wrong_pooling.cc"
    wrong.write_text(right.replace(call[0], f"{call[0]}\n micro::GetTensorData<int8_t>(output)[5] ^= 64;"))
    listed = app / "tflm" / "cmake" / "tflm.cmake"
    text = listed.read_text()
    assert text.count(f"  {source}\n") == 1
    listed.write_text(text.replace(f"  {source}\n", f"  {os.path.relpath(wrong, workspace.tflm_dir)}\n"))
    tool("build", app, "--board", BOARD)
    found = tool("verify", *PATIENT, "--app", app, "--random", "4", code=1, as_json=True)
    culprit = found["failure"]["operator"]
    assert (culprit["index"], culprit["name"]) == (3, "MAX_POOL_2D")
    assert culprit["difference"] | {"got": 0, "want": 0} == {
        "differing": 1, "elements": 384, "at": [0, 0, 0, 5], "got": 0, "want": 0, "largest": 64.0,
        "largest_real": culprit["difference"]["largest_real"],
    }  # fmt: skip
    assert [entry["source"] for entry in culprit["inputs"]] == ["operator 2 (CONV_2D)"]


def test_profiles_repeat_and_gate(tool: Tool, digits: Path, tmp_path: Path) -> None:
    base, trace = tmp_path / "base.json", tmp_path / "trace.json"
    tool("profile", *PATIENT, "--app", digits, "--runs", "3", "-o", base, "--trace", trace)
    found = tool(
        "profile", *PATIENT, "--app", digits, "--runs", "3", "--baseline", base, "--max-regression", "1%", as_json=True
    )
    assert found["unit"] == "instructions" and found["resolution"] == 40
    assert not any(change["slower"] for change in found["changes"])
    assert all(cost["median"] % 40 == 0 for cost in found["operators"])
    faster = json.loads(base.read_text())
    faster["operators"][0]["median"] //= 2
    (tmp_path / "faster.json").write_text(json.dumps(faster))
    said = tool("profile", *PATIENT, "--app", digits, "--runs", "3", "--baseline", tmp_path / "faster.json", code=1)
    assert "SLOWER than the baseline by more than 2 %: operator 0 (" in said
    assert json.loads(trace.read_text())["traceEvents"]


def test_five_lines_inside_twisters_harness(digits: Path, tmp_path: Path) -> None:
    harness = Path(os.environ["ZEPHYR_BASE"]) / "scripts" / "pylib" / "pytest-twister-harness" / "src"
    if not harness.is_dir():
        pytest.skip("no pytest-twister-harness in this Zephyr")
    (tmp_path / "test_digits.py").write_text(
        "import numpy as np\n\n"
        "def test_the_first_digit(tflm):\n"
        f"    data = np.load({str(HELD_OUT)!r})\n"
        "    assert tflm(data['x'][0]).argmax() == data['y'][0]\n"
    )
    build = digits / "build" / "mps2_an385"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "twister_harness.plugin", "-p", "tflm_zephyr.pytest_plugin",
         "--twister-harness", f"--build-dir={build}", "--device-type=qemu", f"--platform={BOARD}", "test_digits.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{harness}{os.pathsep}{ROOT}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


@pytest.mark.parametrize(
    ("accepter", "url"),
    [("tcp", "socket://localhost:{}"), ("telnet(rfc2217),tcp", "rfc2217://localhost:{}?ign_set_control")],
)
def test_a_board_behind_ser2net(tool: Tool, digits: Path, accepter: str, url: str) -> None:
    program = shutil.which("ser2net") or shutil.which("ser2net", path="/usr/sbin")
    if program is None:
        pytest.skip("needs ser2net")
    spec = load_board(BOARD).qemu
    assert spec is not None
    elf = digits / "build" / "mps2_an385" / "zephyr" / "zephyr.elf"
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
    with PtyBridge(QemuLink(spec, elf)) as bridge:
        lines = ("connection: &dk1", f"  accepter: {accepter},localhost,{port}",
                 f"  connector: serialdev,{bridge.port},115200n81,local")  # fmt: skip
        argv = [program, "-d", "-u", *(part for line in lines for part in ("-Y", line))]
        with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
            try:
                _wait_for(port)
                found = tool(
                    "verify", *PATIENT, "--app", digits, "--port", url.format(port), "--random", "3", as_json=True
                )
            finally:
                child.kill()
    assert found["passed"] and found["equal"] == 3


def _wait_for(port: int) -> None:
    ends = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("localhost", port), timeout=1).close()
            time.sleep(0.3)  # it lets go of the port before it takes the next client
            return
        except OSError:
            assert time.monotonic() < ends, "ser2net does not listen"
            time.sleep(0.1)

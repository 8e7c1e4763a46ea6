# SPDX-License-Identifier: Apache-2.0
"""Apps with a host link on real Zephyr in QEMU: the same bytes as the reference, operator by operator."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.zephyr_apps import Tool
from tflm_zephyr.device.session.opening import open_session
from tflm_zephyr.device.transport.target import DeviceTarget
from tflm_zephyr.errors import DeviceError
from tflm_zephyr.model import load_model

pytestmark = [pytest.mark.zephyr, pytest.mark.usefixtures("workspace")]

BOARD = "mps2/an385"
SAMPLES = ROOT / "samples"


@pytest.fixture(scope="module", params=["hello_world", "digits", "digits-compiled"])
def app(request: pytest.FixtureRequest, tool: Tool, apps: Path) -> Path:
    """A sample with the link, built."""
    name, _, backend = request.param.partition("-")
    folder = apps / f"link_{name}{backend}"
    flags = ("--backend", backend) if backend else ()
    tool("generate", "--app", SAMPLES / name / "app.yaml", "-o", folder, "--host-link", *flags)
    tool("build", folder, "--board", BOARD, "-D", "CONFIG_INIT_STACKS=y", "-D", "CONFIG_THREAD_STACK_INFO=y")
    return folder


def golden_of(app: Path) -> list[dict[str, list[str]]]:
    (path,) = (app / "tflm" / "golden").glob("*.json")
    raw: dict[str, Any] = json.loads(path.read_text())
    runs: list[dict[str, list[str]]] = raw["runs"]
    return runs


def test_hello_says_what_was_built(app: Path) -> None:
    with open_session(DeviceTarget(app=app, board=BOARD)) as session:
        hello = session.hello
        model = SAMPLES / hello.model / f"{hello.model}.tflite"
        assert hashlib.sha256(model.read_bytes()).hexdigest().startswith(hello.sha256)
        assert len(hello.sha256) == 16
        assert (hello.device.app, hello.models) == (hello.model, (hello.model,))
        assert hello.device.board.startswith(BOARD)
        assert hello.device.zephyr == "4.1.0"
        assert (hello.instructions_per_tick, hello.device.hz) == (40, 25_000_000)
        assert hello.operators
        # Compiled code's constants are no tensors of the arena.
        held = load_model(model).main.tensors if "compiled" in app.name else ()
        constants = {tensor.index for tensor in held if tensor.is_constant}
        assert {tensor.index for tensor in hello.tensors if not tensor.bytes} <= constants
        assert 0 < hello.arena.used_bytes <= hello.arena.size_bytes


def test_outputs_and_captures_are_those_of_the_reference(app: Path) -> None:
    with open_session(DeviceTarget(app=app, board=BOARD)) as session:
        ticks = set()
        for run in golden_of(app)[:3]:
            inputs = [bytes.fromhex(data) for data in run["inputs"]]
            wanted = tuple(bytes.fromhex(data) for data in run["outputs"])
            session.reset()
            invocation = session.invoke(inputs)
            assert invocation.outputs == wanted
            ticks.add(invocation.ticks)
            captured = session.capture(inputs)
            assert captured.outputs == wanted
            assert [found.operator for found in captured.operators] == list(range(len(session.hello.operators)))
            last = session.hello.outputs[0]
            assert captured.operators[-1].tensor == last.index
            assert captured.operators[-1].data == wanted[0]
        assert min(ticks) > 0
        link = session.memory().link
        assert (link.damaged, link.doubled) == (0, 0)


def test_profiles_repeat_and_add_up(app: Path) -> None:
    with open_session(DeviceTarget(app=app, board=BOARD)) as session:
        inputs = [bytes.fromhex(data) for data in golden_of(app)[0]["inputs"]]
        whole = session.invoke(inputs).ticks
        profile = session.profile(inputs, 3)
        assert profile.names == tuple(operator.name for operator in session.hello.operators)
        for run in profile.ticks:
            assert all(run)
            assert 0.5 * whole < sum(run) <= 1.05 * whole
        # The clock's interrupt falls on one operator or another.
        for ticks in zip(*profile.ticks, strict=True):
            assert max(ticks) - min(ticks) <= 40


def test_stacks_suffice(app: Path) -> None:
    with open_session(DeviceTarget(app=app, board=BOARD)) as session:
        inputs = [bytes.fromhex(data) for data in golden_of(app)[0]["inputs"]]
        session.capture(inputs)
        stacks = session.memory().stacks
        assert stacks is not None
        assert 0 < stacks.main_used_bytes * 9 / 8 <= stacks.main_bytes
        assert 0 < stacks.isr_used_bytes * 3 / 2 <= stacks.isr_bytes


def test_a_recording_answers_without_a_device(app: Path, tmp_path: Path) -> None:
    inputs = [bytes.fromhex(data) for data in golden_of(app)[0]["inputs"]]
    record = tmp_path / "session.jsonl"
    with open_session(DeviceTarget(app=app, board=BOARD), record=record) as session:
        hello, invocation = session.hello, session.invoke(inputs)
    with open_session(DeviceTarget(recording=record)) as session:
        assert session.hello.operators == hello.operators
        assert session.hello.instructions_per_tick == 40
        assert session.invoke(inputs) == invocation
        with pytest.raises(DeviceError, match="the recording ends before this write"):
            session.capture(inputs)


def test_an_app_without_the_link_does_not_grow_and_says_so(tool: Tool, apps: Path) -> None:
    folder = apps / "no_link"
    tool("generate", "--app", SAMPLES / "hello_world" / "app.yaml", "-o", folder)
    assert not (folder / "tflm" / "src" / "link").exists()
    tool("build", folder, "--board", BOARD)
    elf = folder / "build" / "mps2_an385" / "zephyr" / "zephyr.elf"
    target = DeviceTarget(elf=elf, board=BOARD, reply_timeout_s=3.0)
    with pytest.raises(DeviceError, match="runs its self-test and has no host link"), open_session(target):
        pass


def test_the_link_can_be_left_out_of_an_app_that_has_it(app: Path, tool: Tool) -> None:
    folder = app / "build" / "off"
    tool("build", app, "--board", BOARD, "--build-dir", folder, "-D", "CONFIG_TFLM_APP_HOST_LINK=n")
    (result,) = tool("run", app, "--board", BOARD, "--build-dir", folder, as_json=True)["results"]
    assert result["status"] == "pass"

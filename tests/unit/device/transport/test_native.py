# SPDX-License-Identifier: Apache-2.0
"""native_sim's transport against scripted programs, and against the device's code behind a pipe."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.fakes.records import BANNER, as_bytes, self_test
from tests.helpers.self_tests import gather_result
from tflm_zephyr.device.session.opening import open_session
from tflm_zephyr.device.transport.link import LinkEndedError, Opened
from tflm_zephyr.device.transport.native import NativeLink
from tflm_zephyr.device.transport.routing import route
from tflm_zephyr.device.transport.target import DeviceTarget
from tflm_zephyr.errors import DeviceError


def program(build_dir: Path, script: str) -> Path:
    """A build folder's zephyr.exe that runs `script`."""
    path = build_dir / "zephyr" / "zephyr.exe"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_a_build_folder_for_native_sim_leads_there(tmp_path: Path) -> None:
    (tmp_path / "output").write_bytes(as_bytes([BANNER, *self_test((b"\x01\x02",))]))
    path = program(tmp_path, f"cat {tmp_path}/output; exec sleep 60")
    for board in ("native_sim", "native_sim/native/64"):
        found = route(DeviceTarget(build_dir=tmp_path, board=board))
        assert (found.transport.name, found.program) == ("native_sim", path)
    assert route(DeviceTarget(port="/dev/x", board="native_sim")).transport.name == "serial"
    result = gather_result(found.link(), timeout_s=20)
    assert (result.where, result.runs[0].outputs[0].data) == ("native_sim", b"\x01\x02")


def test_bytes_go_both_ways_and_closing_ends_the_program(tmp_path: Path) -> None:
    path = program(tmp_path, f"echo $$ > {tmp_path}/pid; exec cat")
    with Opened(NativeLink(path)) as link:
        link.write(b"ping")
        received = b""
        while len(received) < 4:
            received += link.read(5)
        assert received == b"ping" and link.read(0.01) == b""
    pid, ends = int((tmp_path / "pid").read_text()), time.monotonic() + 10
    with pytest.raises(ProcessLookupError):
        while time.monotonic() < ends:
            os.kill(pid, 0)


def test_a_program_that_ends_says_why(tmp_path: Path) -> None:
    path = program(tmp_path, "echo 'native_sim: no such option' >&2; exit 3")
    with Opened(NativeLink(path)) as link, pytest.raises(LinkEndedError) as caught:
        for _ in range(100):
            link.read(0.2)
    assert str(caught.value) == "the app ended with exit code 3: native_sim: no such option"


def test_a_program_that_cannot_be_run(tmp_path: Path) -> None:
    path = tmp_path / "zephyr" / "zephyr.exe"
    target = DeviceTarget(build_dir=tmp_path, board="native_sim")
    with pytest.raises(DeviceError, match=r"zephyr\.exe: no such program\. Build the app for native_sim first"):
        open_session(target)
    program(tmp_path, "").chmod(0o644)
    with pytest.raises(DeviceError, match=r"zephyr\.exe: may not be run"):
        gather_result(NativeLink(path))


def test_what_it_declares(tmp_path: Path) -> None:
    link = NativeLink(tmp_path / "zephyr.exe")
    assert not link.capabilities.counts_ticks and link.instructions_per_tick is None
    assert link.capabilities.starts_app and link.capabilities.several and not link.capabilities.reopens

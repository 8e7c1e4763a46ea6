# SPDX-License-Identifier: Apache-2.0
"""Gathering results from scripted devices: whole runs, restarts, crashes, silence, unplugged cables."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.device import PtyDevice, Step
from tests.fakes.records import BANNER, as_bytes, begin, self_test
from tests.fakes.scripted_link import ScriptedLink
from tests.helpers.self_tests import gather_result
from tflm_zephyr.boards.board import QemuSpec
from tflm_zephyr.device.console.gather import gather_results
from tflm_zephyr.device.console.result import RunResult
from tflm_zephyr.device.transport.qemu import QemuLink
from tflm_zephyr.device.transport.serial_port import SerialLink
from tflm_zephyr.errors import DeviceError


def fails(link: ScriptedLink, *, timeout_s: float = 0.2, silence_s: float = 0.1) -> str:
    """The one line that gathering from `link` ends in; the link is closed."""
    with pytest.raises(DeviceError) as caught:
        gather_result(link, timeout_s=timeout_s, silence_s=silence_s)
    assert not link.is_open
    text = str(caught.value)
    assert "\n" not in text and text.startswith("script: ")
    return text


def on_pty(steps: list[Step], action: Callable[[PtyDevice], None] | None = None, **keys: bool) -> RunResult:
    """Gather over a pseudo-terminal."""
    with PtyDevice(steps, wait=action is not None, **keys) as device:
        act = None if action is None else lambda: action(device)
        return gather_result(SerialLink(device.port), timeout_s=5, silence_s=2, action=act)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_any_cut_into_chunks_gives_the_same(size: int) -> None:
    data = as_bytes([BANNER, *self_test((bytes(range(256)),))])
    heard: list[str] = []
    link = ScriptedLink(*(data[at : at + size] for at in range(0, len(data), size)))
    result = gather_result(link, on_line=heard.append)
    assert result.runs[0].outputs[0].data == bytes(range(256))
    assert heard[0] == BANNER and heard[-1].startswith("TFLM:end")
    assert not link.is_open


def test_over_a_pseudo_terminal() -> None:
    data = as_bytes(self_test((bytes(3000),)))
    result = on_pty([data[:1000], 0.02, data[1000:]])
    assert len(result.runs[0].outputs[0].data) == 3000
    assert result.where == "serial" and result.link.startswith("/dev/")


def test_joining_in_the_middle_of_a_repeating_app() -> None:
    data = as_bytes(self_test((b"\x05" * 50,)))
    assert on_pty([data[150:], data]).runs[0].outputs[0].data == b"\x05" * 50


def test_flashing_while_the_old_app_talks_gives_the_new_result() -> None:
    old, new = as_bytes(self_test((b"\x01",))), as_bytes([BANNER, *self_test((b"\x02",))])
    assert (
        on_pty([old * 3, old[:40], new], lambda device: (device.start(), time.sleep(0.2))).runs[0].outputs[0].data
        == b"\x02"
    )


def test_a_flash_that_overflows_the_ports_buffer_loses_nothing() -> None:
    new = as_bytes([BANNER, *self_test((bytes(20_000),))])
    result = on_pty([new], lambda device: (device.start(), time.sleep(0.3)))
    assert len(result.runs[0].outputs[0].data) == 20_000


def test_a_failing_action_is_passed_on_and_the_port_released() -> None:
    link = ScriptedLink(b"")

    def action() -> None:
        raise DeviceError("no probe")

    with pytest.raises(DeviceError, match="no probe"):
        gather_result(link, action=action)
    assert not link.is_open


def test_several_models_one_result_each_from_wherever_it_joins() -> None:
    a, b = as_bytes(self_test(model="a")), as_bytes(self_test((b"\x09",), model="b"))
    results = gather_results(ScriptedLink(a[100:], b, a, b), models=2)
    assert [result.model for result in results] == ["b", "a"]


def test_a_reset_in_the_middle() -> None:
    lines = as_bytes(self_test((b"\x07",)))
    assert (
        gather_result(ScriptedLink(lines[:200], b"\r\n", as_bytes([BANNER]), lines)).runs[0].outputs[0].data == b"\x07"
    )


def test_silence() -> None:
    start = time.monotonic()
    text = fails(ScriptedLink(), timeout_s=5)
    assert "nothing received within 0.1 s" in text and "reset button" in text
    assert time.monotonic() - start < 1


def test_noise_without_end_is_bounded_and_named() -> None:
    text = fails(ScriptedLink(*[b"\xff\x00\xfe" * 3000] * 20))
    assert "no result of a tflm-zephyr app" in text and len(text) < 1000


def test_a_crash_shows_what_was_said() -> None:
    lines = [
        BANNER,
        begin(),
        "\x1b[1;31m<err> os: ***** BUS FAULT *****\x1b[0m",
        "E:   Precise data bus error",
        "E: Halting system",
    ]
    text = fails(ScriptedLink(as_bytes(lines)), timeout_s=20)
    assert "the app crashed: <err> os: ***** BUS FAULT *****. Last lines" in text
    assert "Precise data bus error | E: Halting system" in text


def test_a_crash_loop_ends() -> None:
    loop = as_bytes([BANNER, begin()])
    assert "started 3 times" in fails(ScriptedLink(loop, loop, loop))


def test_the_middle_of_a_run_only() -> None:
    assert "only the middle of a run" in fails(ScriptedLink(as_bytes(self_test()[2:])))


def test_began_and_never_ended() -> None:
    assert "started and did not finish" in fails(ScriptedLink(as_bytes(self_test()[:4])))


def test_ended_too_early() -> None:
    text = fails(ScriptedLink(as_bytes([BANNER, begin()]), end="the port is gone"))
    assert "the port is gone, before the app was done" in text and BANNER in text


def test_unplugged_in_the_middle() -> None:
    with pytest.raises(DeviceError, match="unplugged"):
        on_pty([as_bytes(self_test()[:3])], unplug=True)


def test_an_end_without_newline_before_the_links_end_counts() -> None:
    data = as_bytes(self_test()).rstrip()
    assert gather_result(ScriptedLink(data, end="exit")).status == "pass"


def test_damage_is_named() -> None:
    lines = self_test()
    lines[3] = lines[3].replace("hex=01", "hex=11")
    assert "CRC-32" in fails(ScriptedLink(as_bytes(lines)))


def test_qemu_is_gone_when_the_app_is_done(tmp_path: Path, fake_qemu: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "zephyr.elf").write_bytes(b"")
    (fake_qemu / "output").write_bytes(as_bytes([BANNER, *self_test()]))
    monkeypatch.setenv("FAKE_QEMU_EXIT", "hang")
    result = gather_result(QemuLink(QemuSpec("mps2-an385", "cortex-m3"), tmp_path / "zephyr.elf"))
    assert result.where == "qemu" and result.link == "QEMU mps2-an385"
    with pytest.raises(ProcessLookupError):
        os.kill(json.loads((fake_qemu / "record.json").read_text())["pid"], 0)


def test_qemu_that_refuses_says_why(tmp_path: Path, fake_qemu: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "zephyr.elf").write_bytes(b"")
    monkeypatch.setenv("FAKE_QEMU_STDERR", "qemu-system-arm: unsupported machine type\n")
    monkeypatch.setenv("FAKE_QEMU_EXIT", "1")
    with pytest.raises(DeviceError, match="exit code 1: qemu-system-arm: unsupported machine type"):
        gather_result(QemuLink(QemuSpec("mps2-an999", "cortex-m3"), tmp_path / "zephyr.elf"))

# SPDX-License-Identifier: Apache-2.0
"""samples/vibration_monitor: a minute in QEMU without a missed window, its outputs as TFLM's, and its other builds."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT
from tflm_zephyr.build.toolchain import detect_toolchain
from tflm_zephyr.build.west import build_env
from tflm_zephyr.build.workspace import Workspace
from tflm_zephyr.host.run import available, run_many

pytestmark = [pytest.mark.zephyr, pytest.mark.usefixtures("workspace")]

SAMPLE = ROOT / "samples" / "vibration_monitor"
BOARD = "mps2/an385"
STATES = (SAMPLE / "labels.txt").read_text().split()
RATE_HZ, WINDOW, HOP = 400, 256, 128
MINUTE_MS = 60_000
ROOM_PERCENT = 10  # of every stack is never used
# With compilers of Linux distributions. Their picolibc keeps errno in it; a Zephyr SDK has it in any case.
THREAD_LOCAL = {"ZEPHYR_TOOLCHAIN_SUPPORTS_THREAD_LOCAL_STORAGE": "y"}
Ask = Callable[[str, str], "re.Match[str]"]


def built(folder: Path, board: str, *arguments: str) -> Path:
    """The ELF of the sample, built as its README says, with this test's Python for the generator."""
    toolchain = detect_toolchain()
    given = [*toolchain.cmake_args, f"-DTFLM_ZEPHYR_PYTHON={sys.executable}", *arguments]
    argv = ["west", "build", "-b", board, "-d", str(folder), str(SAMPLE), "--", *given]
    env = {**os.environ, **THREAD_LOCAL, **toolchain.env}
    done = subprocess.run(argv, cwd=folder.parent, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    return folder / "zephyr" / "zephyr.elf"


@contextmanager
def running(elf: Path, *arguments: str) -> Iterator[Ask]:
    """QEMU with the sample's shell: a function that sends a command and waits for an answer that matches."""
    argv = ["qemu-system-arm", "-machine", "mps2-an385", "-cpu", "cortex-m3", "-nographic", "-vga", "none"]
    argv += ["-serial", "stdio", "-monitor", "none", "-rtc", "clock=vm", *arguments, "-kernel", str(elf)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as qemu:
        assert qemu.stdin is not None and qemu.stdout is not None
        raw = b""

        def seen() -> str:
            # All of it each time: an escape sequence may come in two parts.
            return re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", raw.decode(errors="replace")).replace("\r", "")

        def ask(command: str, pattern: str) -> re.Match[str]:
            nonlocal raw
            assert qemu.stdin is not None and qemu.stdout is not None
            start = 0
            if command:
                start = len(seen())
                qemu.stdin.write(f"{command}\r".encode())
            while (found := re.search(pattern, seen()[start:])) is None:
                more = qemu.stdout.read(4096)
                assert more, f"QEMU ended after: {seen()[-2000:]}"
                raw += more
            return found

        try:
            yield ask
        finally:
            qemu.kill()


@pytest.fixture(scope="module")
def monitor(tmp_path_factory: pytest.TempPathFactory, workspace: object) -> Path:
    """The sample as it is, for QEMU."""
    return built(tmp_path_factory.mktemp("monitor") / "build", BOARD)


# Time passes by instructions and jumps over sleep, so that a minute takes seconds and its counts are always the same.
JUMPING = ("-nic", "none", "-icount", "shift=7,align=off,sleep=off")
STATUS = (
    r"uptime (?P<uptime>\d+) ms\n"
    r"samples: (?P<samples>\d+) read, (?P<lost>\d+) lost, (?P<errors>\d+) errors\n"
    r"windows: (?P<windows>\d+) done, (?P<missed>\d+) missed, (?P<late>\d+) late, (?P<failed>\d+) failed\n"
    r"longest: (?P<delay>\d+) us .*, (?P<invoke>\d+) us of it in the model\n"
    r"core: asleep for (?P<asleep>\d+) %"
)


def test_a_minute_without_a_missed_window(monitor: Path) -> None:
    with running(monitor, *JUMPING) as ask:
        # Twelve seconds of each of the five states, and the first one again.
        ask("", r"(?s)<inf> vibration: looseness \(window.*<inf> vibration: off \(window")
        said = {name: int(value) for name, value in ask("vibration status", STATUS).groupdict().items()}
        states = re.findall(r"<inf> vibration: (\w+) \(window", ask("", r"(?s).*").group())
        stacks = ask("kernel thread stacks", r"(?s).*IRQ 00[^\n]*\n").group()
    assert said["uptime"] >= MINUTE_MS
    assert [said[name] for name in ("lost", "errors", "missed", "late", "failed")] == [0] * 5
    assert abs(said["samples"] - said["uptime"] * RATE_HZ / 1000) < RATE_HZ / 5
    due = 1 + (said["samples"] - WINDOW) // HOP
    assert due - 1 <= said["windows"] <= due  # the last one may be in the model
    assert said["windows"] > 180
    assert 0 < said["invoke"] < said["delay"] < 250_000
    assert said["asleep"] > 25
    assert states[: len(STATES)] == STATES
    used = re.findall(
        r"(IRQ|\w+)(?: \d\d)?\s+\(real size\s+\d+\):\s+unused\s+\d+\s+usage\s+\d+ /\s+\d+ \(\s*(\d+) %\)", stacks
    )
    assert {"sampler", "inference", "logging", "shell_uart", "idle", "IRQ"} <= {name for name, _ in used}
    assert all(int(percent) <= 100 - ROOM_PERCENT for _, percent in used), used


def test_a_slow_core_says_that_it_is_late(monitor: Path) -> None:
    """At half the speed an inference takes longer than the deadline and a hop. No sample is lost for it."""
    with running(monitor, "-nic", "none", "-icount", "shift=8,align=off,sleep=off") as ask:
        late = ask("", r"<err> vibration: window (\d+): no result within 250 ms")
        missed = ask("", r"<err> vibration: window (\d+): the one before is not done")
        ask("", r"<inf> vibration: off \(window")
        said = {name: int(value) for name, value in ask("vibration status", STATUS).groupdict().items()}
    assert (int(late[1]), int(missed[1])) == (0, 1)
    assert said["late"] > 0 and said["missed"] > 0 and said["delay"] > 250_000
    assert [said[name] for name in ("lost", "errors", "failed")] == [0] * 3


@pytest.mark.skipif(not available("tflm"), reason="needs TFLM on this machine")
def test_the_outputs_are_tflms(monitor: Path) -> None:
    """A window of each state, as the shell prints it, through TFLM on this machine."""
    model = (SAMPLE / "vibration.tflite").read_bytes()
    with running(monitor, *JUMPING) as ask:
        for state in STATES:
            ask(f"vibration machine {state}", rf"<inf> vibration: {state} \(window")
            said = ask("vibration tensors", r"model (\w+)\n((?:[0-9a-f]+\n)+)output ([0-9a-f]+)\n")
            given, output = bytes.fromhex(said[2].replace("\n", "")), bytes.fromhex(said[3])
            assert len(given) == WINDOW * 3 and given.count(given[0]) < len(given)
            assert run_many(model, [(given,)], engine="tflm").runs == (((output),),)
            scores = [int.from_bytes([byte], "little", signed=True) for byte in output]
            assert STATES[scores.index(max(scores))] == state


def test_changes_are_reported_over_coap(tmp_path: Path) -> None:
    """To a server on this machine, by QEMU's user network. The first report is not acknowledged, and comes again."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(60)
        port = f"-DCONFIG_VIBRATION_COAP_PORT={server.getsockname()[1]}"
        elf = built(tmp_path / "build", BOARD, "-DEXTRA_CONF_FILE=coap.conf;coap_qemu.conf", port)
        with running(elf, "-nic", "user,model=lan9118", "-icount", "shift=7,align=off,sleep=on") as ask:
            first, _ = server.recvfrom(1024)
            again, device = server.recvfrom(1024)
            assert again == first
            version_type_token, code, number = again[0], again[1], again[2:4]
            assert (version_type_token, code) == (0x48, 0x02)  # version 1, confirmable, 8 bytes of token; POST
            options, payload = again[12:].split(b"\xff", 1)
            assert options == b"\xb9vibration\x11\x32"  # Uri-Path, and Content-Format 50
            said = json.loads(payload)
            assert said["state"] == "off" and said["percent"] > 90
            server.sendto(bytes([0x60, 0x44]) + number, device)  # an acknowledgement: 2.04 Changed
            ask("", "reported: off")


def test_it_links_for_the_dk(tmp_path: Path) -> None:
    """With TF-M; the accelerometer is a real one, on the Arduino header's I2C."""
    build = tmp_path / "build"
    built(build, "nrf9160dk/nrf9160/ns")
    options = (build / "zephyr" / ".config").read_text().splitlines()
    assert (build / "zephyr" / "tfm_merged.hex").is_file()
    assert "CONFIG_BMI160=y" in options and "CONFIG_I2C_NRFX=y" in options and "CONFIG_EMUL=y" not in options


def test_twister_runs_it(tmp_path: Path, workspace: Workspace) -> None:
    """The scenario of sample.yaml that has a console harness: the log of each state, in order."""
    toolchain = detect_toolchain()
    argv = [sys.executable, "-m", "west", "twister", "-T", str(SAMPLE), "-O", str(tmp_path / "out"), "-p", BOARD]
    argv += ["-s", "sample.tflm.vibration_monitor"]
    given = [*toolchain.cmake_args, f"-DTFLM_ZEPHYR_PYTHON={sys.executable}"]
    argv += [f"-x={argument.removeprefix('-D')}" for argument in given]
    env = {**build_env(workspace, toolchain), **THREAD_LOCAL}
    done = subprocess.run(argv, cwd=workspace.topdir, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    suites = json.loads((tmp_path / "out" / "twister.json").read_text())["testsuites"]
    assert [(suite["platform"], suite["status"]) for suite in suites] == [(BOARD, "passed")]


def test_the_size_profile_runs(tmp_path: Path, monitor: Path) -> None:
    elf = built(tmp_path / "build", BOARD, "-DEXTRA_CONF_FILE=size.conf")
    with running(elf, *JUMPING) as ask:
        ask("", r"I: looseness \(window")
    small, whole = (path.with_suffix(".bin").stat().st_size for path in (elf, monitor))
    assert small < 0.75 * whole

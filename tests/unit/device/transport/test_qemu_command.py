# SPDX-License-Identifier: Apache-2.0
"""The QEMU command line, and that a leashed process ends with its parent."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tflm_zephyr import process
from tflm_zephyr.boards.board import QemuSpec, load_board
from tflm_zephyr.device.transport.child import leashed
from tflm_zephyr.device.transport.qemu_command import qemu_argv

SPEC = QemuSpec("mps2-an385", "cortex-m3")


def test_argv_exactly() -> None:
    assert qemu_argv(SPEC, Path("b/zephyr.elf")) == (
        *("qemu-system-arm", "-machine", "mps2-an385", "-cpu", "cortex-m3"),
        *("-nographic", "-vga", "none", "-net", "none", "-monitor", "none"),
        *("-chardev", "stdio,id=con,signal=off", "-serial", "chardev:con"),
        *("-semihosting-config", "enable=on,target=native"),
        *("-icount", "shift=0", "-kernel", "b/zephyr.elf"),
    )


def test_extra_arguments_and_no_icount() -> None:
    spec = load_board("mps2/an521/cpu0").qemu
    assert spec is not None
    argv = qemu_argv(spec, Path("x"), icount=False, binary="/q")
    assert argv[0] == "/q"
    assert "-icount" not in argv
    assert argv[5:9] == ("-global", "sse-200.CPU0_DSP=on", "-global", "sse-200.CPU0_FPU=on")


def test_leashed_passes_arguments_output_and_exit_code_on() -> None:
    done = process.run(leashed([sys.executable, "-c", "import sys; print(sys.argv[1]); sys.exit(3)", "a b"]))
    assert (done.output, done.returncode) == ("a b\n", 3)


@pytest.mark.skipif(sys.platform != "linux", reason="needs prctl")
def test_a_leashed_process_does_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    parent = (
        "import sys, time\n"
        "from tflm_zephyr import process\n"
        "from tflm_zephyr.device.transport.child import leashed\n"
        "script = 'echo $$ > $0.new; mv $0.new $0; exec sleep 60'\n"
        "with process.spawn(leashed(['sh', '-c', script, sys.argv[1]])):\n"
        "    time.sleep(60)\n"
    )
    with process.spawn([sys.executable, "-c", parent, str(pid_file)], merge_stderr=True) as child:
        _wait(pid_file.exists)
        pid = int(pid_file.read_text())
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        _wait(lambda: not _alive(pid))


def _alive(pid: int) -> bool:
    """Whether the process runs; a zombie that nobody reaps does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _wait(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.01)

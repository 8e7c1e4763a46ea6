# SPDX-License-Identifier: Apache-2.0
"""Child processes seen from outside."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.helpers.checkout import ROOT


def start(*argv: object, before: str = "", **env: str) -> subprocess.Popen[bytes]:
    """The command line in a process of its own, after the statement `before`; signals do what they do by default."""
    heed = "import signal\nsignal.signal(signal.SIGHUP, signal.SIG_DFL)"  # tests under nohup start with it ignored
    imports = "import sys\nfrom tflm_zephyr.build import west as build\nfrom tflm_zephyr.cli import main as cli"
    code = f"{heed}\n{imports}\n{before}\nsys.exit(cli.main())"
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, argv)],
        cwd=ROOT,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def alive(pid: int) -> bool:
    """Whether the process runs; a zombie that nobody has waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def gone(pid: int, seconds: float = 5.0) -> bool:
    ends = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < ends:
        time.sleep(0.01)
    return not alive(pid)


def pid_from(path: Path, seconds: float = 30.0) -> int:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if path.exists() and (text := path.read_text()):
            return int(text)
        time.sleep(0.01)
    raise AssertionError(f"{path} did not appear")

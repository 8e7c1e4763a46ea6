# SPDX-License-Identifier: Apache-2.0
"""Child processes seen from outside."""

from __future__ import annotations

import time
from pathlib import Path


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


def pid_from(path: Path) -> int:
    ends = time.monotonic() + 5.0
    while time.monotonic() < ends:
        if path.exists() and (text := path.read_text()):
            return int(text)
        time.sleep(0.01)
    raise AssertionError(f"{path} did not appear")

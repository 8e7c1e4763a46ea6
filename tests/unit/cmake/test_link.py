# SPDX-License-Identifier: Apache-2.0
"""link.py of cmake/: a link's own output and exit code, and the ways that fit behind one that overflows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.built_apps import MAP, build
from tests.helpers.checkout import ROOT

DIGITS = ROOT / "samples" / "digits" / "digits.tflite"


@pytest.mark.parametrize(
    ("says", "code", "ways"),
    [
        ("region `FLASH' overflowed by 5376 bytes", 1, True),
        ("undefined reference to `x'", 1, False),
        ("warning", 0, False),
    ],
)
def test_ways_stand_behind_an_overflow(says: str, code: int, ways: bool, tmp_path: Path) -> None:
    folder = build(tmp_path, text=MAP.replace("0x1000 libtflm_model_net", "0x20000 libtflm_model_net"))
    command = [sys.executable, "-c", f"import sys; print('table'); print({says!r}, file=sys.stderr); sys.exit({code})"]
    argv = [sys.executable, "-I", ROOT / "cmake" / "link.py", folder, DIGITS, DIGITS, "--", *command]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == code and done.stderr.startswith(says) and "table" in done.stdout
    assert ("\n  take " in done.stdout) == ways

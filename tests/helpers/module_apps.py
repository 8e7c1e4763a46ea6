# SPDX-License-Identifier: Apache-2.0
"""Applications with models by tflm_model(): their files, `west build` as users call it, and their lines in QEMU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.helpers.checkout import ROOT
from tflm_zephyr.build.toolchain import detect_toolchain
from tflm_zephyr.host.golden_outputs import seeded_inputs
from tflm_zephyr.host.run import run_many
from tflm_zephyr.model.reader import load_model

BOARD = "mps2/an385"


def put(app: Path, data: bytes, name: str = "net") -> str:
    """Give the application a model and an input; returns what it has to print: the outputs of TFLM on this machine."""
    (app / f"{name}.tflite").write_bytes(data)
    model = load_model(app / f"{name}.tflite")
    given = seeded_inputs(model)
    ((expected,),) = run_many(model.data, [given], engine="tflm").runs
    numbers = ", ".join(map(str, given[0]))
    (app / "src" / f"{name}_golden.h").write_text(f"static const unsigned char {name}_golden[] = {{{numbers}}};\n")
    return f"TFLM: {model.sha256[:16]} ok {' '.join(f'{byte:02x}' for byte in expected)} end"


def west(app: Path, *argv: str) -> str:
    """`west build` as its users call it; the generator has this test's Python."""
    toolchain = detect_toolchain()
    done = subprocess.run(
        ["west", "build", "-d", "build", *argv],
        cwd=app,
        env={**os.environ, **toolchain.env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    return done.stdout


def printed(app: Path, wanted: int = 1, elf: str = "zephyr/zephyr.elf") -> list[str]:
    """The first `wanted` lines of models in what QEMU prints."""
    argv = ["qemu-system-arm", "-machine", "mps2-an385", "-cpu", "cortex-m3", "-nographic", "-vga", "none"]
    argv += ["-nic", "none", "-serial", "stdio", "-monitor", "none", "-kernel", str(app / "build" / elf)]
    found: list[str] = []
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, errors="replace") as qemu:
        try:
            assert qemu.stdout is not None
            for line in qemu.stdout:
                found += re.findall(r"TFLM: .* end", line)
                if len(found) == wanted:
                    break
        finally:
            qemu.kill()
    return found


def given() -> list[str]:
    """CMake's arguments for the module of this tree, with this test's Python for the generator."""
    python = f"-DTFLM_ZEPHYR_PYTHON={sys.executable}"
    return [*detect_toolchain().cmake_args, f"-DEXTRA_ZEPHYR_MODULES={ROOT}", python]

# SPDX-License-Identifier: Apache-2.0
"""The Zephyr module in an application that knows nothing of it: Zephyr's own samples/philosophers, in C."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from tests.conftest import ROOT
from tests.zephyr.models import dense_chain
from tflm_zephyr.build.toolchain import detect_toolchain
from tflm_zephyr.build.workspace import Workspace
from tflm_zephyr.host import golden_outputs
from tflm_zephyr.model.reader import load_model

pytestmark = [pytest.mark.zephyr, pytest.mark.usefixtures("workspace")]

BOARD = "mps2/an385"
CMAKE = """
target_sources(app PRIVATE src/model.c)
tflm_model(app NAME net MODEL net.tflite)
"""
CONFIG = "\nCONFIG_TFLM_ZEPHYR=y\n"
THREAD = r"""
#include <string.h>
#include <zephyr/kernel.h>
#include "golden.h"
#include "net.h"

static void run(void *a, void *b, void *c)
{
	int result = net_init();

	if (result == TFLM_OK) {
		memcpy(net_input(), golden_input, NET_INPUT_ELEMENTS);
		result = net_invoke();
	}
	printk("\nTFLM: %s %s", net_sha256(), tflm_result_text(result));
	for (int i = 0; result == TFLM_OK && i < NET_OUTPUT_ELEMENTS; i++) {
		printk(" %02x", (uint8_t)net_output()[i]);
	}
	printk(" end\n");
}
K_THREAD_DEFINE(model, 1024 + NET_STACK_BYTES, run, NULL, NULL, NULL, 7, 0, 0);
"""


def put(app: Path, data: bytes) -> str:
    """Give the application a model and an input; returns the line that its thread has to print."""
    (app / "net.tflite").write_bytes(data)
    model = load_model(app / "net.tflite")
    (run,) = golden_outputs.attempt(model, None, 1).golden
    (given,), (expected,) = run.inputs, run.outputs
    numbers = ", ".join(map(str, given))
    (app / "src" / "golden.h").write_text(f"static const unsigned char golden_input[] = {{{numbers}}};\n")
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


def printed(app: Path) -> str:
    """The line of the model's thread, from QEMU."""
    elf = app / "build" / "zephyr" / "zephyr.elf"
    argv = ["qemu-system-arm", "-machine", "mps2-an385", "-cpu", "cortex-m3", "-nographic", "-vga", "none"]
    argv += ["-net", "none", "-serial", "stdio", "-monitor", "none", "-kernel", str(elf)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, errors="replace") as qemu:
        try:
            assert qemu.stdout is not None
            for line in qemu.stdout:
                found = re.search(r"TFLM: .* end", line)
                if found:
                    return found[0]
        finally:
            qemu.kill()
    return ""


def symbols(elf: Path) -> set[str]:
    """Names of an image's symbols."""
    with elf.open("rb") as file:
        return {symbol.name for symbol in ELFFile(file).get_section_by_name(".symtab").iter_symbols()}


@pytest.fixture
def philosophers(workspace: Workspace, tmp_path: Path) -> Path:
    """A copy of the sample with three lines more and the thread that uses the model."""
    if not golden_outputs.installed():
        pytest.skip("needs LiteRT or TFLM on this machine")
    app = tmp_path / "philosophers"
    shutil.copytree(workspace.zephyr_base / "samples" / "philosophers", app)
    with (app / "CMakeLists.txt").open("a") as file:
        file.write(CMAKE)
    with (app / "prj.conf").open("a") as file:
        file.write(CONFIG)
    (app / "src" / "model.c").write_text(THREAD)
    return app


def test_philosophers_run_a_model(philosophers: Path) -> None:
    app = philosophers
    wanted = put(app, dense_chain([16, 32, 8]))
    given = [*detect_toolchain().cmake_args, f"-DEXTRA_ZEPHYR_MODULES={ROOT}", f"-DTFLM_ZEPHYR_PYTHON={sys.executable}"]
    west(app, "-b", BOARD, ".", "--", *given)
    assert printed(app) == wanted
    assert "no work to do" in west(app)

    # Nothing but the model's own of what the module brings is seen by the application, and no heap by the model.
    config = (app / "build" / "zephyr" / ".config").read_text().splitlines()
    assert "CONFIG_TFLM_ZEPHYR=y" in config and "# CONFIG_TENSORFLOW_LITE_MICRO is not set" in config
    assert "CONFIG_STD_CPP11=y" in config  # Zephyr's default
    found = symbols(app / "build" / "zephyr" / "zephyr.elf")
    assert "net_invoke" in found and not {"malloc", "free", "_Znwj", "_Znaj", "sbrk"} & found

    # New weights, and then another network: `west build` alone.
    retrained = dense_chain([16, 32, 8], seed=7)
    again = put(app, retrained)
    assert again != wanted
    said = west(app)
    assert printed(app) == again
    assert "net_data.S" in said and "net.cpp" not in said and "Re-running CMake" not in said
    other = put(app, dense_chain([24, 8, 4]))
    west(app)
    assert printed(app) == other

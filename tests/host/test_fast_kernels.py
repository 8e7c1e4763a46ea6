# SPDX-License-Identifier: Apache-2.0
"""Random layers with our own kernels under ASan and UBSan, against TFLM's, byte for byte, for cores with DSP or not.

The kernels are compiled for this machine: the portable C, and for DSP cores the twins of their instructions.
pytest --random-layers 1000 runs a thousand of each kind; the layers are always the same.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.helpers.layer_table import layer_table
from tests.helpers.random_layers import KINDS, seeds
from tflm_zephyr.host import available

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None or not available("tflm"), reason="needs g++ and TFLM on the host"),
]

LAYERS = 50
BOARDS = {"plain": "mps2/an385", "dsp": "mps2/an386"}
FLAGS = ("-std=c++17", "-O0", "-g0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.mark.parametrize("core", BOARDS)
@pytest.mark.parametrize("kind", KINDS)
def test_outputs_are_those_of_tflm(kind: str, core: str, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    for some in seeds(pytestconfig, LAYERS):
        table = layer_table(kind, some, BOARDS[core], tmp_path / str(some[0]), on_host=True)
        program = table.folder / "layers"
        twins = ["-DTFLM_FAST_TWINS"] if core == "dsp" else []
        command = ["g++", *FLAGS, *twins, f"-I{table.folder}", str(table.folder / "main.cpp"), "-o", str(program)]
        subprocess.run(command, check=True)
        done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert table.differences(done.stdout.splitlines()) == []
        shutil.rmtree(table.folder)

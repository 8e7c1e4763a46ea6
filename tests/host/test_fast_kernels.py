# SPDX-License-Identifier: Apache-2.0
"""Random layers with our own kernels under ASan and UBSan, against TFLM's, byte for byte, for cores with DSP or not.

The kernels are compiled for this machine: the portable C, and for DSP cores the twins of their instructions.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.helpers.random_layers import KINDS, random_layers
from tflm_zephyr.codegen import AppConfig, ModelConfig, render
from tflm_zephyr.codegen.backends.compiled import runtime_of
from tflm_zephyr.codegen.generation import generate
from tflm_zephyr.compiler import CompiledModel
from tflm_zephyr.host import available, run_many
from tflm_zephyr.model import Tensor, parse_model
from tflm_zephyr.tflm import tflm_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None or not available("tflm"), reason="needs g++ and TFLM on the host"),
]

LAYERS, RUNS = 25, 2
BOARDS = {"plain": "mps2/an385", "dsp": "mps2/an386"}
FLAGS = ("-std=c++17", "-O1", "-g0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
DRIVER = """
#include "models/net_layers.hpp"
#include <cstdio>

alignas(16) static uint8_t arena[models::net::kArenaBytes];

int main()
{{
	static const struct {{ size_t first, size; }} inputs[] = {{ {inputs} }}, outputs[] = {{ {outputs} }};
	for (int run = 0; run < {runs}; ++run) {{
		for (auto &input : inputs) {{
			if (fread(arena + input.first, 1, input.size, stdin) != input.size) {{
				return 2;
			}}
		}}
		for (size_t layer = 0; layer < {layers}; ++layer) {{
			if (!models::net::RunLayer(arena, layer)) {{
				return 3;
			}}
		}}
		for (auto &output : outputs) {{
			fwrite(arena + output.first, 1, output.size, stdout);
		}}
	}}
	return 0;
}}
"""


def run_compiled(path: Path, board: str, data: bytes) -> tuple[CompiledModel, bytes]:
    """The model with our kernels, and what it makes of the inputs of all runs."""
    folder = path.parent / board.replace("/", "_")
    config = AppConfig(
        models=(ModelConfig(path, name="net"),), boards=(board,), kernels="reference", model_data="array",
        backend="compiled", fast_kernels=True,
    )  # fmt: skip
    made = generate(config, folder / "app", tflm_of(None, None), golden=False)
    (spec,) = made.spec.models
    program = runtime_of(spec).program
    for name, text in render(made.spec).items():
        target = folder / name.partition("src/")[2]
        if "src/" in name and name.endswith(("net_layers.cpp", "net_layers.hpp", "net_weights.cpp", "kernels.hpp")):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)
    main = program.model.main
    places = [
        ", ".join(f"{{{program.offsets[t]}, {main.tensors[t].size_bytes}}}" for t in tensors)
        for tensors in (main.inputs, main.outputs)
    ]
    text = DRIVER.format(inputs=places[0], outputs=places[1], runs=RUNS, layers=len(program.layers))
    (folder / "main.cpp").write_text(text)
    sources = [folder / "main.cpp", *sorted((folder / "models").glob("*.cpp"))]
    twins = ["-DTFLM_FAST_TWINS"] if board == BOARDS["dsp"] else []
    command = ["g++", *FLAGS, *twins, f"-I{folder}", *map(str, sources), "-o", str(folder / "net")]
    subprocess.run(command, check=True)
    done = subprocess.run([str(folder / "net")], input=data, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return program, done.stdout


def inputs_of(model: bytes) -> list[Tensor]:
    main = parse_model(model).main
    return [main.tensors[tensor] for tensor in main.inputs]


@pytest.mark.parametrize("core", BOARDS)
@pytest.mark.parametrize("kind", KINDS)
def test_outputs_are_those_of_tflm(kind: str, core: str, tmp_path: Path, seed: int = 0) -> None:
    model = random_layers(kind, seed, LAYERS)
    path = tmp_path / "net.tflite"
    path.write_bytes(model)
    rng = random.Random(seed)
    sizes = [tensor.size_bytes for tensor in inputs_of(model)]
    runs = [[rng.randbytes(size) for size in sizes] for _ in range(RUNS)]
    program, got = run_compiled(path, BOARDS[core], b"".join(b"".join(run) for run in runs))
    assert all(layer.fast for layer in program.layers), {layer.not_fast for layer in program.layers}
    wanted = run_many(model, runs).runs
    main, at = program.model.main, 0
    for run in wanted:
        for tensor, data in zip(main.outputs, run, strict=True):
            layer = next(one for one in program.layers if tensor in main.operators[one.operator].outputs)
            assert got[at : at + len(data)] == data, f"{layer.title}: {[local.text for local in layer.locals]}"
            at += len(data)

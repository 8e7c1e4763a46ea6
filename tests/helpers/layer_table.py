# SPDX-License-Identifier: Apache-2.0
"""Random layers with our own kernels, each a model of its own, in one program: it prints a checksum of each output.

Inputs come from a generator of the program. checksums() has what TFLM makes of the same inputs on this machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.random_layers import random_layers
from tests.helpers.semihosting import START
from tflm_zephyr.codegen import render
from tflm_zephyr.codegen.backends.compiled import runtime_of
from tflm_zephyr.codegen.generation import AppRequest, generate
from tflm_zephyr.compiler import CompiledModel
from tflm_zephyr.host import run_many
from tflm_zephyr.model import parse_model
from tflm_zephyr.options import AppConfig, ModelConfig
from tflm_zephyr.tflm import tflm_of

_FILES = re.compile(r"src/(models/net\d+_(?:layers|weights)\.[ch]pp|fast_kernels\.hpp)$")
_HOST = """
#include <cstdint>
#include <cstdio>
#define Print(name, value) std::printf("%16s%08x\\n", name, static_cast<unsigned>(value))
extern "C" {
"""
_MAIN = """
alignas(16) static uint8_t arena[{arena}];
static const struct {{
	bool (*run)(uint8_t *, size_t);
	uint32_t input, input_bytes, output, output_bytes, seed;
}} kLayers[] = {{
{rows}
}};

int main()
{{
	for (const auto &layer : kLayers) {{
		uint32_t state = layer.seed, sum = 2166136261u;
		for (uint32_t k = 0; k < layer.input_bytes; ++k) {{
			state = state * 1664525u + 1013904223u;
			arena[layer.input + k] = state >> 24;
		}}
		if (!layer.run(arena, 0)) {{
			return 1;
		}}
		for (uint32_t k = 0; k < layer.output_bytes; ++k) {{
			sum = (sum ^ arena[layer.output + k]) * 16777619u;
		}}
		Print("output", sum);
	}}
	return 0;
}}
}}
"""


@dataclass(frozen=True)
class LayerTable:
    """The layers of `seeds`, the program's source in `folder`, and each layer as compiled."""

    kind: str
    seeds: Sequence[int]
    folder: Path
    programs: tuple[CompiledModel, ...]

    def differences(self, printed: Sequence[str]) -> list[str]:
        """The layers whose checksum is another one than TFLM's."""
        wanted = checksums(self.kind, self.seeds)
        found = [int(line.split()[-1][-8:], 16) for line in printed]
        assert len(found) == len(wanted), printed[-3:]
        return [
            f"{self.kind} {seed}: {program.layers[0].title}, {program.layers[0].kernels}"
            for seed, program, one, two in zip(self.seeds, self.programs, found, wanted, strict=True)
            if one != two
        ]


def layer_table(kind: str, seeds: Sequence[int], board: str, folder: Path, *, on_host: bool = False) -> LayerTable:
    """Write the program of these layers for a board's core to `folder`/main.cpp, or for this machine."""
    folder.mkdir(parents=True)
    configs = []
    for seed in seeds:
        path = folder / f"net{seed}.tflite"
        path.write_bytes(random_layers(kind, seed, 1))
        configs.append(ModelConfig(path, name=f"net{seed}"))
    kernels = "reference" if on_host else "cmsis_nn"
    config = AppConfig(
        models=tuple(configs), boards=(board,), kernels=kernels, model_data="array", backend="compiled",
        fast_kernels=True, every_fast_kernel=True,
    )  # fmt: skip
    made = generate(AppRequest(config, folder / "app", tflm_of(None, None), golden=False))
    for name, text in render(made.spec).items():
        if found := _FILES.search(name):
            target = folder / found[1]
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(text)
    programs = tuple(runtime_of(spec).program for spec in made.spec.models)
    assert all(program.layers[0].fast for program in programs), {p.layers[0].not_fast for p in programs}
    (folder / "main.cpp").write_text("\n".join(_lines(seeds, programs, on_host)))
    return LayerTable(kind, seeds, folder, programs)


def _lines(seeds: Sequence[int], programs: Sequence[CompiledModel], on_host: bool) -> Iterator[str]:
    rows = []
    for seed, program in zip(seeds, programs, strict=True):
        yield from (f'#include "models/net{seed}_{part}.cpp"' for part in ("weights", "layers"))
        main = program.model.main
        places = [(program.offsets[t], main.tensors[t].size_bytes) for t in (*main.inputs, *main.outputs)]
        rows.append(f"\t{{models::net{seed}::RunLayer, {', '.join(f'{a}, {n}' for a, n in places)}, {_seed(seed)}u}},")
    yield _HOST if on_host else START
    yield _MAIN.format(arena=max(program.arena_bytes for program in programs), rows="\n".join(rows))


def _seed(seed: int) -> int:
    return 7 + 40503 * seed


def checksums(kind: str, seeds: Sequence[int]) -> list[int]:
    """The text that the program prints where all outputs are TFLM's; `seeds` follow each other."""
    model = random_layers(kind, seeds[0], len(seeds))
    main = parse_model(model).main
    inputs = [
        bytes(_random(_seed(seed), main.tensors[t].size_bytes)) for seed, t in zip(seeds, main.inputs, strict=True)
    ]
    (outputs,) = run_many(model, [inputs]).runs
    return [_sum(output) for output in outputs]


def _random(state: int, size: int) -> Iterator[int]:
    for _ in range(size):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        yield state >> 24


def _sum(data: bytes) -> int:
    found = 2166136261
    for byte in data:
        found = (found ^ byte) * 16777619 & 0xFFFFFFFF
    return found

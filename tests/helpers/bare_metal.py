# SPDX-License-Identifier: Apache-2.0
"""Compiled models on Cortex-M cores in QEMU without an operating system: bytes, memory, instructions and stack.

The generated layers, CMSIS-NN and TFLM's reference functions are compiled with the flags of a Zephyr app, and linked
with a program of a few lines. Built as Build.MEASURED, the program has nothing of its own in .bss, so that .bss is the
model's RAM. Built as Build.CHECKED, each row of each layer is compared with TFLM's where it is computed.
"""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from elftools.elf.elffile import ELFFile

from tests.helpers.compiled_check import random_bytes
from tests.helpers.compiled_host import Checkouts, generated, has_variables
from tflm_zephyr.boards import load_board
from tflm_zephyr.codegen import render
from tflm_zephyr.codegen.backends.compiled import layers_stack_bytes, runtime_of
from tflm_zephyr.codegen.generation import Generated
from tflm_zephyr.compiler import CompiledModel, Layer, SegmentLayer
from tflm_zephyr.device.transport.qemu_command import qemu_argv
from tflm_zephyr.errors import PlanError
from tflm_zephyr.tflm.sources import REFERENCE_SUPPORT

_TOOLS = "arm-none-eabi-"
_COMMON = (
    "-mthumb", "-specs=picolibc.specs", "-fno-strict-aliasing", "-fno-common", "-ffunction-sections", "-fdata-sections",
    "-fno-reorder-functions", "-fno-defer-pop", "-w", "-DNDEBUG",
)  # fmt: skip
_CXX = ("-Os", "-std=c++17", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-fcheck-new")
_PROGRAM = Path(__file__).with_suffix(".cpp")
_TIMEOUT_S = 600
_STACK_BYTES = 32 * 1024


@dataclass(frozen=True)
class Machine:
    """A core in QEMU: the board of its Zephyr apps, compiler flags, and first byte and bytes of three memories."""

    board: str
    flags: tuple[str, ...]
    clock_hz: int
    code: tuple[int, int]
    ram: tuple[int, int]
    data: tuple[int, int]


_MPS2 = {"code": (0, 4 << 20), "ram": (0x2000_0000, 4 << 20), "data": (0x2100_0000, 16 << 20)}
MACHINES: Mapping[str, Machine] = {
    "m3": Machine("mps2/an385", ("-mcpu=cortex-m3",), 25_000_000, **_MPS2),
    "m4": Machine("mps2/an386", ("-mcpu=cortex-m4",), 25_000_000, **_MPS2),
    "m33": Machine(
        "mps2/an521/cpu0", ("-mcpu=cortex-m33", "-mfloat-abi=hard", "-mfpu=fpv5-sp-d16"), 20_000_000,
        (0x1000_0000, 4 << 20), (0x3800_0000, 4 << 20), (0x8000_0000, 16 << 20),
    ),
    "m55": Machine(
        "mps3/corstone300/an547", ("-mcpu=cortex-m55", "-mfloat-abi=hard"), 32_000_000,
        (0x1000_0000, 512 << 10), (0x3100_0000, 2 << 20), (0x7000_0000, 16 << 20),
    ),
}  # fmt: skip


class Build(Enum):
    """The target that a program is built for."""

    MEASURED = "measured"
    CHECKED = "checked"


@dataclass(frozen=True)
class Measured:
    """A run: .bss, the arena by the plan, instructions of an inference, stack below the caller and its bound."""

    bss_bytes: int
    arena_bytes: int
    instructions: int
    stack_bytes: int
    stack_bound_bytes: int | None


@dataclass(frozen=True)
class BareMetal:
    """Builds programs for one machine below `folder`, where the kernels' objects are shared."""

    checkouts: Checkouts
    machine: Machine
    folder: Path

    def measured(self, made: Generated, inputs: Sequence[bytes], expected: Mapping[int, bytes]) -> Measured:
        """Run the app's one model on `inputs`. AssertionError where an output is not `expected` (by tensor)."""
        folder, program = self.folder / "measured", runtime_of(made.spec.models[0]).program
        elf = self.build(made, inputs, expected, folder, Build.MEASURED)
        numbers = _numbers(self.run(elf))
        assert numbers["different"] == 0, f"{numbers['different']} bytes of the outputs differ"
        with elf.open("rb") as stream:
            bss = ELFFile(stream).get_section_by_name(".bss")
            size = 0 if bss is None else bss["sh_size"]
        ticks = numbers["ticks"] * 1_000_000_000 // self.machine.clock_hz
        bound = layers_stack_bytes(made.spec, runtime_of(made.spec.models[0]))
        return Measured(size, program.arena_bytes, ticks, numbers["stack"], bound)

    def different(self, made: Generated, inputs: Sequence[bytes], expected: Mapping[int, bytes]) -> dict[int, int]:
        """By tensor, how many bytes of it are not `expected` when they are computed; none where all are right."""
        elf = self.build(made, inputs, expected, self.folder / "checked", Build.CHECKED)
        text = self.run(elf)
        assert _numbers(text)["different"] >= 0
        found = {int(tensor): int(count) for tensor, count in re.findall(r"tensor (\d+): (\d+)\n", text)}
        assert found.keys() == _checked(runtime_of(made.spec.models[0]).program), "not all layers were compared"
        return {tensor: count for tensor, count in found.items() if count}

    def build(
        self, made: Generated, inputs: Sequence[bytes], expected: Mapping[int, bytes], folder: Path, kind: Build
    ) -> Path:
        """The ELF file of the app's one model."""
        (model,) = made.spec.models
        program = runtime_of(model).program
        folder.mkdir(parents=True, exist_ok=True)
        files = render(made.spec)
        for name in files:
            if name.endswith(("_layers.cpp", "_layers.hpp", "_weights.cpp", "fast_kernels.hpp")):
                path = folder / Path(name).name
                path.parent.mkdir(exist_ok=True)
                text = files[name].decode().replace('#include "models/', '#include "')
                path.write_text(_with_checks(text) if kind is Build.CHECKED else text, encoding="utf-8")
        text = _model_text(model.ident, program, inputs, expected, kind)
        (folder / "program.inc").write_text(text, encoding="utf-8")
        (folder / "expected.bin").write_bytes(_blob(inputs, program, expected, kind))
        (folder / "expected.S").write_text(_BLOB, encoding="utf-8")
        (folder / "link.ld").write_text(_linker_script(self.machine), encoding="utf-8")
        elf = folder / "program.elf"
        sources = [str(_PROGRAM), f"{model.ident}_layers.cpp", f"{model.ident}_weights.cpp", "expected.S"]
        command = [f"{_TOOLS}g++", *self.machine.flags, *_COMMON, *_CXX, *self.checkouts.tflm_flags()]
        command += ["-O2"] if "src/fast_kernels.hpp" in files else []  # as the app compiles them
        command += [
            f"-I{self.checkouts.cmsis_nn / 'Include'}",
            "-I.",
            "-nostartfiles",
            "-Wl,--gc-sections",
            "-Tlink.ld",
        ]
        subprocess.run([*command, *sources, *self._objects(made), "-o", str(elf)], cwd=folder, check=True)
        return elf

    def run(self, elf: Path) -> str:
        """All that the program printed."""
        spec = load_board(self.machine.board).qemu
        assert spec is not None
        done = subprocess.run(
            qemu_argv(spec, elf),
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stderr + done.stdout

    def _objects(self, made: Generated) -> list[str]:
        """The app's functions of CMSIS-NN and TFLM's reference functions as objects, each built once."""
        root, flags = self.checkouts.cmsis_nn, [*self.machine.flags, *_COMMON]
        plain = [f"{_TOOLS}gcc", *flags, "-Ofast", "-std=c99", f"-I{root / 'Include'}"]
        found = [self._object(plain, root / path) for path in made.spec.tflm.cmsis_nn_sources]
        cxx = [f"{_TOOLS}g++", *flags, *_CXX, *self.checkouts.tflm_flags()]
        return found + [self._object(cxx, self.checkouts.tflm / path) for path in REFERENCE_SUPPORT]

    def _object(self, command: Sequence[str], source: Path) -> str:
        target = self.folder / "objects" / f"{source.parent.name}_{source.name}.o"
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run([*command, "-c", str(source), "-o", str(target)], check=True)
        return str(target)


def random_inputs(program: CompiledModel) -> list[bytes]:
    """An input for each of the model's, always the same."""
    rng, tensors = random.Random(1), program.model.main.tensors
    return [random_bytes(tensors[index], rng) for index in program.model.main.inputs]


def ways(
    model: Path, app: Path, kernels: str, checkouts: Checkouts, machine: Machine, *, picked: bool = False
) -> Iterator[Generated]:
    """The model's app by each way of its front, the one with the least work first, as a budget of RAM finds it.

    `picked`: with our own kernels where they are faster.
    """
    ram = 1 << 30
    while True:
        try:
            made = generated(model, app, kernels, checkouts.revision, machine.board, ram=ram, picked=picked)
        except PlanError:
            return
        yield made
        ram = made.spec.models[0].arena.bytes - 1


def _numbers(text: str) -> dict[str, int]:
    found = {name: int(value) for name, value in re.findall(r"(ticks|stack|different) (-?\d+)\n", text)}
    assert "different" in found, text
    return found


def _checked(program: CompiledModel) -> set[int]:
    """The tensors that a checked program compares."""
    return {tensor for tensor, *_ in _tensors(program)}


def _tensors(program: CompiledModel) -> list[tuple[int, Layer, int]]:
    """(tensor, layer whose function computes it, its number in a segment or -1), in the order of the layers."""
    found = []
    for layer in program.main_layers:
        if isinstance(layer, SegmentLayer):
            for number, operator in enumerate(layer.segment.operators):
                form = layer.segment.forms[operator]
                found.append((form.output.tensor, layer, -1 if form.gathering else number))
        elif layer.has_code:
            outputs = program.model.main.operators[layer.operator].outputs
            found += [(tensor, layer, -1) for tensor in outputs if tensor in program.offsets]
    # Rows that only a segment's buffers held are gone behind the segment.
    return [one for one in found if one[2] >= 0 or one[0] in program.offsets]


def _blob(inputs: Sequence[bytes], program: CompiledModel, expected: Mapping[int, bytes], kind: Build) -> bytes:
    tensors = program.model.main.outputs if kind is Build.MEASURED else [tensor for tensor, *_ in _tensors(program)]
    return b"".join([*inputs, *(expected[tensor] for tensor in tensors)])


_BLOB = """
	.section .expected, "a"
	.global g_blob
	.balign 16
g_blob:
	.incbin "expected.bin"
"""


def _linker_script(machine: Machine) -> str:
    def memory(name: str, span: tuple[int, int]) -> str:
        return f"{name} (rwx) : ORIGIN = {span[0]:#x}, LENGTH = {span[1]:#x}"

    return f"""
MEMORY {{ {memory("CODE", machine.code)} {memory("RAM", machine.ram)} {memory("DATA", machine.data)} }}
ENTRY(Start)
SECTIONS {{
	.text : {{ KEEP(*(.vectors)) *(.text*) *(.rodata*) }} > CODE
	.ARM.exidx : {{ *(.ARM.exidx*) }} > CODE
	.expected : {{ *(.expected) }} > DATA
	.data : {{ *(.data*) }} > RAM
	.bss (NOLOAD) : {{ *(.bss*) *(COMMON) }} > RAM
	.stack (NOLOAD) : {{ . = ALIGN(16); g_stack = .; . += {_STACK_BYTES}; g_stack_end = .; }} > RAM
	.init_array : {{ *(.init_array*) }} > CODE
	ASSERT(SIZEOF(.data) == 0, "initialised data")
	ASSERT(SIZEOF(.init_array) == 0, "constructors")
}}
"""


_PUSH = "\t\tvoid *const place = data + (next - first) * row_bytes;\n"
_PUSHED = (
    "\t\tg_place = static_cast<uint8_t *>(place);\n\t\tg_bytes = count * row_bytes;\n"
    "\t\tg_first = next * row_bytes;\n"
    "\t\tstd::memset(place, 0xa5, count * row_bytes);\n"
)
_STEP = "\t\t\tif (!layers[next.layer](arena, rows, next.count)) {\n\t\t\t\treturn false;\n\t\t\t}\n"
_STEPPED = "\t\t\tCheckRows(next.layer, g_first, g_place, g_bytes);\n\t\t\tg_bytes = 0;\n"
_HOOKS = (
    "#include <cstdint>\nvoid CheckRows(int32_t number, int32_t first, const uint8_t *rows, int32_t size);\n"
    "static uint8_t *g_place;\nstatic int32_t g_bytes, g_first;\n"
)


def _with_checks(text: str) -> str:
    """The layers' source, where rows are compared when they are computed, in a place that was overwritten before."""
    if _PUSH not in text:
        return text
    assert text.count(_PUSH) == text.count(_STEP) == 1
    first = text.index("#include")
    text = text[:first] + _HOOKS + text[first:]
    return text.replace(_PUSH, _PUSH + _PUSHED).replace(_STEP, _STEP + _STEPPED)


def _model_text(
    name: str, program: CompiledModel, inputs: Sequence[bytes], expected: Mapping[int, bytes], kind: Build
) -> str:
    """The macros of bare_metal.cpp that depend on the model."""
    main, at, copies, checks = program.model.main, 0, [], []
    for tensor, data in zip(main.inputs, inputs, strict=True):
        copies.append(f"std::memcpy(g_arena + {program.offsets[tensor]}, g_blob + {at}, {len(data)});")
        at += len(data)
    start = ["if (!MODEL::Prepare(g_arena)) return -1;"] if program.flags else []
    start += ["MODEL::ResetState(g_arena);"] if has_variables(program) else []
    lines = [f'#define LAYERS_HEADER "{name}_layers.hpp"', f"#define MODEL models::{name}"]
    lines += [_macro("START", start), _macro("INPUTS", copies)]
    if kind is Build.CHECKED:
        most = max([len(layer.members) for layer in program.segments], default=1)
        lines += ["#define CHECKED", f"#define MOST {most}", _macro("LAYERS", _checked_layers(program, expected, at))]
        return "\n".join(lines) + "\n"
    for tensor in main.outputs:
        size = len(expected[tensor])
        checks.append(f"different += Different(g_arena + {program.offsets[tensor]}, g_blob + {at}, {size});")
        at += size
    return "\n".join([*lines, _macro("OUTPUTS", checks)]) + "\n"


def _macro(name: str, statements: Sequence[str]) -> str:
    return " \\\n\t".join([f"#define {name}", *statements])


def _checked_layers(program: CompiledModel, expected: Mapping[int, bytes], at: int) -> list[str]:
    """Statements that run the layers and compare all that they compute."""
    by_layer: dict[int, list[tuple[int, int, int]]] = {}
    for tensor, layer, number in _tensors(program):
        by_layer.setdefault(layer.operator, []).append((tensor, number, at))
        at += len(expected[tensor])
    found = []
    for k, layer in enumerate(program.layers):
        tensors = by_layer.get(layer.operator, [])
        for _, number, first in tensors:
            if number >= 0:
                found.append(f"g_want[{number}] = g_blob + {first}, g_different[{number}] = 0;")
        found.append(f"different += !MODEL::RunLayer(g_arena, {k});")
        for tensor, number, first in tensors:
            here = f"Different(g_arena + {program.offsets.get(tensor)}, g_blob + {first}, {len(expected[tensor])})"
            found.append(f"count = {here if number < 0 else f'g_different[{number}]'};")
            found.append(f'Say("tensor {tensor}: ", count), different += count;')
    return found

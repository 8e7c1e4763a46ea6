# SPDX-License-Identifier: Apache-2.0
"""Our own kernels beside CMSIS-NN's: python benchmarks/kernels.py [--models NAME ...] [-c CORE ...]

Each model is compiled with CMSIS-NN's kernels and with ours (--fast-kernels), and runs on bare metal in QEMU: CMSIS-NN
at -Ofast, the layers as an app has them. Printed are, for each layer, the instructions of both, ours by class (loads,
stores, multiplies, taken branches), and cycles ESTIMATED from the executed blocks with published timings; nothing here
measures cycles, and `--wait-states` adds to them what flash that is read 16 bytes at a time costs. Last come all
layers, the RAM of either way and the bytes of code. Both ways are checked to have equal outputs.

The timings are those of the tables of instructions in chapter 3 of the Technical Reference Manuals of Cortex-M3 and
Cortex-M4, and of Cortex-M0+. Arm publishes none for Cortex-M33: those of Cortex-M4 stand in. Branches that are taken
cost three cycles there. A Cortex-M55 takes two for each Helium instruction (its Software Optimization Guide).

Needs a west workspace (ZEPHYR_BASE) with the tflite-micro and cmsis-nn modules, arm-none-eabi-gcc and QEMU.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.bare_app import run  # noqa: E402
from benchmarks.common import Bench, add_models, chosen, main_of, say, say_load  # noqa: E402
from benchmarks.compiled import models  # noqa: E402
from tests.helpers.semihosting import START  # noqa: E402
from tflm_zephyr import process  # noqa: E402
from tflm_zephyr.codegen import render  # noqa: E402
from tflm_zephyr.codegen.backends.compiled import runtime_of  # noqa: E402
from tflm_zephyr.codegen.generation import AppRequest, generate  # noqa: E402
from tflm_zephyr.compiler import CompiledModel  # noqa: E402
from tflm_zephyr.errors import BuildError, ToolError  # noqa: E402
from tflm_zephyr.options import AppConfig, ModelConfig  # noqa: E402
from tflm_zephyr.tflm import tflm_of  # noqa: E402
from tflm_zephyr.tflm.sources import INCLUDE_DIRS, REFERENCE_SUPPORT  # noqa: E402

MARK = "LayerBegins"


@dataclass(frozen=True)
class Core:
    """A core, the board and machine that have it, and the compiler's flags for it."""

    name: str
    board: str
    machine: str
    flags: tuple[str, ...]
    clock_hz: int = 25_000_000

    @property
    def cpu(self) -> str:
        """Its name in tables: "cortex-m4"."""
        return self.flags[0].removeprefix("-mcpu=")


CORES: Mapping[str, Core] = {
    "m3": Core("Cortex-M3", "mps2/an385", "mps2-an385", ("-mcpu=cortex-m3",)),
    "m4": Core("Cortex-M4", "mps2/an386", "mps2-an386", ("-mcpu=cortex-m4", "-mfloat-abi=soft")),
    "m33": Core("Cortex-M33", "mps2/an521/cpu0", "mps2-an505", ("-mcpu=cortex-m33", "-mfloat-abi=soft"), 20_000_000),
}


ALL_CORES: Mapping[str, Core] = {
    "m0plus": Core("Cortex-M0+", "rpi_pico", "mps2-an385", ("-mcpu=cortex-m0plus",)),
    **CORES,
    "m55": Core(
        "Cortex-M55", "mps3/corstone300/an547", "mps3-an547", ("-mcpu=cortex-m55", "-mfloat-abi=hard"), 32_000_000
    ),
}
"""All cores. QEMU's machines of a Cortex-M0 have little memory: a Cortex-M3 runs its instructions as well."""


@dataclass(frozen=True)
class Timing:
    """Cycles of an instruction by its class. A load behind another one takes `next_load`."""

    load: int
    next_load: int
    multiply_add: int
    long_multiply: int
    taken: int
    vector: int = 1


TIMINGS: Mapping[str, Timing] = {
    "m0plus": Timing(load=2, next_load=2, multiply_add=1, long_multiply=1, taken=2),
    "m3": Timing(load=2, next_load=1, multiply_add=2, long_multiply=4, taken=3),
    "m4": Timing(load=2, next_load=1, multiply_add=1, long_multiply=1, taken=3),
    "m33": Timing(load=2, next_load=1, multiply_add=1, long_multiply=1, taken=3),
    "m55": Timing(load=1, next_load=1, multiply_add=1, long_multiply=1, taken=2, vector=2),
}
FETCHED_BYTES = 16
_FEW = 50_000  # instructions
_LOAD = re.compile(r"^(ldr|ldm|pop|vldr|ldrd)")
_STORE = re.compile(r"^(str|stm|push|strd)")
_MULTIPLY_ADD = re.compile(r"^(mla|mls|smlad|smla[bt][bt]|smlab|smlat|smmla|smmul)")
_LONG = re.compile(r"^(smull|umull|smlal|umlal)")
_MULTIPLY = re.compile(r"^(mul|mla|mls|smla|smul|smmla|smmul|smull|umull|umlal|smlal|smuad)")
_DIVIDE = re.compile(r"^(sdiv|udiv)")


@dataclass(frozen=True)
class Instruction:
    """A line of the disassembly."""

    name: str
    operands: str
    size: int

    @property
    def words(self) -> int:
        """Words that a load or a store moves."""
        if self.name.startswith(("ldrd", "strd")):
            return 2
        listed = re.search(r"\{([^}]*)\}", self.operands)
        return len(listed[1].split(",")) if listed else 1


@dataclass
class Cost:
    """Instructions, those by class, and estimated cycles without wait states."""

    instructions: int = 0
    cycles: int = 0
    fetches: int = 0
    mix: Counter[str] = field(default_factory=Counter)

    def add(self, other: Cost, times: int) -> None:
        """Add another cost, so many times."""
        self.instructions += times * other.instructions
        self.cycles += times * other.cycles
        self.fetches += times * other.fetches
        for name, count in other.mix.items():
            self.mix[name] += times * count


def cost_of_block(block: Sequence[Instruction], timing: Timing) -> Cost:
    """A block's cost but for its last branch, which is counted where the next block is known."""
    cost = Cost(len(block), fetches=-(-sum(one.size for one in block) // FETCHED_BYTES))
    loaded = False
    for one in block:
        loads = bool(_LOAD.match(one.name))
        if loads:
            cost.mix["loads"] += 1
            cost.cycles += (timing.next_load if loaded else timing.load) + one.words - 1
        elif one.name.startswith("v") and timing.vector > 1:
            cost.cycles += timing.vector
        elif _STORE.match(one.name):
            cost.mix["stores"] += 1
            cost.cycles += one.words
        elif _LONG.match(one.name):
            cost.cycles += timing.long_multiply
        elif _MULTIPLY_ADD.match(one.name):
            cost.cycles += timing.multiply_add
        else:
            cost.cycles += 6 if _DIVIDE.match(one.name) else 1
        cost.mix["multiplies"] += bool(_MULTIPLY.match(one.name))
        loaded = loads
    return cost


MAIN = """
#include "models/net_layers.hpp"
{START}
__attribute__((noinline)) void LayerBegins()
{
	asm volatile("");
}

alignas(16) static uint8_t arena[models::net::kArenaBytes];

static uint32_t Sum(size_t first, size_t size)
{
	uint32_t sum = 2166136261u;
	for (size_t k = 0; k < size; ++k) {
		sum = (sum ^ arena[first + k]) * 16777619u;
	}
	return sum;
}

int main()
{
	static const struct { uint32_t first, size, seed; } kInputs[] = {INPUTS};
	static const struct { uint32_t first, size; } kOutputs[] = {OUTPUTS};
	for (const auto &input : kInputs) {
		uint32_t state = input.seed;
		for (uint32_t k = 0; k < input.size; ++k) {
			state = state * 1664525u + 1013904223u;
			arena[input.first + k] = state >> 24;
		}
	}
	StartTicks();
	for (size_t layer = 0; layer < LAYERS; ++layer) {
		LayerBegins();
		if (!models::net::RunLayer(arena, layer)) {
			Fault();
		}
	}
	LayerBegins();
	const uint32_t ticks = Ticks();
	Print("ticks", ticks);
	for (const auto &output : kOutputs) {
		Print("output", Sum(output.first, output.size));
	}
	return 0;
}

}
"""
SCRIPT = """
ENTRY(Reset)
MEMORY { ROM : ORIGIN = %(rom)s, LENGTH = %(rom_bytes)s
         RAM : ORIGIN = %(ram)s, LENGTH = %(ram_bytes)s }
SECTIONS {
  .text : { KEEP(*(.vectors)) *(.text*) } > ROM
  .rodata : { *(.rodata*) *(.init_array*) } > ROM
  .exidx : { *(.ARM.exidx*) *(.ARM.extab*) } > ROM
  _data_load = LOADADDR(.data);
  .data : { _data_start = .; *(.data*) . = ALIGN(4); _data_end = .; } > RAM AT > ROM
  .bss : { _bss_start = .; *(.bss*) *(COMMON) . = ALIGN(4); _bss_end = .; end = .; } > RAM
  .stack (NOLOAD) : { . += 2K; } > RAM
  _stack_end = ORIGIN(RAM) + LENGTH(RAM);
}
"""
_PLAIN_MEMORY = {"rom": "0x00000000", "ram": "0x20000000", "rom_bytes": "4M", "ram_bytes": "2M"}
_MEMORY = {
    "mps2-an505": {**_PLAIN_MEMORY, "rom": "0x10000000", "ram": "0x38000000"},
    "mps3-an547": {"rom": "0x10000000", "rom_bytes": "512K", "ram": "0x31000000", "ram_bytes": "2M"},
}


@dataclass(frozen=True)
class Measured:
    """A model on a core by one way: the cost of each layer, by operator, its arena, code bytes, constants, outputs."""

    elf: Path
    program: CompiledModel
    layers: tuple[Cost, ...]
    code: int
    outputs: str

    @property
    def whole(self) -> Cost:
        """All layers."""
        cost = Cost()
        for layer in self.layers:
            cost.add(layer, 1)
        return cost


@dataclass(frozen=True)
class Machine:
    """Builds and runs models on one core, with the kernels of a library."""

    bench: Bench
    key: str
    kernels: str = "cmsis_nn"

    @property
    def core(self) -> Core:
        """The core."""
        return ALL_CORES[self.key]

    @property
    def folder(self) -> Path:
        """Objects that models share."""
        folder = self.bench.folder / self.key
        folder.mkdir(exist_ok=True)
        return folder

    def flags(self) -> list[str]:
        """The compiler's flags for every source."""
        tflm, cmsis_nn = self.bench.workspace.tflm_dir, self.bench.workspace.cmsis_nn_dir
        assert tflm is not None and cmsis_nn is not None
        found = [*self.core.flags, "-mthumb", "-ffunction-sections", "-fdata-sections", "-w", "-DNDEBUG", "-g0"]
        found += ["-DTF_LITE_STATIC_MEMORY", "-DTF_LITE_STRIP_ERROR_STRINGS", "-fno-exceptions", "-fno-rtti"]
        found += [f"-I{tflm / name}" for name in INCLUDE_DIRS]
        return [*found, f"-I{cmsis_nn / 'Include'}", f"-I{cmsis_nn}"]

    def functions(self, sources: Sequence[str]) -> list[str]:
        """The objects of CMSIS-NN's sources at -Ofast, each compiled once."""
        root = self.bench.workspace.cmsis_nn_dir
        assert root is not None
        flags = [flag for flag in self.flags() if flag != "-fno-rtti"]
        return self._objects(["arm-none-eabi-gcc", "-Ofast", *flags], root, sources)

    def support(self) -> list[str]:
        """The objects of TFLM's support functions, each compiled once."""
        tflm = self.bench.workspace.tflm_dir
        assert tflm is not None
        return self._objects(["arm-none-eabi-g++", "-std=c++17", "-Os", *self.flags()], tflm, REFERENCE_SUPPORT)

    def _objects(self, command: Sequence[str], root: Path, sources: Sequence[str]) -> list[str]:
        names = {path: self.folder / f"{path.rpartition('/')[0].count('/')}_{Path(path).stem}.o" for path in sources}
        for path, target in names.items():
            if not target.exists():
                run([*command, "-c", str(root / path), "-o", str(target)], self.folder)
        return [str(target) for target in names.values()]

    def measure(self, model: Path, *, fast: bool, **options: Any) -> Measured:
        """Compile the model, run it once and read what was executed. `options`: as for built(). Raises BuildError."""
        program, elf = self.built(model, fast=fast, **options)
        costs, outputs = self._executed(elf, len(program.main_layers))
        return Measured(elf, program, costs, _code_bytes(elf, program), outputs)

    def built(self, model: Path, *, fast: bool, every: bool = False, **options: Any) -> tuple[CompiledModel, Path]:
        """The model as code, and a program that runs it once on inputs that are always the same. Raises BuildError.

        `every`: `fast` kernels in each layer that one takes, not only where they are estimated to be faster. `options`:
        those of AppConfig, such as `rows`.
        """
        label = "_".join(
            f"{key}{value}" for key, value in sorted(options.items()) if value is not None and value is not False
        )
        folder = self.bench.folder / f"{model.stem}_{self.key}_{self.kernels}_{fast}_{label}"
        config = AppConfig(
            models=(ModelConfig(model, name="net"),), boards=(self.core.board,), kernels=self.kernels,
            model_data="array", backend="compiled", fast_kernels=fast, every_fast_kernel=every, **options,
        )  # fmt: skip
        made = generate(AppRequest(config, folder, tflm_of(None, self.bench.workspace.tflm_revision), golden=False))
        (spec,) = made.spec.models
        program = runtime_of(spec).program
        files = {name: data for name, data in render(made.spec).items() if name.startswith("tflm/src/")}
        files = files or {name: data for name, data in render(made.spec).items() if "src/" in name}
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            path = folder / "src" / name.partition("src/")[2]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        # As the app compiles them.
        level = "-O2" if any(name.endswith("/fast_kernels.hpp") for name in files) else "-Os"
        return program, self._linked(folder, program, level, made.spec.tflm.cmsis_nn_sources)

    def linker_script(self) -> str:
        """The linker script of its memory."""
        return SCRIPT % _MEMORY.get(self.core.machine, _PLAIN_MEMORY)

    def _linked(self, folder: Path, program: CompiledModel, level: str, functions: Sequence[str]) -> Path:
        main = program.model.main
        places = [(program.offsets[t], main.tensors[t].size_bytes) for t in main.inputs]
        inputs = ", ".join(f"{{{first}, {size}, {7 + k}}}" for k, (first, size) in enumerate(places))
        ends = [(program.offsets[t], main.tensors[t].size_bytes) for t in main.outputs]
        outputs = ", ".join(f"{{{first}, {size}}}" for first, size in ends)
        text = (
            MAIN.replace("{START}", START).replace("{INPUTS}", f"{{{inputs}}}").replace("{OUTPUTS}", f"{{{outputs}}}")
        )
        (folder / "main.cpp").write_text(text.replace("LAYERS", str(len(program.main_layers))))
        (folder / "link.ld").write_text(self.linker_script())
        elf = folder / "net.elf"
        sources = [folder / "main.cpp", *(folder / "src" / "models").glob("net_[lw]*.cpp")]
        sources += [path for path in [folder / "src" / "tflm_kernel.cpp"] if program.fallbacks]
        command = ["arm-none-eabi-g++", "-std=c++17", level, *self.flags(), f"-I{folder / 'src'}", *map(str, sources)]
        command += [
            *self.functions(functions),
            *self.support(),
            "-nostartfiles",
            f"-T{folder / 'link.ld'}",
            "-Wl,--gc-sections",
            "-o",
            str(elf),
        ]
        run([*command, "--specs=nano.specs", "--specs=nosys.specs"], folder)
        return elf

    def _executed(self, elf: Path, layers: int) -> tuple[tuple[Cost, ...], str]:
        """Cost of each layer, and the lines that the program printed."""
        found, outputs = self.traced(elf)
        if len(found) != layers + 2:
            raise BuildError(f"{len(found)} marks, not {layers + 2}", where=str(elf))
        return tuple(found[1:-1]), outputs

    def traced(self, elf: Path, *marks: str) -> tuple[list[Cost], str]:
        """Cost before each call of LayerBegins() and of the functions `marks`, and the printed lines. BuildError."""
        log = elf.with_suffix(".log")
        printed = self.run(elf, "-d", "exec,nochain,in_asm", "-D", str(log)).splitlines()
        outputs = "\n".join(line for line in printed if "ticks" not in line)
        places = frozenset(symbol_of(elf, name) for name in (MARK, *marks))
        trace = Trace(disassembled(elf), TIMINGS[self.key], places)
        with log.open() as lines:
            found = trace.read(lines)
        log.unlink()
        return found, outputs

    def run(self, elf: Path, *flags: str) -> str:
        """A line for each output of the program, with a checksum. Raises BuildError where it does not end well."""
        command = ["qemu-system-arm", "-M", self.core.machine, "-kernel", str(elf), "-display", "none", *flags]
        command += ["-serial", "none", "-monitor", "none", "-semihosting-config", "enable=on,target=native"]
        done = process.run(tuple(command), cwd=elf.parent, timeout_s=600)
        if done.returncode != 0 or "output" not in done.output:
            raise BuildError(f"it did not run:\n{done.output}", where=str(elf))
        return done.output

    def counted(self, elf: Path) -> int:
        """The instructions of the program's one inference. Raises BuildError.

        With -icount an instruction takes a nanosecond of QEMU's time, and the timer's ticks tell how many there were,
        to some tens of them. The blocks of few instructions are counted one by one.
        """
        ticks = re.search(r"^ *ticks *([0-9a-f]{8})$", self.run(elf, "-icount", "shift=0"), re.M)
        if ticks is None:
            raise BuildError("it printed no ticks", where=str(elf))
        found = round(int(ticks[1], 16) * 1e9 / self.core.clock_hz)
        if found >= _FEW:
            return found
        costs, _ = self.traced(elf)
        return sum(cost.instructions for cost in costs[1:-1])


@dataclass(frozen=True)
class Trace:
    """Reads QEMU's log of executed blocks, which begin anew at each call of the functions at `marks`.

    `only`: jumps count that lead to these addresses; None for all.
    """

    code: Mapping[int, Instruction]
    timing: Timing
    marks: frozenset[int]
    only: frozenset[int] | None = None

    def read(self, lines: Iterator[str]) -> list[Cost]:
        """The cost of what ran before each mark and behind the last one."""
        blocks: dict[int, Cost] = {}
        ends: dict[int, int] = {}
        counts: list[Counter[int]] = [Counter()]
        taken: list[int] = [0]
        start, last_end, addresses = -1, -1, list[int]()
        for line in lines:
            if line.startswith("Trace"):
                if start >= 0:
                    self._keep(start, addresses, blocks, ends)
                    start = -1
                at = int(line.split("/")[1], 16)
                if at in self.marks:
                    counts.append(Counter())
                    taken.append(0)
                counts[-1][at] += 1
                taken[-1] += at != last_end and (self.only is None or at in self.only)
                last_end = ends.get(at, -1)
            elif line.startswith("IN:"):
                if start >= 0:
                    self._keep(start, addresses, blocks, ends)
                start, addresses = 0, []
            elif line.startswith("0x") and start >= 0:
                addresses.append(int(line[2:10], 16))
        return [self._summed(count, jumps, blocks) for count, jumps in zip(counts, taken, strict=True)]

    def _keep(self, start: int, addresses: list[int], blocks: dict[int, Cost], ends: dict[int, int]) -> None:
        if addresses:
            span = range(addresses[0], addresses[-1] + 1, 2)
            found = [self.code[address] for address in span if address in self.code]
            blocks[addresses[0]] = cost_of_block(found, self.timing)
            last = self.code.get(addresses[-1])
            ends[addresses[0]] = addresses[-1] + (last.size if last else 2)

    def _summed(self, count: Counter[int], jumps: int, blocks: Mapping[int, Cost]) -> Cost:
        cost = Cost()
        for at, times in count.items():
            cost.add(blocks[at], times)
        cost.mix["taken branches"] += jumps
        cost.cycles += jumps * (self.timing.taken - 1)
        return cost


def disassembled(elf: Path) -> dict[int, Instruction]:
    """The instructions by address."""
    found = {}
    text = run(["arm-none-eabi-objdump", "-d", "--no-show-raw-insn", elf], elf.parent)
    rows = [line.split("\t") for line in text.splitlines() if re.match(r"^\s*[0-9a-f]+:\t", line)]
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        address = int(row[0].strip(" :"), 16)
        after = int(following[0].strip(" :"), 16) if following else address + 2
        found[address] = Instruction(row[1].strip(), row[2] if len(row) > 2 else "", 4 if after - address >= 4 else 2)
    return found


def symbol_of(elf: Path, name: str) -> int:
    """The address of a function."""
    text = run(["arm-none-eabi-nm", elf], elf.parent)
    return next(int(line.split()[0], 16) & ~1 for line in text.splitlines() if line.endswith(f" {name}"))


def _code_bytes(elf: Path, program: CompiledModel) -> int:
    """Bytes of code and constants without the models' arrays."""
    text = run(["arm-none-eabi-size", "-A", elf], elf.parent)
    sizes = {line.split()[0]: int(line.split()[1]) for line in text.splitlines() if line.startswith(".")}
    return sizes[".text"] + sizes.get(".rodata", 0) - program.flash_bytes


def ratio(one: int, other: int) -> str:
    """`one` as a share of `other`."""
    return f"{one / other:.3f}" if other else "-"


def lines(arm: Measured, own: Measured, waits: int) -> Iterator[str]:
    """The table of a model."""

    def cycles(cost: Cost) -> int:
        return cost.cycles + waits * cost.fetches

    yield f"{'layer':34}{'CMSIS-NN':>12}{'own':>12}{'ratio':>7}{'est. cycles':>13}{'own':>12}{'ratio':>7}  own: mix"
    for number, (one, other) in enumerate(zip(arm.layers, own.layers, strict=True)):
        layer = own.program.main_layers[number]
        kind = "own" if layer.fast else ""
        mix = ", ".join(f"{name} {count:,}" for name, count in other.mix.items())
        yield (
            f"{number:3} {layer.key:24} {kind:4}  {one.instructions:12,}{other.instructions:12,}"
            f"{ratio(other.instructions, one.instructions):>7}{cycles(one):13,}{cycles(other):12,}"
            f"{ratio(cycles(other), cycles(one)):>7}  {mix}"
        )
    one, other = arm.whole, own.whole
    yield (
        f"{'all':34}{one.instructions:12,}{other.instructions:12,}{ratio(other.instructions, one.instructions):>7}"
        f"{cycles(one):13,}{cycles(other):12,}{ratio(cycles(other), cycles(one)):>7}"
    )
    arms, owns = arm.program, own.program
    yield (
        f"RAM {arms.arena_bytes:,} -> {owns.arena_bytes:,}, code {arm.code:,} -> {own.code:,}, "
        f"constants {arms.flash_bytes:,} -> {owns.flash_bytes:,} bytes; outputs "
        f"{'equal' if arm.outputs == own.outputs else 'DIFFER'}"
    )


def main() -> int:
    """Measure every core that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-c", "--core", action="append", choices=tuple(CORES), help="default: all; may be repeated")
    add_models(parser)
    parser.add_argument("--rows", action="store_true", help="ours row by row")
    parser.add_argument("--wait-states", type=int, default=0, metavar="N", help="cycles for each 16 bytes of code")

    def body(args: argparse.Namespace, bench: Bench) -> None:
        say_load()
        for key in args.core or CORES:
            machine = Machine(bench, key)
            for name, model in chosen(models(bench.folder), args.models).items():
                try:
                    arm = machine.measure(model, fast=False)
                    own = machine.measure(model, fast=True, rows=args.rows)
                except ToolError as error:
                    say(f"\n{name} on {machine.core.name}: {str(error).splitlines()[0][:100]}")
                    continue
                say(f"\n{name} on {machine.core.name}, {args.wait_states} wait states; cycles are estimated")
                for line in lines(arm, own, args.wait_states):
                    say(line)

    return main_of(parser, body)


if __name__ == "__main__":
    sys.exit(main())

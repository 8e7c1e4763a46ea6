# SPDX-License-Identifier: Apache-2.0
"""Costs of TFLM's operators: python benchmarks/operator_costs.py [--update] [-c CORE ...] [-k LIBRARY ...]

Runs layers of a grid of operators and shapes (benchmarks/operator_grid.py) through TFLM's MicroInterpreter on bare
metal in QEMU, TFLM at -Os and CMSIS-NN at -Ofast, as apps have them. Instructions of each operator are counted from its
call to the next one's, cycles are ESTIMATED from the executed blocks (benchmarks/kernels.py). The counts of each
operator's loops (tflm_zephyr.costs.work_counts) are fitted to them; the errors are those of each shape by a fit to all
others. The same layers run as generated code, which calls the kernels without TFLM's Eval.

`--update` writes tflm_zephyr/data/costs/<core>.json. A core and library takes one to three minutes.

Needs a west workspace (ZEPHYR_BASE) with the tflite-micro and cmsis-nn modules, arm-none-eabi-gcc and QEMU.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.bare_app import run  # noqa: E402
from benchmarks.common import Bench, main_of, say, say_load  # noqa: E402
from benchmarks.kernel_costs import call_bytes, non_negative, reached_functions, rounded, update  # noqa: E402
from benchmarks.kernels import ALL_CORES, CORES, Cost, Machine  # noqa: E402
from benchmarks.operator_grid import grid, grid_models  # noqa: E402
from tests.helpers import kernel_grid  # noqa: E402
from tests.helpers.semihosting import START  # noqa: E402
from tflm_zephyr.compiler import CompiledModel, FallbackLayer  # noqa: E402
from tflm_zephyr.compiler.kernel_shapes import shape_of  # noqa: E402
from tflm_zephyr.compiler.operator_shapes import operator_shape  # noqa: E402
from tflm_zephyr.costs import (  # noqa: E402
    CMSIS_NN,
    EVAL,
    HELIUM,
    INVOKE,
    REFERENCE,
    CoreTable,
    Fit,
    FitError,
    KernelFits,
    LibraryTable,
    Shape,
    work_counts,
)
from tflm_zephyr.errors import ToolError  # noqa: E402
from tflm_zephyr.kernels import CMSIS_NN_REVISION, Node  # noqa: E402
from tflm_zephyr.model import Model, parse_model  # noqa: E402
from tflm_zephyr.tflm import op_resolver  # noqa: E402
from tflm_zephyr.tflm.sources import shipped_source_table  # noqa: E402

LIBRARIES = (CMSIS_NN, REFERENCE)
_LAYER = re.compile(r"\d+Layer(\d+)[A-Z]")
RESET = "_ZN6tflite14MicroAllocator20ResetTempAllocationsEv"
"""MicroInterpreterGraph::InvokeSubgraph calls it behind each operator."""
MAIN = """
#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"
#include "tensorflow/lite/schema/schema_generated.h"
#include <cstdarg>
#include <new>
{START}
__attribute__((noinline)) void LayerBegins()
{
	asm volatile("");
}

void DebugLog(const char *, va_list) {}
int DebugVsnprintf(char *, size_t, const char *, va_list) { return 0; }

alignas(16) static uint8_t arena[ARENA];
alignas(16) static uint8_t place[sizeof(tflite::MicroInterpreter)];
alignas(16) static uint8_t calls[sizeof(tflite::MicroMutableOpResolver<OPERATORS>)];
extern const uint8_t tflm_model[];
asm(".section .rodata\\n.balign 16\\n.global tflm_model\\ntflm_model:\\n.incbin \\"model.tflite\\"\\n.text\\n");

int main()
{
	auto &resolver = *new (calls) tflite::MicroMutableOpResolver<OPERATORS>();
ADDED
	auto &interpreter = *new (place)
		tflite::MicroInterpreter(tflite::GetModel(tflm_model), resolver, arena, sizeof(arena));
	if (interpreter.AllocateTensors() != kTfLiteOk) {
		Fault();
	}
	uint32_t state = 7;
	for (size_t k = 0; k < interpreter.inputs_size(); ++k) {
		TfLiteTensor *input = interpreter.input(k);
		for (size_t at = 0; at < input->bytes; ++at) {
			state = state * 1664525u + 1013904223u;
			if (input->type == kTfLiteFloat32) {
				input->data.f[at / 4] = static_cast<int32_t>(state >> 8) * 1e-7f - 0.8f;
			} else {
				input->data.raw[at] = state >> 24;
			}
		}
	}
	LayerBegins();
	StartTicks();
	if (interpreter.Invoke() != kTfLiteOk) {
		Fault();
	}
	const uint32_t ticks = Ticks();
	LayerBegins();
	Print("ticks", ticks);
	Print("output", 1);
	return 0;
}

}
"""


@dataclass(frozen=True)
class Sample:
    """An operator's measured work."""

    shape: Shape
    instructions: int
    cycles: int


@dataclass(frozen=True)
class Interpreter:
    """Builds and runs models with TFLM's interpreter on a machine, with the kernels of a library."""

    machine: Machine
    library: str

    @property
    def folder(self) -> Path:
        """Objects that models share."""
        folder = self.machine.folder / self.library
        folder.mkdir(exist_ok=True)
        return folder

    def samples(self, path: Path) -> list[Sample]:
        """The work of each operator of the model, and last that of an inference without operators."""
        model = parse_model(path.read_bytes())
        elf = self.built(path, model)
        count = len(model.main.operators)
        costs = self.machine.traced(elf, RESET)[0][-count - 2 :]
        found = []
        for operator, cost in zip(model.main.operators, costs, strict=False):
            shape = operator_shape(Node(model, model.main, operator))
            found.append(Sample(shape, cost.instructions, cost.cycles))
        return [*found, _invoke(costs, found)]

    def built(self, path: Path, model: Model, arena: int = 1 << 18) -> Path:
        """The program that runs the model once."""
        folder = self.folder / path.stem
        folder.mkdir(exist_ok=True)
        known = op_resolver.shipped_operator_table().calls
        calls = [known[key] for key in sorted({operator.key for operator in model.main.operators})]
        added = "\n".join(f"\tresolver.{call.method}();" for call in calls)
        text = MAIN.replace("{START}", START).replace("ADDED", added)
        text = text.replace("OPERATORS", str(len(calls))).replace("ARENA", str(arena))
        (folder / "main.cpp").write_text(text)
        (folder / "model.tflite").write_bytes(path.read_bytes())
        (folder / "link.ld").write_text(self.machine.linker_script())
        names = [call.register for call in calls]
        table = shipped_source_table(self.library)
        sources = table.select(names)
        objects = [*self._objects(sources), *self.machine.functions(table.select_functions(sources))]
        elf = folder / "net.elf"
        command = ["arm-none-eabi-g++", *self._flags(), "main.cpp", *objects]
        command += ["-nostartfiles", "-Tlink.ld", "-Wl,--gc-sections", "-o", str(elf)]
        run([*command, "--specs=nano.specs", "--specs=nosys.specs"], folder)
        return elf

    def _flags(self) -> list[str]:
        return ["-std=c++17", "-Os", "-fno-threadsafe-statics", *self.machine.flags(), "-DCMSIS_NN"]

    def _objects(self, sources: Sequence[str]) -> list[str]:
        """The objects of TFLM's sources, each compiled once."""
        tflm = self.machine.bench.workspace.tflm_dir
        assert tflm is not None
        names = {path: self.folder / path.replace("/", "_").replace(".cc", ".o") for path in sources}
        for path, target in names.items():
            if not target.exists():
                compiler = "arm-none-eabi-g++" if path.endswith((".cc", ".cpp")) else "arm-none-eabi-gcc"
                flags = self._flags() if compiler.endswith("g++") else self._flags()[1:]
                run([compiler, *flags, "-c", str(tflm / path), "-o", str(target)], self.folder)
        return [str(target) for target in names.values()]


def _invoke(costs: Sequence[Cost], found: Sequence[Sample]) -> Sample:
    """Counts of Invoke() behind its last operator; in front of the first it is part of that one."""
    last = costs[len(found)]
    return Sample(INVOKE, last.instructions, last.cycles)


@dataclass(frozen=True)
class Samples:
    """The grid's work through the interpreter, as generated code, and the difference where both call one function."""

    operators: list[Sample]
    calls: list[Sample]
    evals: list[Sample]
    function_bytes: dict[str, int]
    called: dict[str, tuple[str, ...]]
    layer_bytes: dict[str, list[int]]


def measured(machine: Machine, families: Sequence[str] = ()) -> Samples:
    """The samples of all models of the grid; a model's first operator is left out, as Invoke's beginning is in it."""
    found = Samples([], [], [], {}, {}, {})
    interpreter = Interpreter(machine, machine.kernels)
    for name, data in grid_models(families).items():
        path = machine.bench.folder / f"{name}.tflite"
        path.write_bytes(data)
        samples = interpreter.samples(path)
        found.operators.extend(samples[1:])
        if not name.startswith(("float", "int16")):
            operators = parse_model(data).main.operators
            through = {one.outputs[0]: sample for one, sample in zip(operators[1:], samples[1:], strict=False)}
            _add_calls(machine, path, through, found)
        say(f"{machine.core.name} {machine.kernels} {name}: {sum(one.instructions for one in samples):,} instructions")
    if machine.kernels == CMSIS_NN and machine.key not in CORES:  # those are benchmarks/kernel_costs.py's
        for name, layers in kernel_grid.grid().items():
            path = machine.bench.folder / f"{name}.tflite"
            path.write_bytes(kernel_grid.grid_model(layers))
            _add_calls(machine, path, {}, found)
            say(f"{machine.core.name} {name}: {len(layers)} shapes")
    return found


def _add_calls(machine: Machine, path: Path, through: Mapping[int, Sample], found: Samples) -> None:
    """Run the model as generated code; layers with kernels of TFLM's own or without code are left out.

    `through`: the interpreter's samples by output, as the compiler has an order of its own.
    """
    compiled = machine.measure(path, fast=False)
    model = compiled.program.model
    add_code(compiled.elf, compiled.program, found)
    for layer, cost in zip(compiled.program.main_layers, compiled.layers, strict=True):
        if isinstance(layer, FallbackLayer) or not layer.has_code:
            continue
        node = Node(model, model.main, model.main.operators[layer.operator])
        shape, other = shape_of(node, layer), through.get(node.operator.outputs[0])
        if shape is None:
            found.calls.append(Sample(operator_shape(node), cost.instructions, cost.cycles))
            continue
        if machine.key not in CORES:
            found.calls.append(Sample(shape, cost.instructions, cost.cycles))
        if other is not None:
            key = replace(shape, kernel=f"{EVAL}{layer.key}")
            more = other.instructions - cost.instructions, other.cycles - cost.cycles
            found.evals.append(Sample(key, *more))


def add_code(elf: Path, program: CompiledModel, found: Samples) -> None:
    """Add the bytes of the layers' functions, and the functions that they call, by kernel."""
    model = program.model
    names = {int(match[1]): name for name in _functions(elf) if (match := _LAYER.search(name))}
    table, reached = reached_functions(elf, names.values())
    calls = call_bytes(elf)
    for layer in program.main_layers:
        name = names.get(layer.operator, "")
        if isinstance(layer, FallbackLayer) or name not in reached:
            continue
        node = Node(model, model.main, model.main.operators[layer.operator])
        shape = shape_of(node, layer) or operator_shape(node)
        found.layer_bytes.setdefault(shape.kernel, []).append(calls[layer.operator])
        functions = reached[name] - {name}
        found.called[shape.kernel] = tuple(sorted({*found.called.get(shape.kernel, ()), *functions}))
        found.function_bytes.update({one: table[one] for one in functions})


def _functions(elf: Path) -> list[str]:
    """The names of the program's functions."""
    lines = (line.split() for line in run(["arm-none-eabi-nm", elf], elf.parent).splitlines())
    return [parts[-1] for parts in lines if len(parts) > 2 and parts[1] in "tT"]


def middle(samples: Sequence[Sample]) -> list[Sample]:
    """The sample in the middle of those of each name, as all of a name should be alike."""
    names = sorted({sample.shape.kernel for sample in samples})
    return [
        sorted((one for one in samples if one.shape.kernel == name), key=lambda one: one.instructions)[
            sum(one.shape.kernel == name for one in samples) // 2
        ]
        for name in names
    ]


def fitted(counts: Sequence[Mapping[str, int]], values: Sequence[int]) -> Fit:
    """Factors of the counts that give the values, with the error on each by a fit to all others.

    Where these are fewer than the counts, the errors are those of the fit itself. A single value grows with its counts:
    it has no part that each call takes.
    """
    import numpy

    names = sorted({name for count in counts for name in count})
    if len(values) == 1 and len(names) > 1:
        names.remove("call")
    table = numpy.array([[count.get(name, 0) for name in names] for count in counts], float)
    wanted = numpy.array(values, float)
    rows, ones = table / wanted[:, None], numpy.ones(len(values))
    factors = non_negative(rows, ones)
    off = []
    for k in range(len(values)):
        others = [at for at in range(len(values)) if at != k]
        rest = non_negative(rows[others], ones[others]) if len(others) >= len(names) else factors
        off.append(abs(rows[k] @ rest - 1))
    exact = {name: rounded(factor) for name, factor in zip(names, factors, strict=True)}
    exact = exact if "call" in exact or "call" not in counts[0] else {"call": 0.0, **exact}
    return Fit(exact, len(values), FitError(rounded(sum(off) / len(off)), rounded(max(off))))


def fits_of(samples: Sequence[Sample], layer_bytes: Mapping[str, Sequence[int]], core: str) -> dict[str, KernelFits]:
    """The fits of all operators on a core."""
    found = {}
    for kernel in sorted({sample.shape.kernel for sample in samples}):
        own = [sample for sample in samples if sample.shape.kernel == kernel]
        counts = [work_counts(sample.shape, core) for sample in own]
        found[kernel] = KernelFits(
            fitted(counts, [sample.instructions for sample in own]),
            fitted(counts, [sample.cycles for sample in own]),
            round(median(layer_bytes.get(kernel, (0,)))),
        )
    return found


def lines(title: str, fits: Mapping[str, KernelFits]) -> Iterator[str]:
    """A line for each operator: the errors on each shape by a fit to the others."""
    yield f"\n{title:40}{'shapes':>7}{'instructions':>17}{'est. cycles':>17}   mean and largest error"
    for kernel, one in fits.items():
        errors = (one.instructions.error, one.cycles.error)
        shown = "".join(f"{100 * error.mean:8.1f} % {100 * error.most:5.1f} %" for error in errors)
        yield f"{kernel:40}{one.instructions.shapes:7}{shown}"


def main() -> int:
    """Measure every core and library that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-c", "--core", action="append", choices=tuple(ALL_CORES), help="default: all")
    parser.add_argument("-k", "--kernels", action="append", choices=LIBRARIES, help="default: all")
    parser.add_argument("--families", nargs="*", default=(), choices=tuple(grid()), help="of operators; default: all")
    parser.add_argument("--update", action="store_true", help="write the tables of what was measured")

    def body(args: argparse.Namespace, bench: Bench) -> None:
        say_load()
        version = run(["arm-none-eabi-gcc", "-dumpfullversion"], bench.folder).strip()
        for key in args.core or ALL_CORES:
            for library in args.kernels or LIBRARIES:
                core = ALL_CORES[key].cpu
                try:
                    found = measured(Machine(bench, key, library), args.families)
                except ToolError as error:
                    say(f"{core} {library}: {error}")
                    continue
                fits = fits_of([*found.operators, *(found.evals if core in HELIUM else middle(found.evals))], {}, core)
                calls = fits_of(found.calls, found.layer_bytes, core)
                for line in (*lines(f"{core} {library}", fits), *lines("as generated code", calls)):
                    say(line)
                if args.update:
                    commit = CMSIS_NN_REVISION if library == CMSIS_NN else bench.workspace.tflm_revision
                    update(
                        CoreTable(
                            core,
                            f"GCC {version}",
                            (LibraryTable(library, commit, calls, fits, found.function_bytes, found.called),),
                        )
                    )

    return main_of(parser, body)


if __name__ == "__main__":
    sys.exit(main())

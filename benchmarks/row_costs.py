# SPDX-License-Identifier: Apache-2.0
"""Costs of running row by row: python benchmarks/row_costs.py [--models NAME ...] [-c CORE ...] [--update]

Models run row by row as generated code on bare metal in QEMU. Counted are the instructions of the segments' own
functions beside the kernels that they call, to which the steps and the bytes that the planner counts as moved within
row buffers (row_planner.Schedule.cost) are fitted. Cycles are ESTIMATED (benchmarks/kernels.py).

`--update` writes both into tflm_zephyr/data/costs/<core>.json, beside our own kernels.

Needs a west workspace (ZEPHYR_BASE) with the tflite-micro and cmsis-nn modules, arm-none-eabi-gcc and QEMU.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.bare_app import run  # noqa: E402
from benchmarks.common import Bench, add_models, chosen, main_of, say  # noqa: E402
from benchmarks.compiled import models  # noqa: E402
from benchmarks.kernels import ALL_CORES, TIMINGS, Cost, Machine, Trace, disassembled, symbol_of  # noqa: E402
from benchmarks.operator_costs import fitted, update  # noqa: E402
from tests.helpers.architectures import mobilenet  # noqa: E402
from tflm_zephyr.compiler import CompiledModel  # noqa: E402
from tflm_zephyr.costs import (  # noqa: E402
    OWN,
    ROW_BYTES,
    ROW_STEP,
    CoreTable,
    KernelFits,
    LibraryTable,
    core_table,
)


@dataclass(frozen=True)
class Steps:
    """A model's steps, the bytes that the planner counts as moved, and the cost of all of them."""

    steps: int
    moved: int
    own: Cost


def measured(machine: Machine, model: Path, slower: int) -> Steps:
    """The steps of the model by rows at up to `slower` per cent more work. BuildError where it did not run."""
    program, elf = machine.built(model, fast=False, rows=True, slower=slower)
    log = elf.with_suffix(".log")
    machine.run(elf, "-d", "exec,nochain,in_asm", "-D", str(log))
    calls = _calls(program)
    names = re.compile(rf"\d+Layer({'|'.join(map(str, calls))})[A-Z]\w*Rows|RunRows|WindowOf|RowBuffer|MoveDown")
    own = _cost(machine, elf, log, names)
    log.unlink()
    return Steps(sum(calls.values()), _moved(program), own)


def _cost(machine: Machine, elf: Path, log: Path, names: re.Pattern[str]) -> Cost:
    """The cost of the functions with these names. Jumps count where they lead into one."""
    places = _addresses(elf, names)
    code = {at: one for at, one in disassembled(elf).items() if at in places}
    with log.open() as lines:
        costs = Trace(code, TIMINGS[machine.key], frozenset({symbol_of(elf, "main")}), places).read(lines)
    whole = Cost()
    for cost in costs:
        whole.add(cost, 1)
    return whole


def _addresses(elf: Path, names: re.Pattern[str]) -> frozenset[int]:
    """All addresses in functions with these names."""
    found: set[int] = set()
    for line in run(["arm-none-eabi-nm", "-S", elf], elf.parent).splitlines():
        parts = line.split()
        if len(parts) == 4 and parts[2] in "tTwW" and names.search(parts[3]):
            first = int(parts[0], 16) & ~1
            found.update(range(first, first + int(parts[1], 16), 2))
    return frozenset(found)


def _calls(program: CompiledModel) -> dict[int, int]:
    """The number of steps by operator, without those that gather: their functions have the loops of a kernel."""
    return {
        operator: count
        for layer in program.segments
        for operator, count in layer.segment.calls.items()
        if layer.segment.forms[operator].gathering is None
    }


def _models(folder: Path) -> dict[str, Path]:
    """Models that take seconds to trace."""
    nets = {f"mobilenet_{side}": mobilenet(side, wide, colours=1) for side, wide in ((32, 0.5), (48, 0.25), (24, 0.5))}
    for name, data in nets.items():
        (folder / f"{name}.tflite").write_bytes(data)
    return {"digits": models(folder)["digits"], **{name: folder / f"{name}.tflite" for name in nets}}


def _moved(program: CompiledModel) -> int:
    """The bytes that row_planner.Schedule.cost counts."""
    total = 0
    for layer in program.segments:
        segment, forms = layer.segment, list(layer.segment.forms.values())
        held = {buffer.tensor: buffer for buffer in segment.buffers if buffer.at is not None}
        for k, count in segment.steps():
            buffer = held.get(forms[k].output.tensor)
            if buffer is not None and buffer.capacity < forms[k].output.rows:
                total += max(0, buffer.capacity - count) * buffer.row_bytes
    return total


def fits(found: Sequence[Steps]) -> dict[str, KernelFits]:
    """The cost of a step, and of a moved byte, with the distance of each model's estimate from what was measured."""
    counts = [{"steps": one.steps, "bytes": one.moved} for one in found]
    both = [fitted(counts, [getattr(one.own, unit) for one in found]) for unit in ("instructions", "cycles")]
    return {
        shape.kernel: KernelFits(*(replace(fit, factors={"call": 0.0, to: fit.factors[name]}) for fit in both))
        for shape, name, to in ((ROW_STEP, "steps", "call"), (ROW_BYTES, "bytes", "elements"))
    }


def main() -> int:
    """Measure every core that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-c", "--core", action="append", choices=tuple(ALL_CORES), help="default: all")
    parser.add_argument("--slower", type=int, default=20, help="per cent of more work (default: 20)")
    parser.add_argument("--update", action="store_true", help="write the tables of what was measured")
    add_models(parser)

    def body(args: argparse.Namespace, bench: Bench) -> None:
        for key in args.core or ALL_CORES:
            found = []
            for name, model in chosen(_models(bench.folder), args.models).items():
                one = measured(Machine(bench, key), model, args.slower)
                found.append(one)
                say(
                    f"{key:7}{name:24}{one.steps:7,} steps,{one.moved:9,} bytes: {one.own.instructions:9,} instructions"
                )
            core, rows = ALL_CORES[key].cpu, fits(found)
            for name, one in rows.items():
                say(f"{key:7}{name}: {list(one.instructions.factors.values())[-1]} instructions, {one.cycles}")
            if args.update:
                own = core_table(core).library(OWN)
                assert own is not None, "our own kernels were not measured on this core"
                update(CoreTable(core, core_table(core).toolchain, (LibraryTable(OWN, "", calls=rows),)))

    return main_of(parser, body)


if __name__ == "__main__":
    sys.exit(main())

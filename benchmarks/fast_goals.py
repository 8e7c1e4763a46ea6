# SPDX-License-Identifier: Apache-2.0
"""The goals of fast kernels: python benchmarks/fast_goals.py [--models NAME ...] [-c CORE ...]

Each model runs on bare metal in QEMU with CMSIS-NN's kernels at -Ofast on whole tensors, and with the kernels that
`--fast-kernels` picks, on whole tensors and in the RAM that a goal allows, as benchmarks/kernels.py does. A line for
each way: instructions and ESTIMATED cycles as shares of CMSIS-NN's, RAM as a share of the smallest arena of TFLM's own
interpreter (docs/arena.md), and flash beside CMSIS-NN's, code and constants together. Each is beside its goal. Outputs
are compared. `benchmarks/compiled.py --fast-kernels` prints these lines below those of an app.

Needs a west workspace (ZEPHYR_BASE) with the tflite-micro and cmsis-nn modules, arm-none-eabi-gcc and QEMU.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.common import Bench, add_models, main_of, say, say_load  # noqa: E402
from benchmarks.compiled import STOCK_BYTES, Verdict, models_with_goals  # noqa: E402
from benchmarks.kernels import CORES, Machine, Measured  # noqa: E402
from tflm_zephyr.errors import ToolError  # noqa: E402

ANY, DSP, PLAIN = ("m3", "m4", "m33"), ("m4", "m33"), ("m3",)
_MORE_FLASH = 25 * 1024


@dataclass(frozen=True)
class FastGoal:
    """The most instructions and cycles, as shares of CMSIS-NN's; `ram` is a budget, as a share of the stock arena."""

    model: str
    cores: tuple[str, ...]
    instructions: float
    cycles: float | None = None
    ram: float | None = None
    more_flash: int | None = None


GOALS = (
    FastGoal("person_detect", DSP, 0.36, 0.40, ram=0.50, more_flash=_MORE_FLASH),
    FastGoal("person_detect", DSP, 0.45, 0.45, ram=0.22),
    FastGoal("person_detect", PLAIN, 0.72, 0.72, ram=0.18, more_flash=_MORE_FLASH),
    FastGoal("mobilenet", DSP, 0.396, 0.44, ram=0.55),
    FastGoal("mobilenet", DSP, 0.495, 0.495, ram=0.40),
    FastGoal("mobilenet", PLAIN, 0.792, 0.792, ram=0.40),
    FastGoal("kws_ref_model", DSP, 0.55),
    FastGoal("kws_ref_model", PLAIN, 0.90),
    FastGoal("pretrainedResnet_quant", DSP, 0.60),
    FastGoal("pretrainedResnet_quant", PLAIN, 0.85),
    FastGoal("ad01_int8", ANY, 0.80),
)


def goal_lines(machine: Machine, name: str, model: Path, verdict: Verdict) -> Iterator[str]:
    """A line for each goal of the model on the core, and one for every model: no slower than CMSIS-NN's. ToolError."""
    arm = machine.measure(model, fast=False)
    own = machine.measure(model, fast=True)
    where = f"{name} on {machine.core.name}"
    yield f"{where}: {_shown(arm, own, name, where, verdict, FastGoal(name, ANY, 1.0, 1.0))}"
    least = machine.measure(model, fast=True, larger=0)
    flash = verdict.of(f"{where}, no more flash", "flash", _flash(least) / _flash(arm), 1.0)
    cycles = verdict.of(f"{where}, no more flash", "est. cycles", least.whole.cycles / arm.whole.cycles, 1.001)
    yield f"  no more flash: {flash}, {cycles}, {_flash(least) - _flash(arm):+,} bytes"
    for goal in GOALS:
        if goal.model == name and machine.key in goal.cores:
            ram = None if goal.ram is None else int(goal.ram * STOCK_BYTES[name])
            found = own if ram is None else machine.measure(model, fast=True, ram=ram)
            label = "  whole tensors" if ram is None else f"  --ram {ram}"
            yield f"{label}: {_shown(arm, found, name, where, verdict, goal)}"


def _flash(measured: Measured) -> int:
    return measured.code + measured.program.flash_bytes


def _shown(arm: Measured, own: Measured, name: str, where: str, verdict: Verdict, goal: FastGoal) -> str:
    where = where if goal.ram is None else f"{where} in {goal.ram:g} of the RAM"
    found = [
        verdict.of(where, "instructions", own.whole.instructions / arm.whole.instructions, goal.instructions),
        verdict.of(where, "est. cycles", own.whole.cycles / arm.whole.cycles, goal.cycles),
    ]
    stock, more = STOCK_BYTES.get(name), _flash(own) - _flash(arm)
    if stock is not None:
        found.append(verdict.of(where, f"RAM of {stock:,}", own.program.arena_bytes / stock, goal.ram))
    found.append(f"RAM {own.program.arena_bytes:,}, {arm.program.arena_bytes:,} with CMSIS-NN's")
    found.append(f"flash {more:+,} bytes" + (f" (goal {goal.more_flash:,})" if goal.more_flash else ""))
    if goal.more_flash is not None:
        verdict.of(where, "flash more", more / goal.more_flash, 1.0)
    if arm.outputs != own.outputs:
        verdict.missed.append(f"{where}: outputs differ")
    found.append("outputs equal" if arm.outputs == own.outputs else "outputs DIFFER")
    return ", ".join(found)


def main() -> int:
    """Measure every core that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-c", "--core", action="append", choices=tuple(CORES), help="default: all; may be repeated")
    add_models(parser)

    def body(args: argparse.Namespace, bench: Bench) -> None:
        say_load()
        verdict = Verdict()
        for key in args.core or CORES:
            for name, model in models_with_goals(bench.folder, {goal.model for goal in GOALS}, args.models).items():
                try:
                    for line in goal_lines(Machine(bench, key), name, model, verdict):
                        say(line)
                except ToolError as error:
                    say(f"{name} on {key}: {str(error).splitlines()[0][:100]}")
        verdict.show()

    return main_of(parser, body)


if __name__ == "__main__":
    sys.exit(main())
